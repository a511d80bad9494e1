"""SQL dialects in pages: the choice, files to download, and the statements of a report."""

from functools import cached_property
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from architecture.domain.dialect_statements import RENDERER, as_file
from architecture.domain.operations import Operation
from architecture.selectors.report_details import what_changes
from architecture.services.dialects import statements_of_report
from architecture.services.reports import operations_of
from architecture.views.refusals import as_shown
from architecture.views.reports import OPERATIONS_SHOWN, ReportPage, find
from elevata.core.errors import ProductError
from elevata.web.views import DetailPage


def requested_dialect(request: HttpRequest, *, required: bool = False) -> str:
    """Return the dialect of the address; empty without one. Raise Http404 for an unknown one."""
    name = request.GET.get("dialect", "")
    if name not in RENDERER.get().titles and (name or required):
        raise Http404(f"There is no dialect {name[:100]!r}.")
    return name


def sql_file(text: str, name: str) -> HttpResponse:
    """Return statements as a file to download."""
    response = HttpResponse(text, content_type="application/sql; charset=utf-8")
    response.headers["Content-Disposition"] = content_disposition_header(True, name)
    return response


class ReportSql(ReportPage, DetailPage):
    """Page of a report's statements in a dialect; the first one unless the address names another."""

    template_name = "architecture/report_sql.html"

    @cached_property
    def dialect(self) -> str:
        return requested_dialect(self.request) or next(iter(RENDERER.get().titles))

    def context(self) -> dict[str, Any]:
        operations: list[tuple[Operation, str, list[str]]] = []
        refused = None
        try:
            pairs = zip(operations_of(self.row), statements_of_report(self.row, self.dialect), strict=True)
            operations = [(operation, what_changes(operation), statements) for operation, statements in pairs]
        except ProductError as problem:
            refused = as_shown(problem)
        limit = None if "all" in self.request.GET else OPERATIONS_SHOWN
        return super().context() | {
            "tab": "reports",
            "dialect": self.dialect,
            "dialects": RENDERER.get().titles,
            "operations": operations[:limit],
            "operation_count": len(operations),
            "refused": refused,
        }


@require_safe
def report_sql_file(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Return the report's statements in a dialect as one file; without any, the page that gives the reason."""
    report, dialect = find(report_id), requested_dialect(request, required=True)
    try:
        pairs = zip(operations_of(report), statements_of_report(report, dialect), strict=True)
    except ProductError:
        return redirect(f"{reverse('report_sql', args=[report_id])}?{urlencode({'dialect': dialect})}")
    return sql_file(as_file(pairs), f"report-{report.fingerprint[:12]}.{dialect}.sql")
