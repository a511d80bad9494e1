"""Change log: every write of a service adds entries, in the same transaction.

Services write through ``store``, ``store_all``, ``put_aside`` and ``remove`` (``services.common``), which
save a before-image of each row. At the end of the outermost unit of work, differences from the before-images
become entries. An entry therefore shows the net change, however many steps it took; rolled-back work leaves
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from elevata.core.canonical_json import canonical_json
from metadata.models import ChangeLogEntry
from metadata.permissions import must_write
from metadata.services import chain
from metadata.services.actor import Actor, current_actor
from metadata.services.declassification import must_stay_classified
from metadata.services.row_changes import EMPTY, Change, Touched
from metadata.services.subjects import plain


class Unit(Touched):
    """Unit of work: its changed rows, additional entries, and the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason
        self.told: list[Change] = []

    def changes(self) -> Iterator[list[Change]]:
        yield from super().changes()
        yield self.told


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
            unit.taken_back()
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
        # A transaction that is to be taken back (a check) leaves nothing, and can't be asked any more.
        if not connection.needs_rollback:
            must_stay_classified(unit)
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
        unit.told.append(Change(str(action), subject_kind, subject_key, subject_name, *fields, dataset_key))


def record_why(*, action: str, subject_kind: str, subject_key: str, subject_name: str) -> None:
    """Add an entry with the reason of an action whose own row (a report, a preview) stores none.

    Without a reason, no entry is added: the row itself has the action, its actor and its time.
    """
    unit = _unit.get()
    if unit is not None and unit.reason:
        unit.told.append(Change(action, subject_kind, subject_key, subject_name, {}, {}))


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
