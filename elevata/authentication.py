"""REST authentication by personal token: ``Authorization: Token elv_…``."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from metadata.domain.errors import MetadataError
from metadata.services.tokens import token_in_use

KEYWORD = "Token"


class PersonalTokenAuthentication(BaseAuthentication):
    """The token's person, and the token. A header that names another scheme is left to others.

    What a token's scope does not cover is refused here, so no view can forget it.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != KEYWORD.lower():
            return None
        try:
            found = token_in_use(token.strip())
        except MetadataError as refused:
            raise AuthenticationFailed(refused.message, code=refused.code) from None
        if found.is_read_only and not _only_reads(request):
            raise PermissionDenied("This personal token may only read.", code="token_scope")
        return found.user, found

    def authenticate_header(self, request: Request) -> str | None:
        """A wrong token is answered with 401; who sent none is told to sign in, by 403."""
        return KEYWORD if request.META.get("HTTP_AUTHORIZATION") else None


def _only_reads(request: Request) -> bool:
    """Whether the request changes nothing: by its method, or because its view takes questions and no orders."""
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
