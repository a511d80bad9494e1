"""Secrets by reference: metadata names an environment variable, and the installation's operator sets it.

A variable ``NAME`` holds the secret itself, ``NAME_FILE`` the path of a file with it (as Docker and Kubernetes
provide secrets). Metadata may name only variables reserved for it; values are read when they are used, and are
never stored, shown or logged.
"""

import os
from pathlib import Path

_LONGEST = 10_000


class NoSecret(Exception):
    """Error raised if there is no secret of a name; it has the name, never a value or a path."""


def secret_named(name: str) -> str:
    """Return the secret of this name. Raise NoSecret if neither variable is set, or the file is unreadable or empty."""
    held = os.environ.get(name, "")
    if held:
        return held
    file = os.environ.get(f"{name}_FILE", "")
    if not file:
        raise NoSecret(f"the environment variable {name} is not set here, and neither is {name}_FILE")
    try:
        with Path(file).open(encoding="utf-8") as opened:
            held = opened.read(_LONGEST).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise NoSecret(f"the file that {name}_FILE names cannot be read ({type(error).__name__})") from None
    if not held:
        raise NoSecret(f"the file that {name}_FILE names is empty")
    return held
