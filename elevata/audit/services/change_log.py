"""Transactions with a change log, and the optimistic lock.

A unit of work collects changes and writes them as entries when its outermost block ends. An app can track its rows
with a ``Tracker``. That of metadata compares rows with their before-images, so that an entry has the net change of all
steps. A rollback leaves no entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db import connection, models, transaction
from django.utils import timezone

from elevata.accounts.actors import Actor, current_actor
from elevata.accounts.permissions import must_write
from elevata.audit.models import ChangeLogEntry, Versioned
from elevata.audit.services import chain, row_seals
from elevata.core.canonical_json import canonical_json

EMPTY: tuple[Any, ...] = (None, "", [], {})


@dataclass(frozen=True)
class Change:
    """Change of one subject, for an entry; ``before`` and ``after`` map fields to plain values."""

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
        """Clear caches after a part of the work was rolled back."""

    @property
    def before(self) -> Mapping[type[models.Model], Mapping[int, dict[str, Any] | None]]:
        """Return the before-images of the changed rows, None for new rows; their seals are renewed."""


T = TypeVar("T", bound=Tracker)


class Unit:
    """Unit of work: its reason, its trackers, and other recorded changes.

    ``entry`` is its first entry in the change log, None before its end and without a change.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.entry: ChangeLogEntry | None = None
        self.recorded: list[Change] = []
        self.before: dict[type[models.Model], dict[int, dict[str, Any] | None]] = defaultdict(dict)
        self._trackers: dict[type, Tracker] = {}

    def tracker(self, kind: type[T]) -> T:
        """Return the unit's tracker of this class; create it at the first call."""
        tracker = self._trackers.setdefault(kind, kind())
        assert isinstance(tracker, kind)
        return tracker

    def about_to_change(self, row: models.Model) -> None:
        """Store the before-image of a row that no tracker has, so that its seal is renewed."""
        if row.pk not in self.before[type(row)]:
            self.before[type(row)][row.pk] = row_seals.image(row)

    def added(self, row: models.Model) -> None:
        """Register a new untracked row, so that it is sealed."""
        self.before[type(row)][row.pk] = None

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

    def seal(self, entry: int | None) -> None:
        """Seal the changed rows; ``entry`` is the last entry of the unit."""
        for tracker in self._trackers.values():
            row_seals.seal(tracker.before, entry)
        if self.before:
            row_seals.seal(self.before, entry)


_unit: ContextVar[Unit | None] = ContextVar("unit_of_work", default=None)


@contextmanager
def unit_of_work(reason: str = "") -> Iterator[Unit]:
    """Yield the open unit of work, or else a new one in a transaction, which writes its entries at the end.

    All entries of the unit have the reason that was given first.
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
        # A transaction that will be rolled back (a check) writes no entries, and may not permit queries.
        if not connection.needs_rollback:
            unit.check()
            actor, at, last = current_actor(), timezone.now(), None
            for changes in unit.changes():
                entries = _write_entries(changes, actor, at, unit.reason)
                unit.entry = unit.entry or next(iter(entries), None)
                last = entries[-1].pk if entries else last
            unit.seal(last)


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

    ``before`` and ``after`` map fields to values; equal values are omitted.
    """
    with unit_of_work(reason) as unit:
        was, now = (plain(dict(values or {})) for values in (before, after))
        unit.recorded.append(Change(str(action), subject_kind, subject_key, subject_name, was, now, dataset_key))


def record_why(*, action: str, subject_kind: str, subject_key: str, subject_name: str) -> None:
    """Add an entry with the reason of an action whose own row (a report, a preview) has no field for it.

    Without a reason no entry is added, because the row has the action, its actor and its time.
    """
    unit = _unit.get()
    if unit is not None and unit.reason:
        unit.recorded.append(Change(action, subject_kind, subject_key, subject_name, {}, {}))


def _write_entries(changes: list[Change], actor: Actor, at: datetime, reason: str) -> list[ChangeLogEntry]:
    if not changes:
        return []
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
            changes=differences(change.before, change.after),
            reason=reason,
            request_id=actor.request_id,
        )
        for change in changes
    )
    chain.append(*entries)
    return entries


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the differing fields as canonical JSON, without empty values."""
    fields: dict[str, dict[str, Any]] = {}
    for name in {*before, *after}:
        old, new = before.get(name), after.get(name)
        if old == new or (old in EMPTY and new in EMPTY):
            continue
        sides = {"before": old, "after": new}
        fields[name] = {side: value for side, value in sides.items() if value not in EMPTY}
    return canonical_json(fields).decode()


def plain(value: Any) -> Any:
    """Return a field's value for canonical JSON: keys, times and floats as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    # A value of TextChoices is a subclass of str, which canonical JSON refuses.
    return str(value) if isinstance(value, UUID | float | str) else value


Row = TypeVar("Row", bound=Versioned)
