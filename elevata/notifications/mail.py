"""Mail server from one variable: ``smtp://user:password@mail.example.org:587?tls=start``."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_SHAPE = "ELEVATA_EMAIL_URL must be like smtp://user:password@mail.example.org:587?tls=start, smtps://… or console:"
_TIMEOUT = 20  # seconds


def settings_of(url: str) -> dict[str, Any]:
    """Return Django's settings of a mail server. Empty: no mail is sent; ``console:``: it is printed.

    ``smtps:`` uses TLS from the beginning, ``?tls=start`` starts it after the greeting. Errors do not repeat the
    address, because it contains the password.
    """
    if not url.strip():
        return {"EMAIL_ENABLED": False, "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ImproperlyConfigured(_SHAPE) from None
    if parts.scheme == "console":
        return {"EMAIL_ENABLED": True, "EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or asked not in ({}, {"tls": ["start"]}):
        raise ImproperlyConfigured(_SHAPE)
    return {
        "EMAIL_ENABLED": True,
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or (465 if parts.scheme == "smtps" else 587 if asked else 25),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_USE_TLS": parts.scheme == "smtp" and bool(asked),
        "EMAIL_TIMEOUT": _TIMEOUT,
    }
