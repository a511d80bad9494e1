"""Findings for the health page, the API and the command."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import Case, Count, QuerySet, Value, When
from django.urls import reverse
from django.utils.module_loading import import_string

from architecture.domain import workflow
from architecture.domain.health import Concern, Severity
from architecture.models import ChangeReport, HealthFinding
from architecture.selectors.environments import reports_to_execute

_GRAVEST_FIRST = Case(*(When(severity=level, then=Value(rank)) for rank, level in enumerate(Severity)))


def findings() -> QuerySet[HealthFinding]:
    """Return the stored findings with their dataset and column, the gravest first."""
    rows = HealthFinding.objects.select_related("dataset__schema", "column__dataset__schema")
    return rows.order_by(_GRAVEST_FIRST, "code", "pk")


def counts() -> dict[str, int]:
    """Return the number of stored findings by severity."""
    rows = HealthFinding.objects.order_by().values_list("severity").annotate(Count("pk"))
    return {level.value: 0 for level in Severity} | dict(rows)


def concerns() -> list[Concern]:
    """Return the findings about reports and schedules (``HEALTH_CHECKS``)."""
    return [concern for name in settings.HEALTH_CHECKS for concern in import_string(name)()]


def outdated_approvals() -> list[Concern]:
    """Return the approved reports that the newest sweep found outdated, and that were not executed."""
    rows = reports_to_execute().filter(status=workflow.APPROVED).exclude(outdated={})
    return [_outdated(report) for report in rows.order_by("-pk")]


def _outdated(report: ChangeReport) -> Concern:
    text = f"The approved report can no longer be executed: {report.outdated['message']}"
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
