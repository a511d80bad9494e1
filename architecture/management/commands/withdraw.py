"""Command that withdraws a blocked change report."""

from argparse import ArgumentParser
from typing import Any

from architecture.management.report_commands import REFUSED_EXIT, report_argument
from architecture.selectors.reports import report_named
from architecture.services.approvals import withdraw_report
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import ProductCommand


class Command(ProductCommand):
    help = (
        "Withdraw a blocked change report as the user of the token in ELEVATA_TOKEN, an author of its changes or an "
        "approver. Ends with 0, or 2 if it is refused (with the reason's code)."
    )
    refused_exit = REFUSED_EXIT

    def arguments(self, parser: ArgumentParser) -> None:
        report_argument(parser)
        parser.add_argument("--note", required=True, metavar="TEXT", help="reason, stored in the change log")

    def run(self, *, report: str, note: str, **_: Any) -> None:
        row = withdraw_report(report=report_named(report), user=current_actor().user, reason=note)
        self.print_json({"report": str(row.report_id), "fingerprint": row.fingerprint, "status": row.status})
        self.say(f"report is {row.status}")
