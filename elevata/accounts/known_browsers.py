"""Browsers that somebody has signed in with before, told by a signed cookie.

Whoever guesses at a name from many addresses locks it for all the world but for the browsers of its person:
so nobody keeps others out by guessing. The cookie signs nobody in, and is worth nothing once the password
is another one.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import constant_time_compare

COOKIE = "elevata_known"
_SALT = "elevata.accounts.known_browsers"
_SECONDS = 180 * 24 * 3600


def remember(response: HttpResponse, user: Any) -> None:
    """Let the browser that gets this answer be known as one of this person's."""
    response.set_cookie(
        COOKIE,
        signing.dumps(_proof(user), salt=_SALT),
        max_age=_SECONDS,
        path=reverse(settings.LOGIN_URL),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def is_known(request: HttpRequest, name: str) -> bool:
    """Return whether a user of this name has signed in with this browser, with the password that is still valid."""
    told = request.COOKIES.get(COOKIE, "")
    if not told:
        return False
    try:
        proof = signing.loads(told, salt=_SALT, max_age=_SECONDS)
    except signing.BadSignature:
        return False
    user = get_user_model().objects.filter(username=name, is_active=True).first()
    return user is not None and constant_time_compare(str(proof), _proof(user))


def _proof(user: Any) -> str:
    return f"{user.pk}:{user.get_session_auth_hash()}"
