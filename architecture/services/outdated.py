"""Search for reports that became outdated while they waited, so that their users are notified."""

from django.db import transaction

from architecture.domain import workflow
from architecture.models import ChangeReport
from architecture.selectors.inbox import refusals_of
from architecture.services.notifications import tell_outdated
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Event


def tell_outdated_reports() -> int:
    """Notify once of each report that became outdated before its execution; return the number of such reports."""
    told = Event.objects.filter(kind=Kind.REPORT_OUTDATED, subject_kind="report").values_list("subject_key", flat=True)
    waiting = ChangeReport.objects.filter(
        status__in=(workflow.OPEN, workflow.APPROVED), executions__isnull=True
    ).select_related("environment", "created_by")
    known = set(told)
    reports = [row for row in waiting.defer("document", "content") if str(row.report_id) not in known]
    refusals = refusals_of(reports, check=True)
    outdated = [report for report in reports if refusals[report.pk]]
    for report in outdated:
        with transaction.atomic():
            tell_outdated(report, refusals[report.pk]["message"])
    return len(outdated)
