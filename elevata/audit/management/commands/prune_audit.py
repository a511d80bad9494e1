"""Command that removes exported change-log entries."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from elevata.accounts.cli import REFUSED, ProductCommand
from elevata.audit.services.retention import prune


class Command(ProductCommand):
    help = (
        "Remove the entries of a segment that export_audit --segment wrote, and record the removal and the file in the "
        "chain. For admins, by their token in ELEVATA_TOKEN. Only the file has the entries then: keep it, and verify "
        "it with verify_audit --exports. Ends with 0 if they are removed, 2 if the command is refused."
    )
    refused_exit = REFUSED

    def arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--reason", required=True, metavar="TEXT", help="reason, stored in the chain")

    def run(self, *, file: Path, reason: str, **_: Any) -> None:
        segment = prune(file, reason=reason)
        self.say(f"{segment.rows} entries removed; {segment} are in {segment.file} ({segment.digest})")
        self.print_json(segment.content())
