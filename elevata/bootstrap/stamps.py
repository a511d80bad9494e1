"""Stamps of completed steps: a step runs again only if its inputs changed.

A stamp is the digest of a step's inputs. It is removed before the step and written after its success, so that an
interrupted step runs again.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from elevata.bootstrap.places import ROOT, STAMPS


def digest(*parts: object) -> str:
    """Return one digest over values and over the names and contents of files."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            name = part.relative_to(ROOT) if part.is_relative_to(ROOT) else part
            sha.update(f"{name}\0".encode())
            sha.update(part.read_bytes() if part.is_file() else b"absent")
        else:
            sha.update(f"{part}".encode())
        sha.update(b"\0\0")
    return sha.hexdigest()


def once(
    name: str,
    inputs: str,
    action: Callable[[], str],
    *,
    results: Iterable[Path] = (),
    folder: Path = STAMPS,
) -> str:
    """Run ``action`` unless it succeeded for these inputs and its results still exist."""
    stamp = folder / name
    if stamp.is_file() and stamp.read_text() == inputs and all(path.exists() for path in results):
        return "unchanged"
    stamp.unlink(missing_ok=True)
    result = action()
    folder.mkdir(parents=True, exist_ok=True)
    stamp.touch(mode=0o600)  # a data folder is private to its owner
    stamp.write_text(inputs)
    return result
