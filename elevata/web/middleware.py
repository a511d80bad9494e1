"""Middleware, request limits and error answers."""

import json
import logging
import re
import tempfile
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.handlers.wsgi import LimitedStream
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.shortcuts import redirect, resolve_url
from django.template.loader import render_to_string
from django.utils.http import url_has_allowed_host_and_scheme

from elevata.accounts.permissions import NO_ROLE, Actor, acting, may_somewhere
from elevata.accounts.roles import Permission
from elevata.accounts.sign_in import must_replace_password
from elevata.core.database import is_disk_full
from elevata.web.requests import htmx_of, request_id_of

# Error responses: a page, or problem+json (RFC 9457) below /api/.


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
    is unavailable.
    """
    request_id = getattr(request, "request_id", "")
    if is_api(request):
        body = problem(status=status, title=title, detail=detail, code=code, request_id=request_id)
        return HttpResponse(json.dumps(body), status=status, content_type=CONTENT_TYPE)
    context = {"title": title, "detail": detail, "request_id": request_id}
    pages = [template] if template else [f"{status}.html", "problem.html"]
    page = render_to_string(pages, context | (more or {}))
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


log = logging.getLogger(__name__)

# Pages load nothing from other hosts and contain no inline scripts or styles: see templates/base.html.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class RequestIdMiddleware:
    """Request ID (the proxy's, or a new one) and Content-Security-Policy of every response."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        header = request.headers.get("X-Request-ID", "")
        request_id = header if _REQUEST_ID.fullmatch(header) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]  # read by request_id_of
        response = self.get_response(request)
        response.headers["X-Request-ID"] = request_id
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response


class ActorMiddleware:
    """Actor of a request's changes: its user, and the request ID for the change log.

    The user is determined at the first write, because the API authenticates a token after this middleware, and
    requests that write nothing need no user.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        def actor() -> Actor:
            token = getattr(request, "auth", None)
            read_only = bool(getattr(token, "is_read_only", False))
            return Actor.of(
                request.user, by_token=token is not None, request_id=request_id_of(request), read_only=read_only
            )

        with acting(actor):
            return self.get_response(request)


class SignInFirstMiddleware(LoginRequiredMiddleware):
    """Redirect of anonymous users to the sign-in page, and from there to the requested page.

    After the submission of a form, sign-in leads back to the page with the form, because the form's address may not
    accept GET. static/js/page/drafts.js restores the input.
    """

    def handle_no_permission(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase]
    ) -> HttpResponseRedirect:
        if request.method in ("GET", "HEAD"):
            return super().handle_no_permission(request, view_func)
        query = urlencode({"next": _page_of_form(request), "sent": "yes"}, safe="/")
        return HttpResponseRedirect(f"{resolve_url(self.get_login_url(view_func))}?{query}")


class OwnPasswordFirstMiddleware:
    """Restriction of users with a temporary password to the pages that replace it or sign out.

    The API refuses such a session with 403 ``password_temporary``. Tokens stay valid, since the user created them.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., HttpResponse], view_args: Any, view_kwargs: Any
    ) -> HttpResponse | None:
        match = request.resolver_match
        allowed = match is not None and match.url_name in ("own_password", "sign_out")
        if allowed or not getattr(view_func, "login_required", True) and not is_api(request):
            return None
        if not request.user.is_authenticated or not must_replace_password(request.user):
            return None
        if is_api(request):
            return answer(
                request,
                status=403,
                title="Temporary password",
                detail="An administrator set your password: sign in and replace it first.",
                code="password_temporary",
            )
        if htmx_of(request):
            return HttpResponse(status=204, headers={"HX-Redirect": resolve_url("own_password")})
        return redirect("own_password")


def _page_of_form(request: HttpRequest) -> str:
    referrer = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(referrer, allowed_hosts={request.get_host()}):
        return resolve_url(settings.LOGIN_REDIRECT_URL)
    parts = urlsplit(referrer)
    return parts.path + (f"?{parts.query}" if parts.query else "")


