"""Names of the environment variables with the passwords of sources."""

import re
from collections.abc import Collection

from elevata.core.errors import MetadataError

# Variables reserved for sources. Another one must be listed by the administrator: a user could send any variable that
# metadata may name to a host.
SECRET_PREFIX = "ELEVATA_SOURCE_"
_SECRET = re.compile(rf"{SECRET_PREFIX}(?!(ROOTS|HOSTS|SECRETS)$)[A-Z0-9_]{{1,80}}", re.ASCII)
_LISTED = re.compile(r"(?!ELEVATA_|DJANGO_|DATABASE_URL$)[A-Z][A-Z0-9_]{0,94}", re.ASCII)


def listed_secrets(text: str) -> list[str]:
    """Return the names in a list of variables, separated by commas, that sources may name besides reserved ones.

    Raise MetadataError ``bad_secret`` for a name that is no variable, or that the product reads itself.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not _LISTED.fullmatch(name):
            message = f"{name!r} is not a variable name, or is reserved for elevata; remove it"
            raise MetadataError("bad_secret", message)
    return names


def check_secret_name(name: str, listed: Collection[str] = ()) -> None:
    """Refuse a name that is no variable for a source's password; an empty name is accepted.

    Accepted are ``ELEVATA_SOURCE_…`` and the names that the administrator lists.
    """
    if name and name not in listed and not _SECRET.fullmatch(name):
        raise MetadataError(
            "bad_secret",
            f"must be the name of an environment variable with a source's password: {SECRET_PREFIX} and capital "
            f"letters, digits or _, like {SECRET_PREFIX}ERP, or a name that the administrator lists in "
            f"{SECRET_PREFIX}SECRETS. The password itself is never entered here",
            "secret",
        )
