"""Secrets by reference: metadata names an environment variable, and the installation's operator sets it.

The variable ``NAME`` has the secret itself, or ``NAME_FILE`` the path of a file with it, as Docker and Kubernetes
provide secrets. The names that metadata may use are checked when they are saved (``metadata.domain.sources.locations``,
``elevata.notifications.kinds``). Values are read when they are used, and never stored, shown or logged.
"""

import os
import re
from pathlib import Path

_LONGEST = 10_000
_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)


class NoSecret(Exception):
    """Error of a missing secret; its message has the variable's name, never a value or a path."""


def secret_named(name: str) -> str:
    """Return the secret of this name. Raise NoSecret if neither variable is set, or the file is unreadable or empty."""
    secret = os.environ.get(name, "")
    if secret:
        return secret
    file = os.environ.get(f"{name}_FILE", "")
    if not file:
        raise NoSecret(f"the environment variable {name} is not set here, and neither is {name}_FILE")
    try:
        with Path(file).open(encoding="utf-8") as stream:
            secret = stream.read(_LONGEST).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise NoSecret(f"the file that {name}_FILE names cannot be read ({type(error).__name__})") from None
    if not secret:
        raise NoSecret(f"the file that {name}_FILE names is empty")
    return secret


def fits_header(secret: str) -> bool:
    """Return True for a secret that a header can hold as it is: printable ASCII, without spaces around it.

    A client library repeats any other secret in its error.
    """
    return bool(_PRINTABLE.fullmatch(secret))
