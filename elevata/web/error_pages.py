"""Errors as answers: a page for people, problem+json (RFC 9457) below /api/."""

import json

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

CONTENT_TYPE = "application/problem+json"
API_PREFIX = "/api/"

DATABASE_DOWN = "The control database does not answer. Try again in a moment."


def is_api(request: HttpRequest) -> bool:
    return request.path.startswith(API_PREFIX)


def problem(*, status: int, title: str, detail: str, code: str, request_id: str, errors: dict | None = None) -> dict:
    """The body of a problem+json answer; ``errors`` maps fields to lists of messages."""
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
    """Return the error as problem+json below /api/, else as a page with ``more``.

    The page is ``template``, else ``<status>.html``, else ``problem.html``.

    The page is rendered without context processors: it must work while the database is away.
    """
    request_id = getattr(request, "request_id", "")
    if is_api(request):
        body = problem(status=status, title=title, detail=detail, code=code, request_id=request_id)
        return HttpResponse(json.dumps(body), status=status, content_type=CONTENT_TYPE)
    told = {"title": title, "detail": detail, "request_id": request_id}
    pages = [template] if template else [f"{status}.html", "problem.html"]
    page = render_to_string(pages, told | (more or {}))
    return HttpResponse(page, status=status)


def database_down(request: HttpRequest) -> HttpResponse:
    """503, to be tried again soon."""
    response = answer(
        request, status=503, title="Control database unavailable", detail=DATABASE_DOWN, code="database_down"
    )
    response.headers["Retry-After"] = "5"
    return response
