"""Heads of the audit chain, recorded in a file outside the database.

A chain that lost its last links, or came with an older copy of the database, is consistent in itself; only a head
recorded elsewhere reveals the loss. Each line of the file is a signed JSON object: a sealed head, or the record of a
restore. A restore invalidates the earlier heads after the end of the restored chain.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from elevata.audit.hash_chain import Head, Problem, parse_head
from elevata.audit.services.signing import sign, signature_problem
from elevata.audit.signatures import Signature
from elevata.core.errors import MetadataError

log = logging.getLogger(__name__)

NAME = "heads.jsonl"
_HEAD, _RESTORE = "recorded-head", "recorded-restore"
_PURPOSES = frozenset({_HEAD, _RESTORE})
# A file of more bytes is thinned: the newest heads and one for each month stay.
_LARGEST = 512_000
_KEPT = 500
_TAIL = 4096


@dataclass(frozen=True)
class Restore:
    """Record of a restore: since then, the chain that ended with ``after`` is the right one.

    ``before`` is the newest head recorded before it, ``source`` the SHA-256 of the restored copy, if any.
    """

    at: str
    before: Head
    after: Head
    reason: str
    source: str = ""

    def lost(self, head: Head) -> bool:
        """Return True if the restore removed the head's link from the chain."""
        return self.after.sequence < head.sequence <= self.before.sequence

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "before": self.before.as_json(),
            "chain": self.after.as_json(),
            "reason": self.reason,
            "source": self.source,
        }


@dataclass(frozen=True)
class Records:
    """Content of the file: the heads that the chain must have, and the recorded restores."""

    heads: tuple[Head, ...] = ()
    restores: tuple[Restore, ...] = ()
    problem: Problem | None = None

    @property
    def newest(self) -> Head | None:
        return max(self.heads, key=lambda head: head.sequence, default=None)


def path() -> Path:
    """Return the path of the file."""
    return Path(settings.AUDIT_FOLDER) / NAME


def create() -> None:
    """Create the file for the first link of a chain, if it is missing; errors are only logged."""
    try:
        with _file_lock():
            path().touch(mode=0o600)
    except OSError as error:
        log.error("%s could not be created: %s", path(), error)


def record(head: Head) -> None:
    """Record a new head; errors are only logged, because the rows are committed in the database.

    A missing file is not recreated, so that verification reports its loss.
    """
    try:
        with _file_lock():
            if not path().exists():
                log.error("%s is gone: heads of the audit chain are not recorded, see docs/use/change_log.md", path())
                return
            newest = _last_document()
            if newest is None or "before" in newest or parse_head(newest).sequence < head.sequence:
                _add(_HEAD, {"at": _now(), "chain": head.as_json()})
                _thin()
    except (OSError, MetadataError) as error:
        log.error("the head of the audit chain could not be recorded in %s: %s", path(), error)


def state(after: Head, *, before: Head, reason: str, source: str = "") -> Restore:
    """Record that the chain ending with ``after`` is the right one, regardless of earlier records.

    Raises MetadataError ``unwritable`` if the file cannot be written.
    """
    try:
        with _file_lock():
            newest = read().newest or Head()
            earlier = max(newest, before, key=lambda head: head.sequence)
            restore = Restore(_now(), earlier, after, reason, source)
            _add(_RESTORE, restore.as_json(), durable=True)
    except OSError as error:
        raise MetadataError("unwritable", f"cannot be written: {error.strerror}", place=str(path())) from None
    return restore


def read() -> Records:
    """Return the content of the file; ``problem`` if it is missing, unreadable, or has an invalid signature."""
    try:
        lines = path().read_bytes().split(b"\n")
    except FileNotFoundError:
        message = f"{path()} is not there: nothing outside the database tells where the chain ended"
        return Records(problem=Problem("heads_missing", message))
    except OSError as error:
        return Records(problem=Problem("heads_unreadable", f"{path()} cannot be read: {error.strerror}"))
    heads: dict[int, Head] = {}
    restores: list[Restore] = []
    for number, line in enumerate(lines[:-1], start=1):
        if _is_torn(line):
            continue
        try:
            document = _verified_document(line)
            head = parse_head(document)
            if "before" in document:
                restores.append(_parse_restore(document, head))
                heads = {sequence: earlier for sequence, earlier in heads.items() if sequence <= head.sequence}
            if head.sequence:
                heads[head.sequence] = head
        except (MetadataError, KeyError, TypeError, ValueError) as error:
            message = f"line {number} of {path()} is not as it was signed: {error}"
            return Records(tuple(heads.values()), tuple(restores), Problem("heads_changed", message))
    return Records(tuple(heads.values()), tuple(restores))


def _verified_document(line: bytes) -> dict[str, Any]:
    """Return the document of a line; ValueError if its signature is not valid."""
    row = json.loads(line)
    purpose, document = row["purpose"], row["document"]
    code = signature_problem(Signature(row["key"], row["signature"]), purpose, document)
    if purpose not in _PURPOSES or ("before" in document) != (purpose == _RESTORE):
        code = "purpose"
    if code:
        raise ValueError(code)
    return document


def _is_torn(line: bytes) -> bool:
    """Return True if the line is incomplete, because a process died while writing it."""
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _parse_restore(document: dict[str, Any], after: Head) -> Restore:
    before = parse_head({"chain": document["before"]})
    return Restore(document["at"], before, after, document["reason"], document["source"])


def _now() -> str:
    return timezone.now().isoformat(timespec="microseconds")


@contextmanager
def _file_lock() -> Iterator[None]:
    """Hold the lock on the file, so that processes write one at a time.

    The lock is a separate file, because thinning replaces the file itself.
    """
    path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path().with_name(".heads.lock"), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _add(purpose: str, document: dict[str, Any], *, durable: bool = False) -> None:
    signature = sign(purpose, document)
    row = {"purpose": purpose, "document": document, "key": signature.key_id, "signature": signature.value}
    descriptor = os.open(path(), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(_line_separator() + json.dumps(row).encode() + b"\n")
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _line_separator() -> bytes:
    """Return a line feed if the last line is incomplete, so that the next one begins on a new line."""
    tail = _tail()
    return b"\n" if tail and not tail.endswith(b"\n") else b""


def _tail() -> bytes:
    try:
        with path().open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read()
    except FileNotFoundError:
        return b""


def _last_document() -> dict[str, Any] | None:
    """Return the document of the last complete line; unverified, because it only decides if a head is new."""
    lines = _tail().split(b"\n")[:-1]
    try:
        return json.loads(lines[-1])["document"] if lines else None
    except (ValueError, KeyError, TypeError):
        return None


def _thin() -> None:
    """Remove old heads from a large file, except the newest ones, the last of each month, and all restores."""
    if path().stat().st_size <= _LARGEST:
        return
    lines = [line for line in path().read_bytes().split(b"\n") if not _is_torn(line)]
    months: dict[str, int] = {}
    numbers = set(range(len(lines) - _KEPT, len(lines)))
    for number, line in enumerate(lines):
        document = json.loads(line)["document"]
        if "before" in document:
            numbers.add(number)
        months[document["at"][:7]] = number
    numbers.update(months.values())
    pending = path().with_name(".heads.pending")
    with os.fdopen(os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(b"".join(lines[number] + b"\n" for number in sorted(numbers) if number >= 0))
        file.flush()
        os.fsync(file.fileno())
    pending.replace(path())
