"""Single sign-on by OpenID Connect: authorization code with PKCE, state and nonce (mozilla-django-oidc).

What the library leaves to its users is settled here: issuer, audience and expiry of the ID token are
checked, only asymmetric signatures count, people are matched by issuer and subject, and whatever goes
wrong is an answer to a person, not a server error.
"""

import logging
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

from elevata.accounts.session_users import AccountBackend
from elevata.accounts.sign_in import sign_in_context
from elevata.accounts.single_sign_on_provider import TIMEOUT, Endpoints, Provider, ProviderProblem, endpoints_of
from elevata.core.errors import MetadataError
from metadata.services.actor import acting_as
from metadata.services.identities import person_of_identity

log = logging.getLogger(__name__)

_ALGORITHMS = ("RS256", "PS256", "ES256")
_LEEWAY = 60  # seconds that two clocks may differ by
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]
_PROBLEMS = (jwt.PyJWTError, requests.RequestException, SuspiciousOperation, ProviderProblem, ValueError, TypeError)
FAILED = "Signing in there did not succeed. Try again; if it lasts, tell whoever administers this installation."


def configured() -> Provider:
    """The provider; 404 without one."""
    provider: Provider | None = settings.SINGLE_SIGN_ON
    if provider is None:
        raise Http404
    return provider


class _Told:
    """The library's settings, said by the provider's."""

    @staticmethod
    def get_settings(name: str, *default: Any) -> Any:
        provider = configured()
        told = {
            "OIDC_RP_CLIENT_ID": provider.client_id,
            "OIDC_RP_CLIENT_SECRET": provider.client_secret,
            "OIDC_RP_SCOPES": provider.scopes,
            "OIDC_AUTHENTICATION_CALLBACK_URL": "sso_callback",
            "OIDC_TIMEOUT": TIMEOUT,
            "OIDC_USE_PKCE": True,
            "OIDC_USE_NONCE": True,
            "LOGIN_REDIRECT_URL": settings.LOGIN_REDIRECT_URL,
        }
        return told[name] if name in told else default[0]

    @property
    def OIDC_RP_CLIENT_ID(self) -> str:
        return configured().client_id

    @property
    def endpoints(self) -> Endpoints:
        return endpoints_of(configured())


class ProviderBackend(_Told, OIDCAuthenticationBackend):
    """Sign-in of users who return from the provider. Roles decide on permissions, as for every user."""

    def __init__(self) -> None:
        # Not the library's: that asks the provider whenever Django looks through its backends.
        self.UserModel = get_user_model()

    def get_user(self, user_id: Any) -> Any:
        """The user of a session; whatever password they also have was not used to open it."""
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
        """The person; None if they can't be told. Why not is left on the request for whoever answers it."""
        if request is None or not nonce or not code_verifier:
            return None
        try:
            return super().authenticate(request, nonce=nonce, code_verifier=code_verifier)
        except MetadataError as refused:
            log.warning("single sign-on was refused: %s", refused.code)
            request.sso_refused = refused.message
        except _PROBLEMS as problem:
            log.warning("single sign-on failed: %s", type(problem).__name__)
        return None

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """The claims of an ID token that the provider made for us, for this very sign-in, not long ago."""
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
        """The provider's key that the token names, for the algorithm that it names."""
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in _ALGORITHMS:
            raise SuspiciousOperation("the ID token is not signed as it must be")
        answer = requests.get(self.endpoints.keys, timeout=TIMEOUT)
        answer.raise_for_status()
        for key in answer.json().get("keys", ()):
            fits = key.get("use", "sig") == "sig" and key.get("alg", header["alg"]) == header["alg"]
            if fits and key.get("kid") == header.get("kid"):
                return jwt.PyJWK(key, algorithm=header["alg"])
        raise SuspiciousOperation("the ID token is signed with an unknown key")

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the provider's claims about the subject; the signed ID token wins over the user info."""
        if not self.endpoints.userinfo:
            return payload
        headers = {"Authorization": f"Bearer {access_token}"}
        answer = requests.get(self.endpoints.userinfo, headers=headers, timeout=TIMEOUT)
        answer.raise_for_status()
        told = answer.json()
        if told.get("sub") != payload["sub"]:
            raise SuspiciousOperation("the provider tells of somebody else")
        return {**told, **payload}

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> Any:
        claims, provider = self.get_userinfo(access_token, id_token, payload), configured()
        # Whoever may be signed in already has no part in it.
        with acting_as(None, request_id=getattr(self.request, "request_id", "")):
            return person_of_identity(
                issuer=provider.issuer,
                subject=str(payload["sub"]),
                name=str(claims.get("preferred_username") or ""),
                # An address that the provider did not verify is only what somebody typed there.
                email=str(claims.get("email") or "") if claims.get("email_verified") is True else "",
                roles=provider.roles_for(claims),
            )


@method_decorator([never_cache, login_not_required], name="dispatch")
class SingleSignOn(_Told, OIDCAuthenticationRequestView):
    """The way to the provider."""

    def __init__(self, **kwargs: Any) -> None:
        View.__init__(self, **kwargs)

    @property
    def OIDC_OP_AUTH_ENDPOINT(self) -> str:
        return self.endpoints.authorization

    def get(self, request: HttpRequest) -> HttpResponse:
        configured()
        try:
            return super().get(request)
        except ProviderProblem as problem:
            log.warning("single sign-on: %s", problem)
            return refused(request, "The provider of single sign-on does not answer. Try again in a moment.", 503)


@method_decorator([never_cache, login_not_required], name="dispatch")
class SingleSignOnCallback(_Told, OIDCAuthenticationCallbackView):
    """The way back from the provider."""

    def get(self, request: HttpRequest) -> HttpResponse:
        configured()
        state = request.GET.get("state", "")
        known = request.session.get("oidc_states") or {}
        if "error" in request.GET or "code" not in request.GET or state not in known:
            if state in known:
                del known[state]
                request.session.modified = True
            return self.login_failure()
        return super().get(request)

    def login_failure(self) -> HttpResponse:
        return refused(self.request, getattr(self.request, "sso_refused", "") or FAILED, 403)


def refused(request: HttpRequest, said: str, status: int) -> HttpResponse:
    """The sign-in page, with why it came to nothing."""
    return render(request, "sign_in.html", sign_in_context() | {"refused": said}, status=status)
