"""Transactions with a change log, and the optimistic lock.

A unit of work collects changes and writes them as entries when its outermost block ends. An app that tracks rows of
its own adds a ``Tracker``: metadata's compares rows with their before-images, so that an entry shows the net change,
however many steps it took. Rolled-back work leaves no entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from elevata.accounts.permissions import Actor, current_actor, must_write
from elevata.audit.models import ChangeLogEntry, Versioned
from elevata.audit.services import chain
from elevata.core.canonical_json import canonical_json
from elevata.core.errors import MetadataError, StaleVersion

EMPTY = (None, "", [], {})


@dataclass(frozen=True)
class Change:
    """Change of one subject, to be written as an entry; ``before`` and ``after`` map fields to plain values."""

    action: str
    subject_kind: str
    subject_key: str
    subject_name: str
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    dataset_key: UUID | None = None


class Tracker(Protocol):
    """Changed rows of one app within a unit of work."""

    def check(self) -> None:
        """Raise MetadataError if the actor may not make the changes; called before entries are written."""

    def changes(self) -> Iterator[list[Change]]:
        """Yield the changes in batches, in the order of their entries."""

    def rolled_back(self) -> None:
        """Drop what was cached, because part of the work was rolled back."""


T = TypeVar("T", bound=Tracker)


class Unit:
    """Unit of work: its trackers, additional changes, and the reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.recorded: list[Change] = []
        self._trackers: dict[type, Tracker] = {}

    def tracker(self, kind: type[T]) -> T:
        """Return the unit's tracker of this class, created when first asked for."""
        return self._trackers.setdefault(kind, kind())

    def rolled_back(self) -> None:
        for tracker in self._trackers.values():
            tracker.rolled_back()

    def check(self) -> None:
        for tracker in self._trackers.values():
            tracker.check()

    def changes(self) -> Iterator[list[Change]]:
        for tracker in self._trackers.values():
            yield from tracker.changes()
        yield self.recorded


_unit: ContextVar[Unit | None] = ContextVar("unit_of_work", default=None)


@contextmanager
def unit_of_work(reason: str = "") -> Iterator[Unit]:
    """Yield the open unit of work, or a new one in a transaction, which writes its entries at the end.

    ``reason`` is stored with all entries of the unit; the first one given counts.
    """
    unit = _unit.get()
    if unit is not None:
        unit.reason = unit.reason or reason
        try:
            yield unit
        except BaseException:
            unit.rolled_back()
            raise
        return
    must_write()
    with transaction.atomic():
        unit = Unit(reason)
        before = _unit.set(unit)
        try:
            yield unit
        finally:
            _unit.reset(before)
        # A transaction that will be rolled back (a check) writes no entries, and may be broken already.
        if not connection.needs_rollback:
            unit.check()
            actor, at = current_actor(), timezone.now()
            for changes in unit.changes():
                _write(changes, actor, at, unit.reason)


def record_change(
    *,
    action: str,
    subject_kind: str,
    subject_key: str,
    subject_name: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    dataset_key: UUID | None = None,
    reason: str = "",
) -> None:
    """Add an entry about a subject that is not a metadata row, like a user or a policy.

    ``before`` and ``after`` map fields to values; equal ones are left out.
    """
    with unit_of_work(reason) as unit:
        fields = [plain(dict(values or {})) for values in (before, after)]
        unit.recorded.append(Change(str(action), subject_kind, subject_key, subject_name, *fields, dataset_key))


def record_why(*, action: str, subject_kind: str, subject_key: str, subject_name: str) -> None:
    """Add an entry with the reason of an action whose own row (a report, a preview) stores none.

    Without a reason, no entry is added: the row itself has the action, its actor and its time.
    """
    unit = _unit.get()
    if unit is not None and unit.reason:
        unit.recorded.append(Change(action, subject_kind, subject_key, subject_name, {}, {}))


