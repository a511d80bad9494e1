"""Single sign-on by OpenID Connect: authorization code with PKCE, state and nonce (mozilla-django-oidc).

In addition to the library, issuer, audience and expiry of the ID token are checked, only asymmetric signatures are
accepted, users are matched by issuer and subject, and every failure is shown on a page instead of a server error.
"""

import logging
from collections.abc import Mapping
from hmac import compare_digest
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import View
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from elevata.accounts.actors import acting_as
from elevata.accounts.services.single_sign_on_users import user_of_identity
from elevata.accounts.sign_in import AccountBackend, sign_in_context
from elevata.accounts.single_sign_on_provider import (
    TIMEOUT,
    Endpoints,
    Provider,
    ProviderProblem,
    endpoints_of,
    provider_slot,
)
from elevata.core.errors import MetadataError

log = logging.getLogger(__name__)
_ALGORITHMS = ("RS256", "PS256", "ES256")
_LEEWAY = 60  # seconds by which clocks may differ
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]
_ERRORS = (
    *(jwt.PyJWTError, requests.RequestException, SuspiciousOperation, ProviderProblem),
    # Of answers that have another structure.
    *(ValueError, TypeError, AttributeError, LookupError, RecursionError),
)
# Time for a sign-in at the provider, after which the session of its state ends.
_SIGN_IN_SECONDS = 1800
FAILED = "Single sign-on failed. Try again, or contact your administrator."


def configured() -> Provider:
    """Return the provider; 404 without one."""
    provider: Provider | None = settings.SINGLE_SIGN_ON
    if provider is None:
        raise Http404
    return provider


class _ProviderSettings:
    """Settings of the library, from the provider's."""

    @staticmethod
    def get_settings(name: str, *default: Any) -> Any:
        provider = configured()
        values = {
            "OIDC_RP_CLIENT_ID": provider.client_id,
            "OIDC_RP_CLIENT_SECRET": provider.client_secret,
            "OIDC_RP_SCOPES": provider.scopes,
            "OIDC_AUTHENTICATION_CALLBACK_URL": "sso_callback",
            "OIDC_TIMEOUT": TIMEOUT,
            "OIDC_USE_PKCE": True,
            "OIDC_USE_NONCE": True,
            "LOGIN_REDIRECT_URL": settings.LOGIN_REDIRECT_URL,
        }
        return values[name] if name in values else default[0]

    @property
    def OIDC_RP_CLIENT_ID(self) -> str:
        return configured().client_id

    @property
    def endpoints(self) -> Endpoints:
        return endpoints_of(configured())


