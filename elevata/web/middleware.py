"""Middleware of requests and responses."""

import logging
import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme

from elevata.accounts.actors import Actor, acting
from elevata.accounts.permissions import NO_ROLE, may_somewhere
from elevata.accounts.roles import Permission
from elevata.accounts.sign_in import must_replace_password
from elevata.web.problems import answer, database_down, is_api
from elevata.web.requests import htmx_of, request_id_of

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
    ``elevata.error_pages.server_error``, which returns the same response. An empty 405 response gets a page, too.
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
