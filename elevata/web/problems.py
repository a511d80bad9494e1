"""Error responses: a page, or problem+json (RFC 9457) below /api/."""

import json

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from elevata.core.database import is_disk_full

CONTENT_TYPE = "application/problem+json"
API_PREFIX = "/api/"
DATABASE_DOWN = "The control database does not respond. Try again in a moment."
DISK_FULL = (
    "No space is left on the disk of the control database. Nothing was changed. Make room there, then try again."
)


def is_api(request: HttpRequest) -> bool:
    return request.path.startswith(API_PREFIX)


def problem(*, status: int, title: str, detail: str, code: str, request_id: str, errors: dict | None = None) -> dict:
    """Return the body of a problem+json response; ``errors`` maps fields to lists of messages."""
    body = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": request_id,
    }
    return body | {"errors": errors} if errors else body


def answer(
    request: HttpRequest,
    *,
    status: int,
    title: str,
    detail: str,
    code: str,
    more: dict | None = None,
    template: str = "",
) -> HttpResponse:
    """Return an error response: problem+json below /api/, else a page.

    The page is ``template`` if it is given, else ``<status>.html``, or ``problem.html`` if that does not exist.
    ``more`` is added to its context. It is rendered without context processors, so that it works while the database
    is unavailable; only a page with a ``frame``, the template with the navigation, has them.
    """
    request_id = getattr(request, "request_id", "")
    if is_api(request):
        body = problem(status=status, title=title, detail=detail, code=code, request_id=request_id)
        return HttpResponse(json.dumps(body), status=status, content_type=CONTENT_TYPE)
    context = {"title": title, "detail": detail, "request_id": request_id}
    pages = [template] if template else [f"{status}.html", "problem.html"]
    context |= more or {}
    page = render_to_string(pages, context, request if "frame" in context else None)
    return HttpResponse(page, status=status)


def reason_of(error: BaseException | None) -> tuple[str, str]:
    """Return detail and code for an error of the control database."""
    is_full = error is not None and is_disk_full(error)
    return (DISK_FULL, "disk_full") if is_full else (DATABASE_DOWN, "database_down")


def database_down(request: HttpRequest, error: BaseException | None = None) -> HttpResponse:
    """Return the 503 response with a Retry-After header."""
    detail, code = reason_of(error)
    response = answer(request, status=503, title="Control database unavailable", detail=detail, code=code)
    response.headers["Retry-After"] = "5"
    return response
