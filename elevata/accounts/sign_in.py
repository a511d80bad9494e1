"""Sign-in by password and by OpenID Connect."""

import logging
from collections.abc import Mapping
from hmac import compare_digest
from typing import Any
from urllib.parse import urlencode

import jwt
import requests
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render, resolve_url
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import View
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from elevata.accounts.known_browsers import remember
from elevata.accounts.models import TemporaryPassword
from elevata.accounts.permissions import acting_as, knowing_grants
from elevata.accounts.services.users import user_of_identity
from elevata.accounts.single_sign_on_provider import TIMEOUT, Endpoints, Provider, ProviderProblem, endpoints_of
from elevata.core.errors import MetadataError
from elevata.web.requests import htmx_of


def sign_in_context() -> dict[str, Any]:
    """Return the template variables of the sign-in page: ways to sign in, and ``nobody_yet`` if no user exists."""
    return {
        "provider": settings.SINGLE_SIGN_ON,
        "password_sign_in": settings.PASSWORD_SIGN_IN,
        "nobody_yet": not get_user_model().objects.exists(),
    }


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """Sign-in by name and password. ``?sent=yes``: the user sent a form after the session had ended."""

    template_name = "accounts/sign_in.html"
    redirect_authenticated_user = True
    needs: frozenset = frozenset()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if htmx_of(request):
            return _redirect_to_sign_in(request)
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.PASSWORD_SIGN_IN:
            raise PermissionDenied("Passwords are not taken here: sign in by single sign-on.")
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        remember(response, form.get_user())
        return response

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | sign_in_context() | {"sent": "sent" in self.request.GET}


def _redirect_to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect a fragment's request to sign-in, and from there to the whole page, because the session has ended."""
    back = htmx_of(request).current_url_abs_path or "/"
    response = HttpResponse(status=204)
    parameters = {"next": back} | ({"sent": "yes"} if "sent" in request.GET else {})
    response.headers["HX-Redirect"] = f"{resolve_url('sign_in')}?{urlencode(parameters)}"
    return response


# The user of a session is queried once for each request.


_HAS_TEMPORARY = "has_temporary_password"


class AccountBackend(ModelBackend):
    """Backend of user names and passwords; it queries users together with their grants."""

    def get_user(self, user_id: Any) -> Any:
        """Return the user of a session; None if deleted or inactive."""
        users = knowing_grants(get_user_model()._default_manager.filter(pk=user_id))
        temporary = TemporaryPassword.objects.filter(user_id=OuterRef("pk"))
        user = users.annotate(**{_HAS_TEMPORARY: Exists(temporary)}).first()
        return user if user is not None and self.user_can_authenticate(user) else None


def must_replace_password(user: Any) -> bool:
    """Return True for a user who signed in with a password that an administrator set."""
    known = getattr(user, _HAS_TEMPORARY, None)
    return TemporaryPassword.objects.filter(user_id=user.pk).exists() if known is None else bool(known)


# Single sign-on by OpenID Connect: authorization code with PKCE, state and nonce (mozilla-django-oidc). In addition to
# the library, issuer, audience and expiry of the ID token are checked, only asymmetric signatures are accepted, users
# are matched by issuer and subject, and every failure is shown on a page instead of a server error.


log = logging.getLogger(__name__)

_ALGORITHMS = ("RS256", "PS256", "ES256")
_LEEWAY = 60  # seconds by which clocks may differ
_REQUIRED = ["exp", "iat", "iss", "aud", "sub"]
_ERRORS = (jwt.PyJWTError, requests.RequestException, SuspiciousOperation, ProviderProblem, ValueError, TypeError)
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
            return super().get(request)
        except ProviderProblem as error:
            log.warning("single sign-on: %s", error)
            return refused(request, "The single sign-on provider does not respond. Try again later.", 503)


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

    def login_failure(self) -> HttpResponse:
        return refused(self.request, getattr(self.request, "sso_refused", "") or FAILED, 403)


def refused(request: HttpRequest, message: str, status: int) -> HttpResponse:
    """Return the sign-in page with the reason of the refusal."""
    return render(request, "accounts/sign_in.html", sign_in_context() | {"refused": message}, status=status)
