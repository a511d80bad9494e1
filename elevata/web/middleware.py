"""Response headers, access control, and the answer while the control database is away."""

import logging
import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.middleware.csrf import get_token
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme

from elevata.accounts.session_users import must_replace_password
from elevata.web import error_pages
from metadata.domain.roles import Permission
from metadata.permissions import NO_ROLE, may_somewhere
from metadata.services.actor import Actor, acting

log = logging.getLogger(__name__)

# Pages bring nothing from another host, and nothing inline: see templates/base.html.
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
    """Give every request an id (or take the proxy's), and every answer the id and the content policy."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request.request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        response = self.get_response(request)
        response.headers["X-Request-ID"] = request.request_id
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response


class ActorMiddleware:
    """Attribute a request's changes to its user; the change log names the request.

    Who that is, is asked when something is written: the API finds the person of a token after the
    middleware ran, and a page that writes nothing need not know.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        def who() -> Actor:
            token = getattr(request, "auth", None)
            read_only = bool(getattr(token, "is_read_only", False))
            return Actor.of(
                request.user, by_token=token is not None, request_id=request.request_id, read_only=read_only
            )

        with acting(who):
            return self.get_response(request)


class SignInFirstMiddleware(LoginRequiredMiddleware):
    """Lead who is not signed in to sign-in, and from there to where they were.

    Whoever sent a form goes back to the page it stood on: the address it was sent to may show nothing.
    What they typed, static/js/kept.js brings back.
    """

    def handle_no_permission(self, request: HttpRequest, view_func: Callable[..., HttpResponse]) -> HttpResponse:
        if request.method in ("GET", "HEAD"):
            return super().handle_no_permission(request, view_func)
        given = urlencode({"next": _page_of_form(request), "sent": "yes"}, safe="/")
        return redirect(f"{resolve_url(self.get_login_url(view_func))}?{given}")


class OwnPasswordFirstMiddleware:
    """Let a user whose password somebody else set replace it, and sign out, before anything else.

    The API refuses the session with 403 ``password_temporary``. Tokens were made by the user, so they go on.
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
        if allowed or not getattr(view_func, "login_required", True) and not error_pages.is_api(request):
            return None
        if not request.user.is_authenticated or not must_replace_password(request.user):
            return None
        if error_pages.is_api(request):
            return error_pages.answer(
                request,
                status=403,
                title="Password to be replaced",
                detail="Somebody else set your password: sign in and replace it first.",
                code="password_temporary",
            )
        if request.htmx:
            return HttpResponse(status=204, headers={"HX-Redirect": resolve_url("own_password")})
        return redirect("own_password")


def _page_of_form(request: HttpRequest) -> str:
    came_from = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(came_from, allowed_hosts={request.get_host()}):
        return resolve_url(settings.LOGIN_REDIRECT_URL)
    parts = urlsplit(came_from)
    return parts.path + (f"?{parts.query}" if parts.query else "")


class ReadersOnlyMiddleware:
    """Show users without any role one page that says whom to ask, whatever page they want.

    Views that such users need (``without_role``) and those that need no sign-in answer them. The API has a
    permission of its own (``metadata.api.permissions.Reads``), since a token is only read there.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: tuple, kwargs: dict
    ) -> HttpResponse | None:
        """Return the page instead of the view's answer, or None."""
        if not getattr(view, "login_required", True) or getattr(view, "open_without_role", False):
            return None
        if not request.user.is_authenticated or may_somewhere(request.user, Permission.READ_METADATA):
            return None
        more = {"account": request.user.get_username(), "contact": settings.CONTACT, "csrf_token": get_token(request)}
        return error_pages.answer(
            request,
            status=403,
            title="No access yet",
            detail=NO_ROLE,
            code="no_role",
            more=more,
            template="no_role.html",
        )


class CacheControlMiddleware:
    """Keep answers out of caches: what one user may see, the next one at the same machine may not.

    An answer with an ETag may be kept by its reader's own client, which asks each time whether it is current.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers["Cache-Control"] = "private, no-cache" if response.has_header("ETag") else "private, no-store"
        return response


class DatabaseDownMiddleware:
    """Say plainly that the control database does not answer, instead of a server error.

    It sees what views raise. What other middleware raises (reading the session, say) ends in
    ``elevata.web.views.server_error``, which says the same. An address that only takes forms says so, too.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if isinstance(response, HttpResponseNotAllowed) and not response.content:
            said = error_pages.answer(
                request, status=405, title="Not allowed here", detail="This address takes no GET.", code="not_allowed"
            )
            said.headers["Allow"] = response.headers["Allow"]
            return said
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """A 503 for a database that is away; everything else goes its way."""
        if not isinstance(exception, OperationalError | InterfaceError):
            return None
        log.error("the control database does not answer: %s", exception)
        return error_pages.database_down(request)
