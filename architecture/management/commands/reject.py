"""Say no to a change report."""

from architecture.management.decision_command import DecidingCommand
from architecture.models import Approval
from architecture.services.reports.approvals import reject


class Command(DecidingCommand):
    help = (
        "Reject a change report as the person whose personal token is in ELEVATA_TOKEN. Ends with 0, or 2 if it is "
        "refused (with the reason's code)."
    )

    def decide(self, **asked: object) -> Approval:
        return reject(**asked)
