"""The change log as pages show it: entries with what differs field by field, and those behind a report."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Coalesce

from architecture.models import AppliedDataset, ChangeReport, ExecutionOperation
from architecture.services.reports import operations_of
from metadata.models import ChangeLogEntry, SourceDataset, TargetDataset

# Longer values are cut on pages; the log itself keeps them whole.
_LONGEST = 400
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")
# What is logged of a dataset without being a change of its description.
_NO_METADATA = ("execution", "lease", "report")


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
    """What differs, field by field, in the order of the names."""
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


def people() -> list[str]:
    """Everybody who stands in the log, for a filter's suggestions."""
    return list(ChangeLogEntry.objects.order_by("actor").values_list("actor", flat=True).distinct())


def kinds() -> list[str]:
    """Every kind of thing that stands in the log."""
    return list(ChangeLogEntry.objects.order_by("subject_kind").values_list("subject_kind", flat=True).distinct())


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
    return Q(dataset_key__in=list(keys)) | Q(subject_key__in=[str(key) for key in keys])


# --- behind a report -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Behind:
    """The newest of the entries behind a report, and how many there are in all."""

    entries: list[ShownEntry]
    count: int


def behind(report: ChangeReport, *, limit: int) -> Behind:
    """The entries that a report brings to the warehouse, newest first.

    Of each dataset in it: what was changed after the dataset was last carried out, and before the report
    was made. So the answer is the same before and after the report's own execution.
    """
    keys = {operation.dataset_key for operation in operations_of(report)}
    if not keys or report.undo_of_id is not None:
        return Behind([], 0)
    since = _carried_out(report, keys)
    histories = TargetDataset.objects.filter(history_of__key__in=keys).values_list("key", "history_of__key")
    since |= {str(history): since[str(base)] for history, base in histories}
    described = entries().exclude(subject_kind__in=_NO_METADATA).filter(of_keys(since), at__lte=report.created_at)
    found = [
        pk
        for pk, dataset, subject, at in described.values_list("pk", "dataset_key", "subject_key", "at")
        if any(key in since and _is_after(at, since[key]) for key in (str(dataset), subject))
    ]
    return Behind(shown(entries().filter(pk__in=found[:limit])), len(found))


def _is_after(at: datetime, since: datetime | None) -> bool:
    return since is None or at > since


def _carried_out(report: ChangeReport, keys: set[str]) -> dict[str, datetime | None]:
    """When what was carried out last before the report had been described, by dataset; None: never."""
    since: dict[str, datetime | None] = dict.fromkeys(keys)
    finished = ExecutionOperation.objects.filter(
        dataset_key__in=keys,
        status=ExecutionOperation.Status.SUCCEEDED,
        execution__environment=report.environment,
    ).exclude(execution__report=report)
    described = Coalesce("execution__report__created_at", "execution__requested_at")
    rows = finished.annotate(described=described).filter(described__lt=report.created_at).order_by()
    for key, at in rows.values_list("dataset_key").annotate(Max("described")):
        since[str(key)] = at
    applied = AppliedDataset.objects.filter(
        environment=report.environment, dataset_key__in=keys, described_at__lt=report.created_at
    )
    for key, at in applied.values_list("dataset_key", "described_at"):
        known = since[str(key)]
        since[str(key)] = at if known is None else max(known, at)
    return since
