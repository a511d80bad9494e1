"""Database locations in metadata: a URL without a password, and the name of the variable with the password."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from elevata.core.errors import MetadataError

POSTGRES = ("postgresql", "postgres")
POSTGRES_PORT = 5432
# Only variables made for this can be named: any other could carry the product's own secrets to a stranger's host.
SECRET_PREFIX = "ELEVATA_SOURCE_"
_SECRET = re.compile(rf"{SECRET_PREFIX}[A-Z0-9_]{{1,80}}", re.ASCII)
_RESERVED_SECRETS = (f"{SECRET_PREFIX}ROOTS", f"{SECRET_PREFIX}HOSTS")
# Before the host, behind a parameter's name, and Oracle's own way. The second group keeps what stands behind it.
_PASSWORDS = (
    re.compile(r"(//[^/?#@:\s]*):[^/?#]*(@)"),
    re.compile(r"([?&;]\s*(?:password|passwd|pwd|sslpassword)\s*=)[^&;]+()", re.IGNORECASE),
    re.compile(r"(:thin:[^/@\s]+)/[^@\s]+(@)", re.IGNORECASE),
)
_SHAPE = "like postgresql://reader@db.example.org:5432/erp"


@dataclass(frozen=True)
class DatabasePlace:
    """Address of a PostgreSQL database as given in a system's location; ``user`` may be empty."""

    host: str
    port: int
    name: str
    user: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.name}"


def parse_database(location: str) -> DatabasePlace:
    """Return the database at ``postgresql://user@host:port/name``, with or without the prefix ``jdbc:``.

    Raises MetadataError ``password_in_location`` or ``bad_location``.
    """
    text = location.strip().removeprefix("jdbc:")
    _refuse_password(text)
    try:
        parts = urlsplit(text)
        port = parts.port or POSTGRES_PORT
    except ValueError:
        raise _bad(f"{location!r} is no URL of a database; it is {_SHAPE}") from None
    if parts.scheme not in POSTGRES:
        raise _bad(f"only PostgreSQL can be asked from here; its location is {_SHAPE}")
    asked = dict(parse_qsl(parts.query))
    if set(asked) - {"user"} or parts.fragment:
        raise _bad(f"may say nothing behind the name of the database but ?user=; it is {_SHAPE}")
    name = unquote(parts.path.strip("/"))
    if not parts.hostname or not name or "/" in name:
        raise _bad(f"{location!r} names no host and database; it is {_SHAPE}")
    return DatabasePlace(parts.hostname, port, name, unquote(parts.username or "") or asked.get("user", ""))


def check_database_location(location: str) -> None:
    """Refuse a password in any database URL, and a PostgreSQL URL that cannot be parsed.

    URLs of other databases are not parsed.
    """
    text = location.strip().removeprefix("jdbc:")
    if text.startswith(tuple(f"{scheme}:" for scheme in POSTGRES)):
        parse_database(location)
    else:
        _refuse_password(text)


def check_secret_name(name: str) -> None:
    """Refuse a name that is not an ``ELEVATA_SOURCE_…`` variable for a password; an empty name is accepted."""
    if name and (not _SECRET.fullmatch(name) or name in _RESERVED_SECRETS):
        raise MetadataError(
            "bad_secret",
            f"names an environment variable of its own: {SECRET_PREFIX} and capital letters, digits or _, "
            f"like {SECRET_PREFIX}ERP_PASSWORD. The password itself never stands here",
            "secret",
        )


def without_password(location: str) -> str:
    """Return the location with everything removed that could be a password, for display."""
    for found in _PASSWORDS:
        location = found.sub(r"\1\2", location)
    return location


def _refuse_password(text: str) -> None:
    if without_password(text) != text:
        raise MetadataError(
            "password_in_location",
            "holds a password, which would be stored and shown. Take it out, put it into an environment variable "
            "and name that below",
            "location",
        )


def _bad(message: str) -> MetadataError:
    return MetadataError("bad_location", message, "location")
