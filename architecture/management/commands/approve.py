"""Say yes to a change report."""

from architecture.management.decision_command import DecidingCommand
from architecture.models import Approval
from architecture.services.reports.approvals import approve


class Command(DecidingCommand):
    help = (
        "Approve a change report as the person whose personal token is in ELEVATA_TOKEN. Who had a hand in the "
        "change cannot. Ends with 0, or 2 if it is refused (with the reason's code)."
    )

    def decide(self, **asked: object) -> Approval:
        return approve(**asked)
