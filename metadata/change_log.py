"""The change log as pages show it: entries with what differs, field by field, found by any name a thing had."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from metadata.models import ChangeLogEntry, SourceDataset, TargetDataset
from metadata.models.base import Versioned
from metadata.services.subjects import KINDS, held, stable_key

# What entries are about; other rooms add theirs.
SUBJECT_KINDS = frozenset(KINDS.values()) | {
    "baseline",
    "delivery",
    "environment",
    "execution",
    "lease",
    "load_run",
    "notice",
    "person",
    "policy",
    "report",
    "schedule",
    "token",
    "webhook",
}
# Longer values are cut on pages; the log itself keeps them whole.
_LONGEST = 400
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


@dataclass(frozen=True)
class FieldChange:
    """One field before and after; None where it was empty."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class ShownEntry:
    """An entry with its fields; ``dataset`` is the key to link to, None where nothing describes it any more."""

    entry: ChangeLogEntry
    fields: tuple[FieldChange, ...]
    dataset: UUID | None
    source: UUID | None


def entries() -> QuerySet[ChangeLogEntry]:
    """The change log, newest first."""
    return ChangeLogEntry.objects.order_by("-pk")


def shown(found: Iterable[ChangeLogEntry]) -> list[ShownEntry]:
    """Entries with what pages show of them, in their order and in a constant number of queries."""
    rows = list(found)
    keys = {entry.dataset_key for entry in rows if entry.dataset_key}
    targets = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    sources = set(SourceDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    return [
        ShownEntry(
            entry,
            fields_of(entry),
            entry.dataset_key if entry.dataset_key in targets else None,
            entry.dataset_key if entry.dataset_key in sources else None,
        )
        for entry in rows
    ]


def fields_of(entry: ChangeLogEntry) -> tuple[FieldChange, ...]:
    """Return the changed fields of an entry, ordered by name."""
    changes: dict[str, dict[str, Any]] = json.loads(entry.changes)
    return tuple(
        change
        for name, sides in sorted(changes.items())
        for change in _flat(name, sides.get("before"), sides.get("after"))
    )


def _flat(name: str, before: Any, after: Any) -> Iterable[FieldChange]:
    """Fields within a field (a policy's severities) are told one by one, and only where they differ."""
    if isinstance(before, dict) or isinstance(after, dict):
        sides = [side if isinstance(side, dict) else {} for side in (before, after)]
        for key in sorted({*sides[0], *sides[1]}):
            if sides[0].get(key) != sides[1].get(key):
                yield from _flat(f"{name}.{key}", sides[0].get(key), sides[1].get(key))
        return
    yield FieldChange(name.replace("_", " "), _text(before), _text(after))


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
    """One of a list; a column that came with its dataset is told by its name and type."""
    if isinstance(value, dict) and "name" in value:
        return f"{value['name']} {value.get('type', '')}".strip()
    return str(value)


def people(found: QuerySet[ChangeLogEntry] | None = None) -> list[str]:
    """Everybody who stands in the log (or in these entries), for a filter's suggestions."""
    rows = ChangeLogEntry.objects.all() if found is None else found
    return list(rows.order_by("actor").values_list("actor", flat=True).distinct())


def kinds(found: QuerySet[ChangeLogEntry] | None = None) -> list[str]:
    """Every kind of thing that stands in the log, or in these entries."""
    rows = ChangeLogEntry.objects.all() if found is None else found
    return list(rows.order_by("subject_kind").values_list("subject_kind", flat=True).distinct())


# --- finding -----------------------------------------------------------------------------------


def about_dataset(text: str) -> Q:
    """Entries of the datasets that are called so, or were once: ``schema.name``, or part of a name."""
    schema, dot, name = text.strip().rpartition(".")
    named = Q(name__iexact=name) | Q(former_names__icontains=f'"{name}"') if dot else _named(text.strip())
    targets = TargetDataset.objects.filter(named)
    sources = SourceDataset.objects.filter(Q(name__iexact=name) if dot else Q(name__icontains=text.strip()))
    if dot:
        targets = targets.filter(schema__name__iexact=schema)
        sources = sources.filter(system__short_name__iexact=schema)
    keys = [*targets.values_list("key", flat=True), *sources.values_list("key", flat=True)]
    return of_keys(keys) | Q(subject_name__iexact=text.strip())


def _named(text: str) -> Q:
    return Q(name__icontains=text) | Q(former_names__icontains=text)


def of_keys(keys: Collection[UUID | str]) -> Q:
    """Entries about these datasets, or about something that belongs to one of them."""
    return Q(dataset_key__among=keys) | Q(subject_key__among=[str(key) for key in keys])


def of_row(row: Versioned) -> QuerySet[ChangeLogEntry]:
    """Entries about one row of metadata itself, newest first."""
    model = type(row)
    return entries().filter(
        subject_kind=KINDS.get(model, model._meta.model_name), subject_key=stable_key(model, held(row))
    )


def since_version(row: Versioned, seen: int) -> list[ShownEntry]:
    """Return the entries of a row since its version ``seen``, newest first.

    A write moves a row at least one version on, so there are no more entries than versions.
    """
    return shown(of_row(row)[: max(row.version - seen, 0)])


def values_before(row: Versioned, seen: int) -> dict[str, Any]:
    """Return the values that the log gives for fields changed since version ``seen``; None for an empty one."""
    found: dict[str, Any] = {}
    for entry in of_row(row)[: max(row.version - seen, 0)]:
        found |= {name: sides.get("before") for name, sides in json.loads(entry.changes).items()}
    return found