class ReadersOnlyMiddleware:
    """Refusal of users without a role, by a page that names a contact.

    Views marked by ``without_role`` and views without sign-in are exempt. The API has a check of its own
    (``elevata.api.resources.Reads``), since it authenticates tokens after this middleware.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: tuple, kwargs: dict
    ) -> HttpResponse | None:
        """Return the page that replaces the response of the view, or None."""
        if not getattr(view, "login_required", True) or getattr(view, "open_without_role", False):
            return None
        if not request.user.is_authenticated or may_somewhere(request.user, Permission.READ_METADATA):
            return None
        more = {"account": request.user.get_username(), "contact": settings.CONTACT, "csrf_token": get_token(request)}
        return answer(
            request,
            status=403,
            title="No access yet",
            detail=NO_ROLE,
            code="no_role",
            more=more,
            template="accounts/no_role.html",
        )


class CacheControlMiddleware:
    """Cache-Control header that forbids caches to store responses, which depend on the user's permissions.

    A client may store a response with an ETag, but must revalidate it each time.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers["Cache-Control"] = "private, no-cache" if response.has_header("ETag") else "private, no-store"
        return response


class DatabaseDownMiddleware:
    """Response 503, instead of 500, while the control database is unavailable.

    This covers errors of views. Errors of other middleware (reading the session, for example) reach
    ``elevata.home.server_error``, which returns the same response. An empty 405 response gets a page, too.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if isinstance(response, HttpResponseNotAllowed) and not response.content:
            page = answer(
                request,
                status=405,
                title="Method not allowed",
                detail=f"This address does not accept {request.method} requests.",
                code="not_allowed",
            )
            page.headers["Allow"] = response.headers["Allow"]
            return page
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return a 503 response for errors of the database connection, None for others."""
        if not isinstance(exception, OperationalError | InterfaceError):
            return None
        log.error("the control database does not answer: %s", exception)
        return database_down(request, exception)


# Limits that are checked before a request is read: address, length of the body, encoding.


_IN_MEMORY = 2**20
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


class LimitsMiddleware:
    """Limits of a request: length of its address (414), length of its body (413), and UTF-8 as its encoding (415).

    A view set or page may define a body limit of its own by ``most_bytes``. A chunked body, which has no
    Content-Length, is read here up to the general limit.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        address = request.META.get("RAW_URI") or request.get_full_path()
        if len(address) > settings.LONGEST_ADDRESS:
            return answer(
                request,
                status=414,
                title="Address too long",
                detail=f"An address has at most {settings.LONGEST_ADDRESS} characters, its query included.",
                code="address_too_long",
            )
        encoding = (request.content_params or {}).get("charset", "utf-8").strip("\"'").lower()
        if encoding not in _ENCODINGS:
            return answer(
                request,
                status=415,
                title="Unsupported encoding",
                detail="Send text in UTF-8.",
                code="unsupported_charset",
            )
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Check the length of the body against the limit of the view."""
        general = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        resource = getattr(view, "cls", None) or getattr(view, "view_class", None)
        most = general if resource is None or not hasattr(resource, "most_bytes") else resource.most_bytes()
        length = request.META.get("CONTENT_LENGTH") or ""
        if length:
            if not (length.isascii() and length.isdigit()):
                return answer(
                    request,
                    status=400,
                    title="Bad request",
                    detail="Content-Length is not a number.",
                    code="bad_request",
                )
            return body_too_big(request, most) if int(length) > most else None
        if "chunked" not in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            return None
        if not request.META.get("wsgi.input_terminated"):
            return answer(
                request,
                status=411,
                title="Length required",
                detail="Send the length of the body in Content-Length.",
                code="length_required",
            )
        return None if _read_body(request, min(most, general)) else body_too_big(request, min(most, general))


def body_too_big(request: HttpRequest, most: int) -> HttpResponse:
    """Return the 413 response to a body of more than ``most`` bytes."""
    detail = f"A body may have at most {most} bytes: send several smaller requests."
    return answer(request, status=413, title="Body too big", detail=detail, code="body_too_big")


def _read_body(request: HttpRequest, most: int) -> bool:
    """Read a body of unknown length; return False if it has more than ``most`` bytes."""
    body = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  closed with the request
    # Any: these are fields of Django's own WSGIRequest, and the stream only reads.
    handed_over: Any = request
    content: Any = body
    handed_over._body_file = body
    stream, length = request.META["wsgi.input"], 0
    while chunk := stream.read(min(_IN_MEMORY, most + 1 - length)):
        length += len(chunk)
        if length > most:
            return False
        body.write(chunk)
    body.seek(0)
    handed_over._stream = LimitedStream(content, length)
    request.META["CONTENT_LENGTH"] = str(length)
    return True
