"""Findings about metadata: computed for what an edit touches, and stored."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q

from architecture.domain.health import Finding, Fix, Source, Surroundings, findings_of, owner_above, upstream_of
from architecture.models import HealthFinding
from elevata.core.errors import MetadataError
from metadata.domain.sensitivity import is_sensitive
from metadata.domain.state import DatasetState
from metadata.models import (
    ColumnInput,
    DatasetInput,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import update_target_dataset
from metadata.services.lifecycle import retire_dataset

_BATCH = 500


def follow_changes(before: Mapping[Any, Mapping[int, Any]]) -> None:
    """Compute the findings anew, once the changes are committed, of all datasets that the changed rows affect.

    ``before`` maps models to the before-images of changed rows, None for new rows.
    """
    changed = {model: dict(rows) for model, rows in before.items() if model in _OWNERS and rows}
    if changed:
        transaction.on_commit(partial(_refresh_after, changed, _datasets_of_removed(changed)), robust=True)


def _refresh_after(changed: Mapping[Any, Mapping[int, Any]], removed: Collection[int]) -> None:
    pks = set(removed)
    for model, rows in changed.items():
        for path in _OWNERS[model]:
            values = model.objects.filter(pk__among=rows).values_list(path, flat=True)
            pks |= {pk for pk in values if pk is not None}
    refresh_findings(_with_neighbours(pks))


# Paths from changed rows to the datasets that they affect.
_OWNERS: dict[Any, tuple[str, ...]] = {
    TargetSchema: ("datasets",),
    TargetDataset: ("pk", "history_of"),
    TargetColumn: ("dataset",),
    DatasetInput: ("dataset", "upstream"),
    ColumnInput: ("column__dataset",),
    System: ("datasets__feeds__dataset",),
    SourceDataset: ("feeds__dataset",),
    SourceColumn: ("dataset__feeds__dataset",),
}


def _datasets_of_removed(changed: Mapping[Any, Mapping[int, Any]]) -> set[int]:
    """Return the datasets of the rows as they were: rows may be deleted, or belong to another one now."""
    fields = {TargetDataset: ("id",), TargetColumn: ("dataset_id",), DatasetInput: ("dataset_id", "upstream_id")}
    images = ((row, fields.get(model, ())) for model, rows in changed.items() for row in rows.values() if row)
    return {row[name] for row, names in images for name in names if row[name] is not None}


def _with_neighbours(pks: Collection[int]) -> set[int]:
    """Return the datasets with those that read them, and those that they read: findings depend on both."""
    if not pks:
        return set()
    readers = DatasetInput.objects.filter(Q(upstream__pk__among=pks) | Q(upstream__history_of__pk__among=pks))
    inputs = DatasetInput.objects.filter(dataset__pk__among=pks, upstream__isnull=False)
    read = inputs.values_list("upstream", "upstream__history_of")
    return {*pks, *readers.values_list("dataset", flat=True), *(pk for row in read for pk in row if pk is not None)}


def refresh_findings(pks: Collection[int] | None = None) -> None:
    """Compute and store the findings of these datasets, and of all in a cycle with one of them; by default of all."""
    reads, read = _reading()
    if pks is None:
        ordered = sorted(TargetDataset.objects.values_list("pk", flat=True))
    else:
        ordered = sorted({*pks, *_in_cycles(pks, reads)})
    for start in range(0, len(ordered), _BATCH):
        _refresh(ordered[start : start + _BATCH], reads, read)


def _in_cycles(pks: Collection[int], reads: Mapping[str, tuple[str, ...]]) -> set[int]:
    """Return the datasets with a cycle, stored or new: an edit of one of them makes or breaks it for all."""
    stored = set(HealthFinding.objects.filter(code="cycle").order_by().values_list("dataset", flat=True))
    keys = map(str, TargetDataset.objects.filter(pk__among=pks).order_by().values_list("key", flat=True))
    upstream = ((key, upstream_of(key, reads)) for key in keys)
    members = {member for key, above in upstream if key in above for member in above}
    rows = TargetDataset.objects.filter(key__among=members).order_by() if members else TargetDataset.objects.none()
    return stored | set(rows.values_list("pk", flat=True))


def _refresh(pks: list[int], reads: Mapping[str, tuple[str, ...]], read: frozenset[str]) -> None:
    with transaction.atomic():
        rows = TargetDataset.objects.filter(pk__among=pks, history_of=None).select_for_update().order_by("pk")
        owners = {str(row.key): row for row in rows}
        states, around = _states_and_surroundings(list(owners.values()), reads, read)
        columns = TargetColumn.objects.filter(dataset__pk__among=pks, active=True).values_list("key", "pk")
        column_pks = {str(key): pk for key, pk in columns}
        HealthFinding.objects.filter(dataset__pk__among=pks).delete()
        HealthFinding.objects.bulk_create(
            _row(owners[state.key], column_pks, finding) for state in states for finding in findings_of(state, around)
        )


def _row(dataset: TargetDataset, columns: Mapping[str, int], finding: Finding) -> HealthFinding:
    values = {"code": finding.code, "severity": finding.severity, "text": finding.text, "field": finding.field}
    return HealthFinding(dataset=dataset, column_id=columns.get(finding.column), fix=str(finding.fix), **values)


def _reading() -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    """Return the datasets that each dataset reads, of the whole warehouse, and the datasets with an active reader."""
    reads: dict[str, list[str]] = defaultdict(list)
    read = set()
    links = DatasetInput.objects.filter(upstream__isnull=False).order_by()
    values = links.values_list("dataset__key", "dataset__active", "upstream__key", "upstream__history_of__key")
    for dataset, active, upstream, base in values:
        reads[str(dataset)].append(str(base or upstream))
        if active:
            read.add(str(base or upstream))
    return {key: tuple(upstream) for key, upstream in reads.items()}, frozenset(read)


def _states_and_surroundings(
    rows: list[TargetDataset], reads: Mapping[str, tuple[str, ...]], read: frozenset[str]
) -> tuple[list[DatasetState], Surroundings]:
    keys = {str(row.key) for row in rows}
    wanted = keys | {key for dataset in keys for key in reads.get(dataset, ())}
    states = {state.key: state for state in dataset_states(TargetDataset.objects.filter(key__among=wanted))}
    owners = TargetDataset.objects.filter(key__among=wanted).values_list("key", "owner")
    around = Surroundings(
        datasets=states,
        sources=_sources({key for state in states.values() for key in state.inputs} - states.keys()),
        owners={str(key): owner for key, owner in owners},
        personal=_personal(keys),
        reads=reads,
        read=read,
    )
    return [states[key] for key in sorted(keys)], around


def _sources(keys: Collection[str]) -> dict[str, Source]:
    rows = SourceDataset.objects.filter(key__among=keys).select_related("system") if keys else []
    types: dict[int, dict[str, str]] = defaultdict(dict)
    columns = SourceColumn.objects.filter(dataset__key__among=keys, active=True).order_by() if keys else []
    for column in columns:
        types[column.dataset_id][str(column.key)] = str(column.type)
    return {
        str(row.key): Source(str(row), row.active and row.system.active, row.owner or row.system.owner, types[row.pk])
        for row in rows
    }


def _personal(keys: Collection[str]) -> frozenset[str]:
    """Return the keys of active columns with personal or sensitive data."""
    columns = TargetColumn.objects.filter(dataset__key__among=keys, active=True).exclude(pii=False, sensitivity="")
    values = columns.values_list("key", "pii", "sensitivity")
    return frozenset(str(key) for key, pii, level in values if is_sensitive(personal=pii, level=level))


def fix_finding(*, finding: HealthFinding, reason: str = "") -> TargetDataset:
    """Make the safe change of a finding. Raise MetadataError if it has none, or no longer applies."""
    dataset = finding.dataset
    (state,), around = _states_and_surroundings([dataset], *_reading())
    if (finding.code, finding.fix) not in {(other.code, str(other.fix)) for other in findings_of(state, around)}:
        raise MetadataError("no_fix", "has no safe change that resolves it", where=str(finding.code))
    options: dict[str, Any] = {"dataset": dataset, "expected_version": dataset.version}
    if finding.fix == Fix.TAKE_OWNER:
        return update_target_dataset(**options, owner=owner_above(state, around))
    if finding.fix == Fix.RETIRE:
        return retire_dataset(**options, reason=reason or finding.text)
    raise MetadataError("no_fix", "has no safe change that resolves it", where=str(finding.code))
