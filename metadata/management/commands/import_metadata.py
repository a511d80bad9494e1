"""Command that imports metadata from YAML and CSV files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NoReturn

from elevata.accounts.cli import INVALID, CommandExit, ProductCommand, printable
from elevata.core.errors import Refusals
from metadata.services.exchange.import_rows import CREATED, UNCHANGED, UPDATED
from metadata.services.exchange.metadata_files import import_metadata


class Command(ProductCommand):
    help = (
        "Import metadata from YAML files, or a CSV file of datasets or sources: all of it or, on any fault, nothing. "
        "What the files do not mention is left alone. Ends with 4 on invalid input, naming file, line and field of "
        "every fault."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", type=Path, help="a folder of YAML files, or one YAML or CSV file")
        parser.add_argument("--check", action="store_true", help="only show what would change")

    def run(self, *, path: Path, check: bool, **options: Any) -> None:
        try:
            report = import_metadata(path, check=check)
        except Refusals as refused:
            self._refuse(refused)
        for did, kind, name in report.changes:
            self.say(f"{did} {kind} {name}")
        for name, finding in report.findings:
            self.say(f"found {name}: {finding}")
        counts = ", ".join(f"{report.count(did)} {did}" for did in (CREATED, UPDATED, UNCHANGED))
        self.say(f"{counts}; nothing written" if check else counts)
        self.print_json({"check": check, **report.as_json()})

    def _refuse(self, refused: Refusals) -> NoReturn:
        """Print a line for each fault that is listed; end with their number."""
        faults = [error.as_json() for error in refused.listed]
        self.print_json({"error": {"code": refused.code, "message": refused.message, "faults": faults}})
        for error in refused.listed:
            self.stderr.write(printable(error.one_line(), self.stderr), style_func=str)
        more = refused.total - len(refused.listed)
        raise CommandExit(INVALID, f"{f'{more:,} more; ' if more else ''}{refused.message}", refused.code) from refused
