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
    events = Event.objects.filter(kind=Kind.REPORT_OUTDATED, subject_kind="report")
    waiting = ChangeReport.objects.filter(
        status__in=(workflow.OPEN, workflow.APPROVED), executions__isnull=True
    ).select_related("environment", "created_by")
    known = set(events.values_list("subject_key", flat=True))
    reports = [row for row in waiting.defer("document", "content") if str(row.report_id) not in known]
    refusals = refusals_of(reports, check=True)
    outdated = [report for report in reports if refusals[report.pk]]
    for report in outdated:
        with transaction.atomic():
            # Another sweep may have been faster.
            ChangeReport.objects.select_for_update().get(pk=report.pk)
            if not events.filter(subject_key=str(report.report_id)).exists():
                tell_outdated(report, refusals[report.pk]["message"])
    return len(outdated)
