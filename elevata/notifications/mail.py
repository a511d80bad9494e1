"""Mail server settings from one variable: ``smtp://user:password@mail.example.org:587?tls=start``."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_SHAPE = "ELEVATA_EMAIL_URL must be like smtp://user:password@mail.example.org:587?tls=start, smtps://… or console:"
_TIMEOUT = 20  # seconds


def settings_of(url: str) -> dict[str, Any]:
    """Return Django's mail settings. An empty URL disables mail, ``console:`` prints it.

    ``smtps:`` uses TLS from the start of the connection, ``?tls=start`` uses STARTTLS. Errors do not contain the URL,
    because it has the password.
    """
    if not url.strip():
        return {"EMAIL_ENABLED": False, "EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ImproperlyConfigured(_SHAPE) from None
    if parts.scheme == "console":
        return {"EMAIL_ENABLED": True, "EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or options not in ({}, {"tls": ["start"]}):
        raise ImproperlyConfigured(_SHAPE)
    return {
        "EMAIL_ENABLED": True,
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or (465 if parts.scheme == "smtps" else 587 if options else 25),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_USE_TLS": parts.scheme == "smtp" and bool(options),
        "EMAIL_TIMEOUT": _TIMEOUT,
    }
