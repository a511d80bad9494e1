"""Database locations in metadata: URLs without a password."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from elevata.core.errors import MetadataError

POSTGRES = ("postgresql", "postgres")
# Kinds of databases by the scheme of their location, and the port of each kind.
PORTS = {"postgresql": 5432, "mariadb": 3306, "mysql": 3306, "sqlserver": 1433, "oracle": 1521}
KINDS = {"postgres": "postgresql"} | {kind: kind for kind in PORTS}
# Passwords before the host, also with slashes, after a parameter's name, and in Oracle's form. Both groups are text to
# keep. Digits before a slash are the port of a host.
_PASSWORDS = (
    re.compile(r"(//[^/?#@:\s]*):(?:(?!\d+/)[^?#;]*|[^/?#]*)(@)"),
    re.compile(r"([?&;]\s*(?:password|passwd|pwd|sslpassword)\s*=)[^&;]+()", re.IGNORECASE),
    re.compile(r"(:thin:[^/@\s]+)/[^@\s]+(@)", re.IGNORECASE),
)
_SHAPE = "like postgresql://reader@db.example.org:5432/erp"


@dataclass(frozen=True)
class DatabasePlace:
    """Address of a database from a system's location, and its kind (``KINDS``); ``user`` may be empty."""

    host: str
    port: int
    name: str
    user: str = ""
    kind: str = "postgresql"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.name}"


def parse_database(location: str) -> DatabasePlace:
    """Return the database at ``postgresql://user@host:port/name``, with or without the prefix ``jdbc:``.

    The scheme may be any of ``KINDS``. Raises MetadataError ``password_in_location`` or ``bad_location``.
    """
    text = location.strip().removeprefix("jdbc:")
    refuse_password(text)
    try:
        parts = urlsplit(text)
        kind = KINDS.get(parts.scheme)
        port = parts.port or PORTS.get(kind or "", 0)
    except ValueError:
        raise _bad_location(f"{location!r} is no URL of a database; it is {_SHAPE}") from None
    if kind is None:
        raise _bad_location(f"names none of the databases {', '.join(PORTS)}; it is {_SHAPE}")
    parameters = dict(parse_qsl(parts.query))
    if set(parameters) - {"user"} or parts.fragment:
        raise _bad_location(f"may say nothing behind the name of the database but ?user=; it is {_SHAPE}")
    name = unquote(parts.path.strip("/"))
    if not parts.hostname or not name or "/" in name:
        raise _bad_location(f"{location!r} names no host and database; it is {_SHAPE}")
    user = unquote(parts.username or "") or parameters.get("user", "")
    return DatabasePlace(parts.hostname, port, name, user, kind)


def check_database_location(location: str) -> None:
    """Refuse a password in any database URL, and a PostgreSQL URL that cannot be parsed.

    URLs of other databases are not parsed.
    """
    text = location.strip().removeprefix("jdbc:")
    if text.startswith(tuple(f"{scheme}:" for scheme in POSTGRES)):
        parse_database(location)
    else:
        refuse_password(text)


def without_password(location: str) -> str:
    """Return the location without anything that could be a password, for display."""
    for pattern in _PASSWORDS:
        location = pattern.sub(r"\1\2", location)
    return location


def refuse_password(text: str) -> None:
    """Raise MetadataError ``password_in_location`` for a location with a password."""
    if without_password(text) != text:
        raise MetadataError(
            "password_in_location",
            "holds a password, which would be stored and shown. Take it out, put it into an environment variable "
            "and name that below",
            "location",
        )


def _bad_location(message: str) -> MetadataError:
    return MetadataError("bad_location", message, "location")
