"""Command that verifies an export of the change log from the file alone."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.audit.domain import Broken
from elevata.audit.services.export_files import read_export


class Command(ProductCommand):
    help = (
        "Recompute every hash in an export of the change log from the file alone. Ends with 0 if all hold, 1 if one "
        "does not, naming the first bad row, 4 if the file is no export. Whether the chain it names is this "
        "installation's is for verify_audit --against to say."
    )
    refused_exit = INVALID
    takes_user = False
    requires_system_checks = ()

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def run(self, *, file: Path, **_: Any) -> None:
        try:
            found = read_export(file)
        except Broken as broken:
            self.print_json({"verified": False, "problem": broken.problem.as_json()})
            raise CommandExit(FAILED, f"{file}: {broken.problem.message}", broken.problem.code) from None
        self.print_json({"verified": True, **found.as_json()})
        rows = sum(found.rows.values())
        waiting = f", {found.unlinked} of them not linked when it was made" if found.unlinked else ""
        self.say(f"{file}: {found.content} of {rows + found.unlinked} rows holds{waiting}; chain {found.chain.hash}")
