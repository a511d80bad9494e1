"""Command that copies the control database to a file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, ProductCommand
from elevata.ops.backups import back_up


class Command(ProductCommand):
    help = (
        "Copy the control database to a new file while it is in use, with a note beside it (PATH.json) that says "
        "when, its SHA-256, and where the audit chain ended: verify_audit --against takes the note. Metadata, change "
        "log, approvals and records are all in it; the warehouse's tables and the exports of removed segments are not."
    )
    refused_exit = FAILED

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="the file to write; it must not be there yet")

    def run(self, *, path: Path, **_: Any) -> None:
        backup = back_up(path.absolute())
        self.say(f"{backup.path}: {backup.vendor}, chain at link {backup.head.sequence}, SHA-256 {backup.digest}")
        self.print_json(backup.as_json() | {"path": str(backup.path)})
