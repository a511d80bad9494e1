"""Command that verifies an export of the change log from the file alone."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, INVALID, CommandExit, ProductCommand
from elevata.audit.export_format import Broken
from elevata.audit.services.export_files import read_export


class Command(ProductCommand):
    help = (
        "Verify all hashes of an export of the change log, from the file alone. Ends with 0 if all are right, 1 with "
        "the first problem if not, 4 if the file is no export. To compare it with this installation's chain, use "
        "verify_audit --against."
    )
    refused_exit = INVALID
    takes_user = False
    requires_system_checks = ()

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def run(self, *, file: Path, **_: Any) -> None:
        try:
            exported = read_export(file)
        except Broken as broken:
            self.print_json({"verified": False, "problem": broken.problem.as_json()})
            raise CommandExit(FAILED, f"{file}: {broken.problem.message}", broken.problem.code) from None
        self.print_json({"verified": True, **exported.as_json()})
        rows = sum(exported.rows.values())
        waiting = f", {exported.unlinked} of them not linked when it was made" if exported.unlinked else ""
        self.say(
            f"{file}: {exported.content} of {rows + exported.unlinked} rows holds{waiting}; chain {exported.chain.hash}"
        )
