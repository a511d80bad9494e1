"""Sign-in by name and password; single sign-on beside it, or instead of it."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.utils.decorators import method_decorator

from elevata.accounts.known_browsers import remember


def sign_in_context() -> dict[str, Any]:
    """Return the available ways to sign in, and whether any user exists yet."""
    return {
        "provider": settings.SINGLE_SIGN_ON,
        "password_sign_in": settings.PASSWORD_SIGN_IN,
        "nobody_yet": not get_user_model().objects.exists(),
    }


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """Sign-in by name and password. ``?sent=yes``: a form was sent after the session had ended."""

    template_name = "sign_in.html"
    redirect_authenticated_user = True
    needs: frozenset = frozenset()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.htmx:
            return _whole_page(request)
        return super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not settings.PASSWORD_SIGN_IN:
            raise PermissionDenied("Passwords are not taken here: sign in by single sign-on.")
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        remember(answer, form.get_user())
        return answer

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | sign_in_context() | {"sent": "sent" in self.request.GET}


def _whole_page(request: HttpRequest) -> HttpResponse:
    """A part of a page was asked for after the session ended: sign in, and come back to the page."""
    back = request.htmx.current_url_abs_path or "/"
    answer = HttpResponse(status=204)
    given = {"next": back} | ({"sent": "yes"} if "sent" in request.GET else {})
    answer.headers["HX-Redirect"] = f"{resolve_url('sign_in')}?{urlencode(given)}"
    return answer
