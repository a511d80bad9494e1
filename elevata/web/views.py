"""Pages that belong to no part of the product: home, sign-in, health, errors."""

import hashlib
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.services import current_environment
from elevata.jobs.selectors import live_workers
from elevata.web import error_pages
from elevata.web.deleted_objects import what_is_gone
from elevata.web.request_limits import body_too_big
from loader import statistics
from loader.selectors import active_executions, active_runs, newest_runs, schedules
from metadata.computed_fields import layer_counts
from metadata.selectors import systems

LATEST, COMING = 8, 5


@never_cache
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show the state of the warehouse.

    Described datasets, active work, problems, and first steps on an empty installation.
    """
    context = {"system_count": systems().count(), "layers": layer_counts(), **_now(request)}
    return render(request, "home.html", context)


@never_cache
@require_safe
def home_now(request: HttpRequest) -> HttpResponse:
    """The part of the home page that changes; nothing (204) while it is as the page has it already."""
    context = _now(request)
    if context["seen"] == request.GET.get("seen") and context["busy"]:
        return HttpResponse(status=204)
    return render(request, "home_now.html", context)


@never_cache
@require_safe
def home_warehouse(request: HttpRequest) -> HttpResponse:
    """The part of the home page that tells of the warehouse: it takes a moment, so it follows the page."""
    context = {"warehouse": statistics.warehouse(), "drift": statistics.drift_glance(current_environment())}
    return render(request, "home_warehouse.html", context)


def _now(request: HttpRequest) -> dict[str, Any]:
    """Return the active work as HTML, whether there is any, and a digest for the next request's comparison."""
    environment = current_environment()
    runs = list(active_runs()[:LATEST])
    under_way = list(active_executions(environment=environment)[:LATEST])
    leases = statistics.leases_in_force(environment)
    due = schedules(environment=environment).filter(active=True).order_by("next_at", "pk")
    context = {
        "latest": statistics.with_totals(newest_runs()[:LATEST]),
        "runs": runs,
        "executions": under_way,
        "leases": leases,
        "coming": list(due[:COMING]),
        "troubles": statistics.troubles(),
        "failing": statistics.failing_schedules(environment),
        "alive": live_workers().exists(),
    }
    html = render_to_string("home_state.html", context, request=request)
    seen = hashlib.sha256(html.encode()).hexdigest()[:16]
    return {"now": html, "seen": seen, "busy": bool(runs or under_way or leases.count)}


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The web process answers. It says nothing about database or worker."""
    return HttpResponse("ok\n", content_type="text/plain")


# --- errors ----------------------------------------------------------------------------------


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return body_too_big(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    return error_pages.answer(
        request, status=400, title="Bad request", detail="The request could not be understood.", code="bad_request"
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403: whose account it is that may not, and what it takes."""
    said, more = str(exception), {"account": request.user.get_username()}
    return error_pages.answer(
        request, status=403, title="Not allowed", detail=said, code="permission_denied", more=more
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404; of what was deleted: what it was, who deleted it and when."""
    said = "There is nothing at this address."
    more = {"gone": what_is_gone(request)}
    return error_pages.answer(request, status=404, title="Not found", detail=said, code="not_found", more=more)


def server_error(request: HttpRequest) -> HttpResponse:
    """500; or 503, where the reason is that the control database does not answer."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return error_pages.database_down(request)
    return error_pages.answer(request, status=500, title="Server error", detail="", code="server_error")
