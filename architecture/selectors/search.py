"""Change reports and pages of architecture control that the search finds."""

from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KT
from django.urls import reverse

from architecture.models import ChangeReport
from elevata.web.search import PageEntry, PageKind, RowKind


def _reports(user: Any) -> QuerySet:
    rows = ChangeReport.objects.select_related("environment").defer("document", "content")
    return rows.annotate(scope_name=KT("scope__name"))


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
        api="api-report-detail",
    ),
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Change reports", "report_list", "architecture approvals differences plan"),
            PageEntry("Executions", "execution_list", "records"),
            PageEntry("Drift", "drift_page", "warehouse observed differences"),
            PageEntry("Health", "health_page", "findings checks problems"),
            PageEntry("Inbox", "inbox", "waiting for you approvals"),
            PageEntry("Change policy", "own_policy", "approvals environment rules"),
        ),
    ),
)
