"""Command that imports metadata from YAML files."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import INVALID, ProductCommand
from metadata.services.exchange.import_rows import CREATED, UNCHANGED, UPDATED
from metadata.services.exchange.metadata_files import import_metadata


class Command(ProductCommand):
    help = (
        "Import metadata from YAML files: all of it or, on any error, nothing. What the files do not "
        "mention is left alone. Ends with 4 on invalid input, naming file, line and field."
    )
    refused_exit = INVALID

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", type=Path, help="a folder of YAML files, or one file")
        parser.add_argument("--check", action="store_true", help="only show what would change")

    def run(self, *, path: Path, check: bool, **options: Any) -> None:
        report = import_metadata(path, check=check)
        for did, kind, name in report.changes:
            self.say(f"{did} {kind} {name}")
        for name, finding in report.findings:
            self.say(f"found {name}: {finding}")
        counts = ", ".join(f"{report.count(did)} {did}" for did in (CREATED, UPDATED, UNCHANGED))
        self.say(f"{counts}; nothing written" if check else counts)
        self.print_json({"check": check, **report.as_json()})
