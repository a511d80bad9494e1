"""Refreshes on a page's behalf: the page waits for the result, then goes on with its purpose."""

from collections.abc import Collection
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from architecture.domain.reports.scope import Scope
from architecture.views.decisions import builders_go_on
from architecture.views.reports import find
from elevata.jobs.selectors import live_workers
from loader.models import ReadRequest
from loader.services.queries.refreshes import DRIFT, PREVIEW, REPORT, looks_of, request_look
from loader.views.reports.report_creation import make_preview_of, make_report

_TITLES = {REPORT: "Making a report", PREVIEW: "Making a preview", DRIFT: "Looking for drift"}


def look_first(
    request: HttpRequest, keys: Collection[str], then: dict[str, Any], *, sizes: bool = False
) -> HttpResponse:
    """Request a refresh of these tables (``sizes``: measured, too), and redirect to the page that waits for it."""
    return redirect("look_page", request_look(keys=keys, then=then, user=request.user, sizes=sizes).pk)


@never_cache
@require_safe
def look_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the page that waits for a refresh."""
    return render(request, "architecture/look_page.html", _context(_look(request, pk)))


@never_cache
@require_safe
def look_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of it that changes; nothing (204) while the page is up to date."""
    read = _look(request, pk)
    if not read.is_finished and request.GET.get("seen") == _seen(read):
        return HttpResponse(status=204)
    return render(request, "architecture/look_live.html", _context(read))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@builders_go_on
def look_go(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on with the purpose of the refresh. By POST, because something is made."""
    read = _look(request, pk)
    if request.method != "POST" or not read.is_finished:
        return redirect("look_page", read.pk)
    then = read.arguments["then"]
    if then["do"] == REPORT:
        return make_report(request, Scope(**then["scope"]))
    if then["do"] == PREVIEW:
        return make_preview_of(request, find(then["report"]))
    return redirect("drift_page")


def _look(request: HttpRequest, pk: int) -> ReadRequest:
    return get_object_or_404(looks_of(request.user), pk=pk)


def _seen(read: ReadRequest) -> str:
    """Return the state that the waiting page shows; as long as it is the same, nothing is sent."""
    return f"{read.status}-{'alive' if live_workers().exists() else 'alone'}"


def _context(read: ReadRequest) -> dict[str, Any]:
    then = read.arguments["then"]
    context = {"read": read, "then": then, "title": _TITLES[then["do"]], "tables": len(read.arguments["tables"])}
    if read.is_finished:
        return context | {"failed": read.status == ReadRequest.Status.FAILED}
    seen = _seen(read)
    return context | {"seen": seen, "alone": seen.endswith("alone")}
