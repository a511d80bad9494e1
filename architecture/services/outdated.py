"""Check that reports are up to date: stored with each report for pages and commands, and told to its users."""

from django.db import transaction

from architecture.models import ChangeReport
from architecture.selectors.outdated_reports import CHECK_SECONDS, refusals_of
from architecture.selectors.reports import reports_to_execute
from architecture.services.notifications import tell_outdated
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Event


def check_reports(*, seconds: float = CHECK_SECONDS) -> int:
    """Check within ``seconds`` which reports are outdated before their execution, and store it.

    Users are notified once of each report. Return the number of reports that became outdated.
    """
    reports = list(reports_to_execute().select_related("created_by").order_by("pk"))
    refusals = refusals_of(reports, check=True, seconds=seconds)
    became = 0
    for report in reports:
        refusal = refusals[report.pk]
        if refusal is not None and refusal != report.outdated:
            became += _store(report, refusal)
    return became


def _store(report: ChangeReport, refusal: dict[str, str]) -> bool:
    with transaction.atomic():
        # Another sweep may have been faster.
        before = ChangeReport.objects.select_for_update().only("outdated").get(pk=report.pk).outdated
        ChangeReport.objects.filter(pk=report.pk).update(outdated=refusal)
        is_reported = Event.objects.filter(
            kind=Kind.REPORT_OUTDATED, subject_kind="report", subject_key=str(report.report_id)
        ).exists()
        if refusal and not is_reported:
            tell_outdated(report, refusal["message"])
    return bool(refusal) and not before
