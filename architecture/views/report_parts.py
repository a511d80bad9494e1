"""Parts of a report's page that come by themselves: whether it holds, who changed what, before and after, readers."""

from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture import change_log
from architecture.domain.reports.comparison import compare
from architecture.downstream import touched_by
from architecture.models import ChangeReport
from architecture.report_details import names_of, scope_of
from architecture.services.reports.reports import operations_of
from architecture.views.report_status import state_of
from architecture.views.reports import CHANGES_SHOWN, OPERATIONS_SHOWN, find

COMPARED = 20


@never_cache
@require_safe
def report_standing(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Show whether the report is up to date; nothing (204) while the page is.

    ``mark`` is how people stood with it when the page was made. Where that is another one by now, the page
    is told so, with the buttons as they are now, and asks no more.
    """
    now = state_of(find(report_id))
    if now.alive and request.GET.get("seen") == f"{now.mark}.{now.signal}":
        return HttpResponse(status=204)
    moved_on = request.GET.get("mark", now.mark) != now.mark
    context = now.context(request.user, ask=True)
    # While it holds, the buttons are left alone: somebody may be about to press one.
    differs = moved_on or not now.alive or context["refusal"] or "was" in request.GET
    context |= {
        "report": now.report,
        "preview": now.preview,
        "moved_on": moved_on,
        "oob": bool(request.htmx and differs),
    }
    return render(request, "architecture/report_standing.html", context)


@never_cache
@require_safe
def report_behind(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Show the change-log entries that the report brings to the warehouse."""
    report = find(report_id)
    return _part(request, report, "behind", {"behind": change_log.behind(report, limit=CHANGES_SHOWN)})


@never_cache
@require_safe
def report_differences(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """The datasets that the report changes, before and after."""
    report = find(report_id)
    page = Paginator(compare(report.content), COMPARED).get_page(request.GET.get("page"))
    names = names_of({key for pair in page.object_list for key in pair.input_keys})
    context = {
        "told": [pair.told(names) for pair in page.object_list],
        "page": page,
        "by_number": dict(enumerate(operations_of(report), start=1)),
        "operations_shown": OPERATIONS_SHOWN,
    }
    return _part(request, report, "differences", context)


@never_cache
@require_safe
def report_downstream(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """The datasets that the report changes with all that read them, on the lineage graph."""
    report = find(report_id)
    return _part(request, report, "downstream", {"touched": touched_by(report)})


def _part(request: HttpRequest, report: ChangeReport, name: str, context: dict[str, Any]) -> HttpResponse:
    """The part alone for its page; without scripts a page of its own."""
    template = f"architecture/report_{name}.html"
    context = context | {"report": report}
    if request.htmx:
        return render(request, template, context)
    whole = context | {"part": template, "scope": scope_of(report)}
    return render(request, "architecture/report_part.html", whole)
