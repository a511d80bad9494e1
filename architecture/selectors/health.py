"""Findings for the health page, the API and the command."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from architecture.domain import report_states
from architecture.domain.health import Concern, Severity
from architecture.filtersets import GRAVEST_FIRST
from architecture.models import ChangeReport, HealthFinding
from architecture.selectors.reports import reports_to_execute
from elevata.core.registry import Registered
from metadata.domain.sensitivity import SENSITIVE
from metadata.models import SourceColumn, SourceDataset


def findings() -> QuerySet[HealthFinding]:
    """Return the stored findings with their dataset and column, the most severe first."""
    rows = HealthFinding.objects.select_related("dataset__schema", "column__dataset__schema")
    return rows.order_by(GRAVEST_FIRST, "code", "pk")


def counts() -> dict[str, int]:
    """Return the number of stored findings by severity."""
    rows = HealthFinding.objects.order_by().values_list("severity").annotate(Count("pk"))
    return {level.value: 0 for level in Severity} | dict(rows)


# Functions that return findings about what is not metadata.
CHECKS: Registered[Callable[[], Iterable[Concern]]] = Registered()


def concerns() -> list[Concern]:
    """Return the findings about reports, sources and schedules."""
    return [concern for check in CHECKS for concern in check()]


def outdated_approvals() -> list[Concern]:
    """Return the approved reports that the newest sweep found outdated, and that were not executed."""
    rows = reports_to_execute().filter(status=report_states.APPROVED).exclude(outdated={})
    return [_outdated(report) for report in rows.order_by("-pk")]


# Listed findings of each rule.
MOST_CONCERNS = 50


def first_concerns(concerns: Iterable[Concern]) -> list[Concern]:
    """Return the first findings of a rule; if there are more, the last one says so."""
    listed = list(islice(concerns, MOST_CONCERNS + 1))
    if len(listed) <= MOST_CONCERNS:
        return listed
    *others, last = listed[:MOST_CONCERNS]
    return [*others, replace(last, text=f"{last.text} There are more such findings than the {MOST_CONCERNS} listed.")]


def unread_sources() -> list[Concern]:
    """Return the active sources that no active dataset reads."""
    rows = _active_sources().exclude(feeds__dataset__active=True)
    return _of_sources(rows, "orphan", Severity.HINT, "Nothing reads the source.", "source_page")


def unowned_sources() -> list[Concern]:
    """Return the active sources with personal or sensitive columns that have no owner, nor their system."""
    personal = SourceColumn.objects.filter(Q(pii=True) | Q(sensitivity__in=SENSITIVE), active=True)
    rows = _active_sources().filter(owner="", system__owner="", pk__in=personal.values("dataset"))
    text = "Nobody owns the personal data of the source."
    return _of_sources(rows, "no_owner", Severity.WARNING, text, "source_edit", "#id_owner")


def _active_sources() -> QuerySet[SourceDataset]:
    return SourceDataset.objects.filter(active=True, system__active=True).select_related("system").order_by("pk")


def _of_sources(
    rows: QuerySet[SourceDataset], code: str, severity: Severity, text: str, page: str, place: str = ""
) -> list[Concern]:
    concerns = (
        Concern(code, severity, f"Source {source}", text, f"{reverse(page, args=[source.key])}{place}")
        for source in rows[: MOST_CONCERNS + 1]
    )
    return first_concerns(concerns)


def _outdated(report: ChangeReport) -> Concern:
    text = f"The approved report can no longer be executed: {report.outdated['message']}"
    link = reverse("report_page", args=[report.report_id])
    return Concern("outdated_approval", Severity.WARNING, f"Report of {report.title}", text, link)


# Pages on which fields of a dataset are corrected; other fields of it, and of a column, have their forms.
_PAGES = {"inputs": "dataset_inputs", "history_policy": "dataset_policy", "columns": "dataset_page"}


def link_of(finding: HealthFinding) -> str:
    """Return the path of the form or page where a finding is corrected, with the field's id."""
    if finding.column is not None:
        page = "column_rename" if finding.field == "name" else "column_edit"
        field = "type" if finding.field == "data_type" else finding.field
        return f"{reverse(page, args=[finding.column.key])}#id_{field}"
    dataset = finding.dataset
    if dataset.select and finding.field != "owner":
        return f"{reverse('model_edit', args=[dataset.key])}#id_select"
    field, _, part = finding.field.partition(".")
    if field == "active":
        return reverse("dataset_page", args=[dataset.key])
    page = "dataset_rename" if field == "name" else _PAGES.get(field, "dataset_edit")
    return f"{reverse(page, args=[dataset.key])}#{_place_of(field, part)}"


def _place_of(field: str, part: str) -> str:
    if field != "history_policy":
        return field if field == "columns" else f"id_{field}"
    name, _, word = part.partition(".")
    return f"id_label_{word or 'new'}" if name == "state_labels" else f"id_{part or 'historize'}"


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
            "link": link_of(row),
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
            "link": concern.link,
        }
        for concern in concerned
    ]
    return stored + others
