"""Change-log entries for pages."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from elevata.audit.models import ChangeLogEntry, Versioned

# Longer values are shortened on pages.
_LONGEST = 400
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


@dataclass(frozen=True)
class FieldChange:
    """One field before and after; None where it was empty."""

    name: str
    before: str | None
    after: str | None


def entries() -> QuerySet[ChangeLogEntry]:
    """Return the change log, newest first."""
    return ChangeLogEntry.objects.order_by("-pk")


def fields_of(entry: ChangeLogEntry) -> tuple[FieldChange, ...]:
    """Return the changed fields of an entry, ordered by name."""
    return changed_fields(entry.changes)


def changed_fields(differences: str) -> tuple[FieldChange, ...]:
    """Return the changed fields of the differences that an entry has, ordered by name."""
    changes: dict[str, dict[str, Any]] = json.loads(differences)
    return tuple(
        change
        for name, sides in sorted(changes.items())
        for change in _flat(name, sides.get("before"), sides.get("after"))
    )


def _flat(name: str, before: Any, after: Any) -> Iterable[FieldChange]:
    """Yield the differing fields; of nested fields (a policy's severities) the differing inner ones."""
    if isinstance(before, dict) or isinstance(after, dict):
        sides = [side if isinstance(side, dict) else {} for side in (before, after)]
        for key in sorted({*sides[0], *sides[1]}):
            if sides[0].get(key) != sides[1].get(key):
                yield from _flat(f"{name}.{key}", sides[0].get(key), sides[1].get(key))
        return
    yield field_change(name, before, after)


def field_change(name: str, before: Any, after: Any) -> FieldChange:
    """Return a field before and after, as pages show it."""
    return FieldChange(name.replace("_", " "), _text(before), _text(after))


def _text(value: Any) -> str | None:
    if value is None or value in ("", []):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        return f"{value[:10]} {value[11:19]}"
    text = ", ".join(map(_item, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _item(value: Any) -> str:
    """Return the text of a list item; of a column created with its dataset the name and type."""
    if isinstance(value, dict) and "name" in value:
        return f"{value['name']} {value.get('type', '')}".strip()
    return str(value)


def actors(selection: QuerySet[ChangeLogEntry] | None = None) -> list[str]:
    """Return the names of all actors in the log, or in these entries, as a filter's suggestions."""
    rows = ChangeLogEntry.objects.all() if selection is None else selection
    return list(rows.order_by("actor").values_list("actor", flat=True).distinct())


def kinds(selection: QuerySet[ChangeLogEntry] | None = None) -> list[str]:
    """Return the kinds of all objects in the log, or in these entries."""
    rows = ChangeLogEntry.objects.all() if selection is None else selection
    return list(rows.order_by("subject_kind").values_list("subject_kind", flat=True).distinct())


def of_keys(keys: Collection[UUID | str]) -> Q:
    """Return the condition for entries about these datasets, or about objects that belong to one of them."""
    return Q(dataset_key__among=keys) | Q(subject_key__among=[str(key) for key in keys])


@dataclass(frozen=True)
class ShownEntry:
    """Entry with its fields; ``dataset`` is the key to link to, None for a removed dataset.

    ``undoable`` entries can be undone with those that were written together with them.
    """

    entry: ChangeLogEntry
    fields: tuple[FieldChange, ...]
    dataset: UUID | None = None
    source: UUID | None = None
    undoable: bool = False


def of_row(row: Versioned) -> QuerySet[ChangeLogEntry]:
    """Return the entries about one row itself, newest first."""
    return entries().filter(
        subject_kind=row.LOG_KIND or row._meta.model_name, subject_key=str(getattr(row, row.LOG_KEY))
    )


def since_version(row: Versioned, seen: int) -> list[ShownEntry]:
    """Return the entries of a row since its version ``seen``, newest first.

    Each write increases the version, so there are no more entries than versions.
    """
    return [ShownEntry(entry, fields_of(entry)) for entry in of_row(row)[: max(row.version - seen, 0)]]


def values_before(row: Versioned, seen: int) -> dict[str, Any]:
    """Return the old values of the fields that changed since version ``seen``; None for an empty value."""
    values: dict[str, Any] = {}
    for entry in of_row(row)[: max(row.version - seen, 0)]:
        values |= {name: sides.get("before") for name, sides in json.loads(entry.changes).items()}
    return values
