"""Pages of errors."""

import sys
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse

from elevata.accounts.access import who_helps
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.deleted_objects import what_is_gone
from elevata.web import problems
from elevata.web.request_limits import body_too_big
from elevata.web.requests import htmx_of


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return body_too_big(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    return problems.answer(
        request, status=400, title="Bad request", detail="The request could not be understood.", code="bad_request"
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 403 with the account, the missing permission and a contact."""
    more = {"account": request.user.get_username(), **_surroundings(request)}
    return problems.answer(
        request, status=403, title="Not allowed", detail=str(exception), code="permission_denied", more=more
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 404; of a deleted object with its name, the user who deleted it, and the time."""
    message = "There is nothing at this address."
    more = {"gone": what_is_gone(request), **_surroundings(request)}
    return problems.answer(request, status=404, title="Not found", detail=message, code="not_found", more=more)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return 500, or 503 if the control database does not respond."""
    error = sys.exc_info()[1]
    if isinstance(error, OperationalError | InterfaceError):
        return problems.database_down(request, error)
    return problems.answer(request, status=500, title="Server error", detail="", code="server_error")


def _surroundings(request: HttpRequest) -> dict[str, Any]:
    """Return the context with a contact; for users who read metadata, with the navigation and administrators."""
    if problems.is_api(request):
        return {}
    if not may_somewhere(request.user, Permission.READ_METADATA):
        return {"contact": settings.CONTACT}
    return who_helps() | ({} if htmx_of(request) else {"frame": "base.html"})