def _write(changes: list[Change], actor: Actor, at: datetime, reason: str) -> None:
    if not changes:
        return
    entries = ChangeLogEntry.objects.bulk_create(
        ChangeLogEntry(
            at=at,
            actor=actor.name,
            actor_kind=actor.kind,
            user_id=actor.user_id,
            action=str(change.action),
            subject_kind=change.subject_kind,
            subject_key=change.subject_key,
            subject_name=change.subject_name,
            dataset_key=change.dataset_key,
            changes=_differences(change.before, change.after),
            reason=reason,
            request_id=actor.request_id,
        )
        for change in changes
    )
    chain.append(*entries)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the differing fields as canonical JSON; an empty side is left out."""
    found: dict[str, dict[str, Any]] = {}
    for name in {*before, *after}:
        was, now = before.get(name), after.get(name)
        if was == now or (was in EMPTY and now in EMPTY):
            continue
        sides = {"before": was, "after": now}
        found[name] = {side: value for side, value in sides.items() if value not in EMPTY}
    return canonical_json(found).decode()


def plain(value: Any) -> Any:
    """Return a field's value for canonical JSON: keys, times and floats as text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    # Choices are texts of a class of their own.
    return str(value) if isinstance(value, UUID | float | str) else value


# Steps shared by services: one transaction with a change log, an optimistic lock, checks of a model's fields.


Row = TypeVar("Row", bound=Versioned)


@contextmanager
def writing(reason: str = "") -> Iterator[None]:
    """Open a transaction; the outermost one writes the change-log entries, with the reason, at its end.

    An IntegrityError of the database becomes a MetadataError.
    """
    try:
        with transaction.atomic(), unit_of_work(reason):
            yield
    except IntegrityError as error:
        said = str(error).strip().splitlines()[0]
        raise MetadataError("constraint", f"the database refused it: {said}") from error


@contextmanager
def snapshot() -> Iterator[None]:
    """Read from one state of the database without blocking writers.

    On SQLite, other transactions take the write lock when they begin; this one does not. Inside of a
    transaction, that transaction's state is read.
    """
    connection = transaction.get_connection()
    if connection.in_atomic_block:
        yield
        return
    if connection.vendor == "sqlite":
        connection.ensure_connection()  # which sets the mode
        mode, connection.transaction_mode = connection.transaction_mode, "DEFERRED"
    try:
        with transaction.atomic():
            if connection.vendor == "sqlite":
                connection.transaction_mode = mode
            else:
                with connection.cursor() as cursor:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    finally:
        if connection.vendor == "sqlite":
            connection.transaction_mode = mode


def claim(row: Row, expected_version: int) -> Row:
    """Return the row as stored now, locked; StaleVersion if it is not the expected version."""
    try:
        found = type(row).objects.select_for_update().get(pk=row.pk)
    except type(row).DoesNotExist:
        raise MetadataError("gone", "does not exist any more", where=str(row)) from None
    if found.version != expected_version:
        raise StaleVersion(str(found), expected_version, found.version)
    return found


def assign(row: models.Model, changes: dict[str, Any], allowed: tuple[str, ...]) -> bool:
    """Set fields and return True if any value changed; MetadataError for an unknown field."""
    differs = False
    for name, value in changes.items():
        if name not in allowed:
            raise MetadataError("unknown_field", f"cannot be set; known are {', '.join(allowed)}", name, str(row))
        if row.pk is None or getattr(row, name) != value:
            setattr(row, name, value)
            differs = True
    return differs


_left_to_database: ContextVar[bool] = ContextVar("left_to_database", default=False)


@contextmanager
def constraints_left_to_database() -> Iterator[None]:
    """Skip queries that check a row before its write: a violated constraint raises MetadataError ``constraint``.

    Checks take several queries a row, far longer than writing it.
    """
    before = _left_to_database.set(True)
    try:
        yield
    finally:
        _left_to_database.reset(before)


def are_constraints_left_to_database() -> bool:
    """Return True inside of ``constraints_left_to_database``."""
    return _left_to_database.get()


def check_fields(row: models.Model, where: str) -> None:
    """Check types, choices, uniqueness and constraints of a model's fields; raise MetadataError.

    Foreign keys are left to the database, because services get rows and not ids.
    """
    related = [f.name for f in row._meta.fields if f.is_relation]
    try:
        row.clean_fields(exclude=related)
        if not are_constraints_left_to_database():
            row.validate_unique()
            row.validate_constraints()
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise MetadataError("invalid", messages[0], "" if field == "__all__" else field, where) from None
