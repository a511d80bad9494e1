"""Change reports and pages of architecture control that the search finds."""

from typing import Any

from django.db.models import CharField, QuerySet, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Concat
from django.urls import reverse

from architecture.models import ChangeReport, Execution
from elevata.web.search import PageEntry, PageKind, RowKind

_LONG = ("report__document", "report__content")


def _reports(user: Any) -> QuerySet:
    rows = ChangeReport.objects.select_related("environment").defer("document", "content")
    return rows.annotate(scope_name=KT("scope__name"))


def _executions(user: Any) -> QuerySet:
    rows = Execution.objects.select_related("environment", "report").defer("planned", *_LONG)
    number = Cast("pk", CharField())
    return rows.annotate(search_name=Concat(Value("execution "), number, output_field=CharField()))


KINDS = (
    RowKind(
        "report",
        "Report",
        _reports,
        key=lambda row: str(row.report_id),
        page=lambda row: reverse("report_page", args=[row.report_id]),
        called="title",
        aliases=("fingerprint",),
        texts=("scope_name",),
        within=lambda row: row.environment.name,
        similar=True,
        api="api-report-detail",
    ),
    RowKind(
        "execution",
        "Execution",
        _executions,
        key=lambda row: str(row.pk),
        page=lambda row: reverse("execution_page", args=[row.pk]),
        called="search_name",
        texts=("reason", "report__title"),
        within=lambda row: row.report.title if row.report is not None else row.environment.name,
        api="api-execution-detail",
    ),
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Change reports", "report_list", "architecture approvals differences plan"),
            PageEntry("Favourite reports", "report_list", "marked star", "?favourite=true"),
            PageEntry("Executions", "execution_list", "records"),
            PageEntry("Drift", "drift_page", "warehouse observed differences"),
            PageEntry("Health", "health_page", "findings checks problems"),
            PageEntry("Inbox", "inbox", "waiting for you approvals"),
            PageEntry("Change policy", "own_policy", "approvals environment rules"),
        ),
    ),
)
