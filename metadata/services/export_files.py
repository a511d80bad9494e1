"""Files that hold exports of the audit chain: written whole, read and verified, found again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from metadata.domain.audit_files import Exported, verified
from metadata.domain.chain import Problem
from metadata.domain.errors import MetadataError
from metadata.models import AuditSegment


def write_whole(path: Path, lines: Iterable[bytes]) -> int:
    """Write a file that is there whole or not at all, readable by its owner; returns how many lines it has."""
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            pending = Path(file.name)
            try:
                for count, line in enumerate(lines, start=1):  # noqa: B007
                    file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                pending.unlink()
                raise
        # A link, not a rename: a file of this name that is there already is not written over.
        try:
            os.link(pending, path)
        finally:
            pending.unlink()
    except FileExistsError:
        raise MetadataError("exists", "is there already; give another name", place=str(path)) from None
    except OSError as error:
        raise MetadataError("unwritable", f"cannot be written: {error.strerror}", place=str(path)) from None
    return count


def read_export(path: Path) -> Exported:
    """What an export holds; Broken if it is not as it was exported, MetadataError if it can't be read."""
    try:
        with path.open("rb") as lines:
            return verified(lines)
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=str(path)) from None
    except MetadataError as problem:
        raise problem.about(place=str(path)) from None


def wrong_exports(folder: Path) -> Problem | None:
    """The first segment whose file is not in the folder, or not as it was when its entries were removed."""
    for segment in AuditSegment.objects.order_by("first"):
        at = {"kind": "segment", "subject": segment.pk}
        path = folder / Path(segment.file).name
        if not path.is_file():
            return Problem("export_missing", f"the export of {segment} ({segment.file}) is not in {folder}", **at)
        if _digest(path) != segment.digest:
            return Problem("export_changed", f"the export of {segment} ({path}) is not what it was", **at)
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
