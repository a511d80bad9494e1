"""One log line and one count for every request."""

import logging
import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from elevata.core.log_context import about
from elevata.ops.metrics import count_request, route_of

log = logging.getLogger("elevata.ops.access_log")


class AccessMiddleware:
    """Everything logged during a request names it; at its end one line says what came of it.

    The line has the route and the path, and never the query: what people search for, and what other
    programs put there by mistake, is nobody's business later.
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
    """The id of who asked, as far as that was found out while answering: a log line asks no database."""
    # A session's person is kept here once somebody asked; a token's person takes the lazy one's place.
    known = getattr(request, "_cached_user", None)
    if known is None and not isinstance(user := getattr(request, "user", None), SimpleLazyObject):
        known = user
    return getattr(known, "pk", None)
