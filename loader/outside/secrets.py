"""Secrets by reference: metadata names a variable, and whoever runs the installation says what it holds.

A variable ``NAME`` holds the secret itself, ``NAME_FILE`` the path of a file that does (as Docker and
Kubernetes hand secrets over). Only names made for it can be asked for; the values are read when they are
used, and are never stored, shown or logged.
"""

import os
from pathlib import Path

_LONGEST = 10_000


class NoSecret(Exception):
    """Why there is no secret of this name here; says the name, never a value or a path."""


def secret_named(name: str) -> str:
    """The secret of this name. NoSecret if neither variable is set, or the file cannot be read or is empty."""
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
