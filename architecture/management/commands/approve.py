"""Command that approves a change report."""

from argparse import ArgumentParser
from typing import Any

from architecture.domain.decisions import ACCEPTABLE
from architecture.management.report_commands import DecidingCommand
from architecture.models import Approval
from architecture.services.approvals import approve


class Command(DecidingCommand):
    help = (
        "Approve a change report as the user of the token in ELEVATA_TOKEN. Authors cannot approve their own "
        "changes. Ends with 0, or 2 if it is refused (with the reason's code)."
    )

    acceptable = ACCEPTABLE

    def arguments(self, parser: ArgumentParser) -> None:
        super().arguments(parser)
        parser.add_argument(
            "--accept-lost-readers",
            dest="readers_lost",
            action="store_true",
            help="let tables lose the readers that the report names, instead of rewriting the tables",
        )

        parser.add_argument(
            "--accept-broken-contracts",
            dest="contracts_broken",
            action="store_true",
            help="accept that the report breaks the contracts it names",
        )

    def decide(self, **asked: Any) -> Approval:
        return approve(**asked)
