"""Pages that belong to no part of the product: home, sign-in, health, errors."""

import sys
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_safe

from elevata import problems
from loader import figures
from loader.selectors import active_runs, load_runs
from metadata.selectors import systems
from metadata.shown import layer_counts

LATEST = 8


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What is there, what happened last, what failed, and the first steps where nothing is there yet."""
    latest = list(load_runs().order_by("-requested_at", "-pk")[:LATEST])
    context = {
        "systems": list(systems().order_by("short_name")),
        "layers": layer_counts(),
        "warehouse": figures.warehouse(),
        "latest": figures.with_totals(latest),
        "active": list(active_runs()[:LATEST]),
        "troubles": figures.troubles(),
    }
    return render(request, "home.html", context)


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The web process answers. It says nothing about database or worker."""
    return HttpResponse("ok\n", content_type="text/plain")


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """Sign-in by name and password."""

    template_name = "sign_in.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.htmx:
            return _whole_page(request)
        return super().dispatch(request, *args, **kwargs)


def _whole_page(request: HttpRequest) -> HttpResponse:
    """A part of a page was asked for after the session ended: sign in, and come back to the page."""
    back = request.htmx.current_url_abs_path or "/"
    answer = HttpResponse(status=204)
    answer.headers["HX-Redirect"] = f"{resolve_url('sign_in')}?{urlencode({'next': back})}"
    return answer


# --- errors ----------------------------------------------------------------------------------


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problems.answer(
        request, status=400, title="Bad request", detail="The request could not be understood.", code="bad_request"
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problems.answer(request, status=403, title="Not allowed", detail=str(exception), code="permission_denied")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problems.answer(
        request, status=404, title="Not found", detail="There is nothing at this address.", code="not_found"
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """500; or 503, where the reason is that the control database does not answer."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return problems.database_down(request)
    return problems.answer(request, status=500, title="Server error", detail="", code="server_error")
