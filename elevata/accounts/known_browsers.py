"""Known browsers: a signed cookie marks the browsers in which a user has signed in.

Wrong passwords from many addresses lock a user name everywhere except in these browsers, so that attackers cannot lock
a user out. The cookie does not replace the password, and becomes invalid when the password changes.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.crypto import constant_time_compare

COOKIE = "elevata_known"
_SALT = "elevata.accounts.lockouts"
_LIFETIME_SECONDS = 180 * 24 * 3600


def remember(response: HttpResponse, user: Any) -> None:
    """Mark the browser that gets this response as known for the user."""
    response.set_cookie(
        COOKIE,
        signing.dumps(_proof(user), salt=_SALT),
        max_age=_LIFETIME_SECONDS,
        path=reverse(settings.LOGIN_URL),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def is_known(request: HttpRequest, name: str) -> bool:
    """Return True if the user of this name has signed in with this browser and the current password."""
    cookie = request.COOKIES.get(COOKIE, "")
    if not cookie:
        return False
    try:
        proof = signing.loads(cookie, salt=_SALT, max_age=_LIFETIME_SECONDS)
    except signing.BadSignature:
        return False
    user = get_user_model().objects.filter(username=name, is_active=True).first()
    return user is not None and constant_time_compare(str(proof), _proof(user))


def _proof(user: Any) -> str:
    return f"{user.pk}:{user.get_session_auth_hash()}"
