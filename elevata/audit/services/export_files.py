"""Files with exports of the audit chain: atomic writes, verified reads, and checks of the audit folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TextIO

from django.conf import settings

from elevata.audit.export_format import FORMAT, Exported, verify_lines
from elevata.audit.hash_chain import Head, Problem, parse_head
from elevata.audit.models import AuditSegment, ChainLink
from elevata.audit.services import recorded_heads
from elevata.audit.services.recorded_heads import Restore
from elevata.core.errors import MetadataError


def write_whole(path: Path, lines: Iterable[bytes]) -> int:
    """Write a new file atomically, readable by its owner only, and return its number of lines."""
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
        # A link instead of a rename, because a rename would overwrite an existing file of this name.
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
    """Return the verified content of an export.

    Raises Broken if it was changed, MetadataError if it cannot be read or is not an export.
    """
    try:
        with path.open("rb") as lines:
            return verify_lines(lines)
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=str(path)) from None
    except MetadataError as problem:
        raise problem.about(place=str(path)) from None


def head_in(path: Path) -> Head:
    """Return the chain head in an exported file. Raise MetadataError if the file cannot be read or has none."""
    try:
        with path.open(encoding="utf-8") as file:
            return parse_head(_document(file))
    except OSError as error:
        raise MetadataError("unreadable", f"cannot be read: {error.strerror}", place=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise MetadataError("invalid", f"is no JSON document: {error}", place=str(path)) from None
    except MetadataError as problem:
        raise problem.about(place=str(path)) from None


def _document(file: TextIO) -> Any:
    """Return the file's JSON document; for an export, that of its first line, which has the chain head."""
    first = file.readline()
    if f'"{FORMAT}"' in first:
        return json.loads(first)
    return json.loads(first + file.read())


def wrong_exports(folder: Path, *, complete: bool = True) -> Problem | None:
    """Return a problem for the first segment whose export file has changed since its entries were removed.

    With ``complete``, a missing file is a problem, too.
    """
    for segment in AuditSegment.objects.order_by("first"):
        path = folder / Path(segment.file).name
        if not path.is_file():
            if not complete:
                continue
            message = f"the export of {segment} ({segment.file}) is not in {folder}"
            return Problem("export_missing", message, kind="segment", subject=segment.pk)
        if file_digest(path) != segment.digest:
            message = f"the export of {segment} ({path}) has changed since it was written"
            return Problem("export_changed", message, kind="segment", subject=segment.pk)
    return None


def wrong_files(restores: Iterable[Restore] = ()) -> Problem | None:
    """Return a problem for the first file in the audit folder whose chain head is not in this chain.

    Files without a head are skipped. Heads of links that were lost in one of the ``restores`` are accepted. If there
    is no such file, the exports in the folder are checked.
    """
    folder = Path(settings.AUDIT_FOLDER)
    for path in sorted((*folder.glob("*.json"), *folder.glob("*.jsonl"))):
        if path.name == recorded_heads.NAME:
            continue
        try:
            head = head_in(path)
        except MetadataError:
            continue
        lost = any(restore.lost(head) for restore in restores)
        if head.sequence and not lost and not ChainLink.objects.filter(sequence=head.sequence, hash=head.hash).exists():
            message = f"{path} was made when link {head.sequence} ended the chain, and this chain has no such link"
            return Problem("artifact_differs", message, head.sequence)
    return wrong_exports(folder, complete=False)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
