"""Sign-in by password."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from django.utils.decorators import method_decorator

from elevata.accounts.known_browsers import remember
from elevata.accounts.models import TemporaryPassword
from elevata.accounts.permissions import knowing_grants
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
