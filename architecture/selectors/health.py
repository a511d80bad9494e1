"""Findings for the health page, the API and the command."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import Count, QuerySet
from django.urls import reverse
from django.utils.module_loading import import_string

from architecture.domain import workflow
from architecture.domain.health import Concern, Severity
from architecture.filtersets import GRAVEST_FIRST
from architecture.models import ChangeReport, HealthFinding
from architecture.selectors.inbox import known_refusal, signal
from elevata.jobs import states


def findings() -> QuerySet[HealthFinding]:
    """Return the stored findings with their dataset and column, the gravest first."""
    rows = HealthFinding.objects.select_related("dataset__schema", "column__dataset__schema")
    return rows.order_by(GRAVEST_FIRST, "code", "pk")


def counts() -> dict[str, int]:
    """Return the number of stored findings by severity."""
    rows = HealthFinding.objects.order_by().values_list("severity").annotate(Count("pk"))
    return {level.value: 0 for level in Severity} | dict(rows)


def concerns() -> list[Concern]:
    """Return the findings that are not stored (``HEALTH_CHECKS``)."""
    return [concern for name in settings.HEALTH_CHECKS for concern in import_string(name)()]


def outdated_approvals() -> list[Concern]:
    """Return the approved reports that are known to be outdated, and were not executed."""
    approved = ChangeReport.objects.filter(status=workflow.APPROVED).exclude(executions__status__in=_KEPT)
    rows = approved.select_related("environment").defer("document", "content").order_by("-pk")
    signals: dict[int, str] = {}
    outdated = []
    for report in rows:
        if report.environment_id not in signals:
            signals[report.environment_id] = signal(report.environment_id)
        refusal = known_refusal(report.report_id, signals[report.environment_id])
        if refusal:
            outdated.append(_outdated(report, refusal))
    return outdated


# An execution in another state is the report's, and decides on it.
_KEPT = sorted(states.STEPS.keys() - {states.ABANDONED})


def _outdated(report: ChangeReport, refusal: dict[str, Any]) -> Concern:
    text = f"The approved report can no longer be executed: {refusal['message']}"
    link = reverse("report_page", args=[report.report_id])
    return Concern("outdated_approval", Severity.WARNING, f"Report of {report.title}", text, link)


def as_json(rows: Iterable[HealthFinding], concerned: Iterable[Concern]) -> list[dict[str, Any]]:
    """Return findings for the command."""
    stored = [
        {
            "code": row.code,
            "severity": row.severity,
            "subject": str(row.column or row.dataset),
            "field": row.field,
            "text": row.text,
            "fix": row.fix,
        }
        for row in rows
    ]
    others = [
        {
            "code": concern.code,
            "severity": str(concern.severity),
            "subject": concern.subject,
            "field": "",
            "text": concern.text,
            "fix": "",
        }
        for concern in concerned
    ]
    return stored + others
