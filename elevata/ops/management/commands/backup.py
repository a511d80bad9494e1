"""Command that copies the control database to a file."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import FAILED, ProductCommand
from elevata.ops.backups import back_up


class Command(ProductCommand):
    help = (
        "Copy the control database to a new file while it is in use, with a manifest (PATH.json) that has the time, "
        "the SHA-256 and the head of the audit chain; verify_audit --against accepts the manifest. The copy has "
        "metadata, change log, approvals and records, but not the warehouse's tables and exports of removed segments."
    )
    refused_exit = FAILED

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="the file to write; it must not exist")

    def run(self, *, path: Path, **_: Any) -> None:
        backup = back_up(path.absolute())
        self.say(f"{backup.path}: {backup.vendor}, chain at link {backup.head.sequence}, SHA-256 {backup.digest}")
        self.print_json(backup.as_json() | {"path": str(backup.path)})