class ProviderBackend(_ProviderSettings, OIDCAuthenticationBackend):
    """Backend of users who return from the provider."""

    def __init__(self) -> None:
        # The library's constructor is not called, because it would request the provider's metadata every time.
        self.UserModel = get_user_model()

    def get_user(self, user_id: Any) -> Any:
        """Return the user of a session of single sign-on."""
        user = AccountBackend.get_user(self, user_id)
        if user is not None:
            user.has_temporary_password = False
        return user

    @property
    def OIDC_RP_CLIENT_SECRET(self) -> str:
        return configured().client_secret

    @property
    def OIDC_OP_TOKEN_ENDPOINT(self) -> str:
        return self.endpoints.token

    def authenticate(self, request: HttpRequest | None, nonce: str = "", code_verifier: str = "", **given: Any) -> Any:
        """Return the user; None on failure. The request's ``sso_refused`` gets the message of a refusal."""
        if request is None or not nonce or not code_verifier:
            return None
        try:
            _ = self.endpoints  # discovered before, because discovery takes a slot of its own
            with provider_slot():
                return super().authenticate(request, nonce=nonce, code_verifier=code_verifier)
        except MetadataError as refusal:
            log.warning("single sign-on was refused: %s", refusal.code)
            request.sso_refused = refusal.message  # type: ignore[attr-defined]  # read by the callback's view
        except _ERRORS as error:
            log.warning("single sign-on failed: %s", type(error).__name__)
        return None

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """Return the claims of an ID token, after checks of its signature, issuer, audience, expiry and nonce."""
        provider = configured()
        claims = jwt.decode(
            token,
            self._key(token),
            algorithms=list(_ALGORITHMS),
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=_LEEWAY,
            options={"require": _REQUIRED},
        )
        if not compare_digest(str(claims.get("nonce", "")).encode(), str(kwargs["nonce"]).encode()):
            raise SuspiciousOperation("the ID token was made for another sign-in")
        audience = claims["aud"]
        party = claims.get("azp", provider.client_id if isinstance(audience, str) or len(audience) == 1 else None)
        if party != provider.client_id:
            raise SuspiciousOperation("the ID token was made for another application")
        return claims

    def _key(self, token: str) -> jwt.PyJWK:
        """Return the provider's key with the token's key id and algorithm."""
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in _ALGORITHMS:
            raise SuspiciousOperation("the ID token is not signed as it must be")
        response = requests.get(self.endpoints.keys, timeout=TIMEOUT)
        response.raise_for_status()
        for key in response.json().get("keys", ()):
            matches = key.get("use", "sig") == "sig" and key.get("alg", header["alg"]) == header["alg"]
            if matches and key.get("kid") == header.get("kid"):
                return jwt.PyJWK(key, algorithm=header["alg"])
        raise SuspiciousOperation("the ID token is signed with an unknown key")

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the claims about the subject beside the ID token; empty if the provider has none."""
        if not self.endpoints.userinfo:
            return {}
        headers = {"Authorization": f"Bearer {access_token}"}
        response = requests.get(self.endpoints.userinfo, headers=headers, timeout=TIMEOUT)
        response.raise_for_status()
        claims = response.json()
        if not isinstance(claims, dict) or claims.get("sub") != payload["sub"]:
            raise SuspiciousOperation("the provider returned another user")
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> Any:
        userinfo, provider = self.get_userinfo(access_token, id_token, payload), configured()
        # The signed ID token takes precedence.
        claims = {**userinfo, **payload}
        # The current session's user does not count.
        with acting_as(None, request_id=getattr(self.request, "request_id", "")):
            return user_of_identity(
                issuer=provider.issuer,
                subject=str(payload["sub"]),
                name=str(claims.get("preferred_username") or ""),
                email=_verified_email(payload, userinfo),
                roles=provider.roles_for(claims),
            )


def _verified_email(*documents: Mapping[str, Any]) -> str:
    """Return the e-mail address of the first document that verifies its own; another may belong to someone else."""
    verified = (document for document in documents if document.get("email_verified") is True)
    return next((str(document["email"]) for document in verified if document.get("email")), "")


@method_decorator([never_cache, login_not_required], name="dispatch")
class SingleSignOn(_ProviderSettings, OIDCAuthenticationRequestView):
    """View that redirects to the provider."""

    def __init__(self, **kwargs: Any) -> None:
        View.__init__(self, **kwargs)

    @property
    def OIDC_OP_AUTH_ENDPOINT(self) -> str:
        return self.endpoints.authorization

    def get(self, request: HttpRequest) -> HttpResponse:
        configured()
        try:
            answer = super().get(request)
        except ProviderProblem as error:
            log.warning("single sign-on: %s", error)
            return refused(request, "The single sign-on provider does not respond. Try again later.", 503)
        if not request.user.is_authenticated:
            request.session.set_expiry(_SIGN_IN_SECONDS)
        return answer


@method_decorator([never_cache, login_not_required], name="dispatch")
class SingleSignOnCallback(_ProviderSettings, OIDCAuthenticationCallbackView):
    """View to which the provider redirects."""

    def get(self, request: HttpRequest) -> HttpResponse:
        configured()
        state = request.GET.get("state", "")
        states = request.session.get("oidc_states") or {}
        if "error" in request.GET or "code" not in request.GET or state not in states:
            if state in states:
                del states[state]
                request.session.modified = True
            return self.login_failure()
        return super().get(request)

    def login_success(self) -> HttpResponse:
        answer = super().login_success()
        self.request.session.set_expiry(None)
        return answer

    def login_failure(self) -> HttpResponse:
        return refused(self.request, getattr(self.request, "sso_refused", "") or FAILED, 403)


def refused(request: HttpRequest, message: str, status: int) -> HttpResponse:
    """Return the sign-in page with the reason of the refusal."""
    return render(request, "accounts/sign_in.html", sign_in_context() | {"refused": message}, status=status)
