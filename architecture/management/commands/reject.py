"""Command that rejects a change report."""

from typing import Any

from architecture.management.report_commands import DecidingCommand
from architecture.models import Approval
from architecture.services.approvals import reject


class Command(DecidingCommand):
    help = (
        "Reject a change report as the user of the token in ELEVATA_TOKEN. Ends with 0, or 2 if it is "
        "refused (with the reason's code)."
    )

    def decide(self, **asked: Any) -> Approval:
        return reject(**asked)
