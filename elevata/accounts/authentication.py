"""REST authentication by personal token (``Authorization: Token elv_…``) or by browser session."""

from copy import copy
from typing import Any

from drf_spectacular.authentication import SessionScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from elevata.accounts.services.tokens import authenticate_token
from elevata.core.errors import MetadataError

KEYWORD = "Token"


class PersonalTokenAuthentication(BaseAuthentication):
    """Authentication by personal token; returns its user and the token.

    Bearer is refused with the right header, other schemes are ignored. A request that the token's scope does not permit
    is refused, for all views.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() == "bearer":
            raise AuthenticationFailed(
                "Send the token as Authorization: Token elv_…, not as Bearer.", "not_authenticated"
            )
        if scheme.lower() != KEYWORD.lower():
            return None
        try:
            personal_token = authenticate_token(token.strip())
        except MetadataError as error:
            raise AuthenticationFailed(error.message, code=error.code) from None
        if personal_token.is_read_only and not _only_reads(request):
            raise PermissionDenied("This personal token may only read.", code="token_scope")
        return personal_token.user, personal_token

    def authenticate_header(self, request: Request) -> str:
        """Return the scheme for ``WWW-Authenticate``, so that the response without a valid token is 401."""
        return KEYWORD


class BrowserAuthentication(SessionAuthentication):
    """Authentication by session. Every write needs the CSRF token in its header."""

    def enforce_csrf(self, request: Request) -> None:
        """Check the token in the header only, so that forms of unauthorized senders are not parsed."""
        checked: Any = copy(request._request)  # Any: the superclass reads nothing that only its own type has
        # For a POST, Django looks for the token in the form first.
        checked.method = "GET" if request.method in SAFE_METHODS else "PUT"
        super().enforce_csrf(checked)


def _only_reads(request: Request) -> bool:
    """Return True if the request is read-only, by its method or because its view only answers queries."""
    view = (request.parser_context or {}).get("view")
    return request.method in SAFE_METHODS or getattr(view, "only_asks", False)


class PersonalTokenScheme(OpenApiAuthenticationExtension):
    target_class = PersonalTokenAuthentication
    name = "personalToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": f"A personal token, as `{KEYWORD} elv_…`. One of the scope `read` is refused (403, "
            "`token_scope`) whatever it would change.",
        }


class BrowserScheme(SessionScheme):
    target_class: Any = BrowserAuthentication  # the superclass has the dotted name instead
    name = "cookieAuth"
