"""Writing of imported rows: only differences, in an order that violates no unique constraint."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metadata.domain.naming import HISTORY_SUFFIX
from metadata.models import TargetColumn, TargetDataset
from metadata.services.common import put_aside, store

CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"


@dataclass
class Report:
    """Result of an import or of its check: (created | updated, kind, name) per object."""

    changes: list[tuple[str, str, str]] = field(default_factory=list)
    unchanged: int = 0

    def note(self, did: str, kind: str, name: str) -> None:
        if did == UNCHANGED:
            self.unchanged += 1
        else:
            self.changes.append((did, kind, name))

    def count(self, did: str) -> int:
        return self.unchanged if did == UNCHANGED else sum(change[0] == did for change in self.changes)

    def as_json(self) -> dict[str, Any]:
        named = [{"change": did, "kind": kind, "name": name} for did, kind, name in self.changes]
        return {**{did: self.count(did) for did in (CREATED, UPDATED, UNCHANGED)}, "changes": named}


def upsert(row: Any, values: dict[str, Any], check: Callable[[Any], None]) -> str:
    """Set the values, check the row and write it if it differs.

    Returns ``created``, ``updated`` or ``unchanged``.
    """
    fresh = row.pk is None
    differs = fresh
    for name, value in values.items():
        if fresh or getattr(row, name) != value:
            setattr(row, name, value)
            differs = True
    if not differs:
        return UNCHANGED
    check(row)
    store(row)
    return CREATED if fresh else UPDATED


def clear_the_way(changes: list[tuple[Any, str | None, int | None]]) -> None:
    """Write temporary names and key positions to rows that will get new ones, so that rows can swap them.

    ``changes`` are (row, new name, new position in the key). The given row objects are not changed, so that
    their differences are still detected.
    """
    for row, name, place in changes:
        between: dict[str, Any] = {}
        if row.name != name:
            between["name"] = _name_between(row)
        if getattr(row, "key_ordinal", None) not in (None, place):
            between["key_ordinal"] = None
            if isinstance(row, TargetColumn):
                between["role"] = TargetColumn.Role.ATTRIBUTE
        if between:
            put_aside(row, **between)


def _name_between(row: Any) -> str:
    history = isinstance(row, TargetDataset) and row.history_of_id is not None
    return f"moving_{row.key.hex}{HISTORY_SUFFIX if history else ''}"


def arrange(rows: list[Any], dataset: Any) -> None:
    """Reorder columns as in the file, followed by those that it does not mention."""
    mentioned = {row.pk for row in rows}
    order = rows + [row for row in dataset.columns.all() if row.pk not in mentioned]
    ordinals = [row.ordinal for row in order]
    if ordinals == sorted(set(ordinals)):
        return
    for ordinal, row in enumerate(order, start=1):
        if row.ordinal != ordinal:
            row.ordinal = ordinal
            store(row)
