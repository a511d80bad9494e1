"""REST authentication by personal token: ``Authorization: Token elv_…``."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from metadata.domain.errors import MetadataError
from metadata.services.people import token_in_use

KEYWORD = "Token"


class PersonalTokenAuthentication(BaseAuthentication):
    """The token's person, and the token. A header that names another scheme is left to others."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != KEYWORD.lower():
            return None
        try:
            found = token_in_use(token.strip())
        except MetadataError as refused:
            raise AuthenticationFailed(refused.message, code=refused.code) from None
        return found.user, found

    def authenticate_header(self, request: Request) -> str | None:
        """A wrong token is answered with 401; who sent none is told to sign in, by 403."""
        return KEYWORD if request.META.get("HTTP_AUTHORIZATION") else None


class PersonalTokenScheme(OpenApiAuthenticationExtension):
    target_class = PersonalTokenAuthentication
    name = "personalToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": f"A personal token, as `{KEYWORD} elv_…`.",
        }
