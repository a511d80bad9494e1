"""Access log: one line and one count for every request."""

import logging
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from elevata.core.processes import about
from elevata.ops.metrics import count_request, route_of

log = logging.getLogger("elevata.ops.access_log")


class AccessMiddleware:
    """Middleware that names the request in all its log lines and writes one line with its result.

    The line has the route and the path, and never the query: search terms, and values that programs send by
    mistake, must not be logged.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        with about(request_id=request.request_id):
            response = self.get_response(request)
            seconds = time.perf_counter() - started
            count_request(request, response.status_code, seconds)
            if log.isEnabledFor(logging.INFO):
                self._say(request, response, seconds)
        return response

    def _say(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        milliseconds = round(seconds * 1000, 1)
        fields = {
            "method": request.method,
            "path": request.path,
            "route": route_of(request),
            "status": response.status_code,
            "milliseconds": milliseconds,
            "person_id": _person(request),
        }
        said = ("%s %s %s in %s ms", request.method, request.path, response.status_code, milliseconds)
        log.info(*said, extra={name: value for name, value in fields.items() if value is not None})


def _person(request: HttpRequest) -> int | None:
    """Return the user's id, if the request loaded it: a log line queries no database."""
    # A session's user is cached here after its first use; a token's user replaces the lazy one.
    known = getattr(request, "_cached_user", None)
    if known is None and not isinstance(user := getattr(request, "user", None), SimpleLazyObject):
        known = user
    return getattr(known, "pk", None)
