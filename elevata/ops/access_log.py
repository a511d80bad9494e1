"""Access log: one line and one count for every request."""

import logging
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from elevata.core.log_context import about
from elevata.ops.metrics import count_request, route_of
from elevata.web.requests import request_id_of

log = logging.getLogger("elevata.ops.access_log")


class AccessMiddleware:
    """Middleware that names the request in its log lines and writes one line with its result.

    The line has the route and the path, but not the query: search terms, and values that programs send by mistake,
    must not be logged.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        with about(request_id=request_id_of(request)):
            response = self.get_response(request)
            seconds = time.perf_counter() - started
            count_request(request, response.status_code, seconds)
            if log.isEnabledFor(logging.INFO):
                self._log(request, response, seconds)
        return response

    def _log(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        milliseconds = round(seconds * 1000, 1)
        fields = {
            "method": request.method,
            "path": request.path,
            "route": route_of(request),
            "status": response.status_code,
            "milliseconds": milliseconds,
            "person_id": _user_id(request),
        }
        message = ("%s %s %s in %s ms", request.method, request.path, response.status_code, milliseconds)
        log.info(*message, extra={name: value for name, value in fields.items() if value is not None})


def _user_id(request: HttpRequest) -> int | None:
    """Return the user's id if the request has loaded it, because a log line must not query the database."""
    # Django caches a session's user in this attribute at its first use; a token's user replaces the lazy object.
    loaded = getattr(request, "_cached_user", None)
    if loaded is None and not isinstance(user := getattr(request, "user", None), SimpleLazyObject):
        loaded = user
    return getattr(loaded, "pk", None)
