"""Typed access to what middlewares and sign-in add to a request."""

from django.contrib.auth.models import User
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


def htmx_of(request: HttpRequest) -> HtmxDetails:
    """Return the htmx headers of a request; false for a request of another kind."""
    details: HtmxDetails = request.htmx  # type: ignore[attr-defined]  # set by HtmxMiddleware
    return details


def request_id_of(request: HttpRequest) -> str:
    request_id: str = request.request_id  # type: ignore[attr-defined]  # set by RequestIdMiddleware
    return request_id


def user_of(request: HttpRequest) -> User:
    """Return the user of a page or endpoint that anonymous users cannot reach."""
    assert isinstance(request.user, User)
    return request.user
