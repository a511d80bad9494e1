"""Refusal of metadata changes that make sensitive values readable for an actor who may not read them.

Raising a classification is always allowed. Lowering one, deleting a classified object, and disconnecting a column from
the sensitive column that it reads need the permission ``read_sensitive``, because the tables still contain the values.
So does any change after which the times of versions, a key or a foreign key are no longer made of a sensitive column:
rows that are loaded already have its values there, or hashes of them. All datasets are compared whose classification
depended on a changed row, however far downstream.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError
from metadata.domain.sensitivity import is_sensitive
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.selectors.classification import (
    TechnicalPart,
    classifications,
    datasets_downstream,
    has_classified_columns,
    technical_parts,
)
from metadata.services.rows.subjects import Values, read

# Before-images of changed rows by model and primary key, None for new rows.
_Before = Mapping[Any, Mapping[int, Values | None]]

# Fields that ``metadata.selectors.classification`` reads, by model.
_FIELDS: Mapping[Any, tuple[str, ...]] = {
    SourceColumn: ("dataset_id", "name", "pii", "sensitivity"),
    TargetColumn: (
        *("dataset_id", "name", "former_names", "pii", "sensitivity", "expression"),
        *("role", "ordinal", "active"),
    ),
    TargetDataset: (
        *("name", "schema_id", "sensitivity", "select", "filter"),
        *("history_policy", "history_of_id", "materialization"),
    ),
    TargetSchema: ("name", "layer"),
    DatasetInput: ("dataset_id", "source_id", "upstream_id"),
    ColumnInput: ("column_id", "source_column_id", "upstream_column_id"),
    Reference: ("child_id", "parent_id", "role_name", "unknown_parent", "active"),
    ReferencePair: ("reference_id", "child_column_id", "parent_column_id"),
}
# Models whose rows decide which columns the technical columns of a dataset are made of.
_TECHNICAL = (TargetDataset, TargetColumn, Reference, ReferencePair)
_CLASSIFIED = (SourceColumn, TargetColumn, TargetDataset)
_LOWERED = "its values are classified, and lowering that"


def must_stay_classified(before: _Before) -> None:
    """Raise MetadataError ``not_permitted`` if a unit of work makes values readable that its actor may not read.

    ``before`` maps models to the before-images of changed rows, None for new rows. Call it at the end of the unit of
    work, in its transaction. The system is always allowed.
    """
    user = current_actor().user
    if user is None or may(user, Permission.READ_SENSITIVE):
        return
    if not any(before.get(model) for model in _FIELDS) or not _was_classified(before):
        return
    for where, place, change in (*_sources(before), *_targets(before)):
        if not may(user, Permission.READ_SENSITIVE, on=place):
            raise MetadataError(
                "not_permitted",
                f"{change} takes the permission to read them, {user}; a steward can do it",
                "sensitivity",
                where,
            )


def _was_classified(before: _Before) -> bool:
    """Return False if nothing was marked as sensitive before the change or is now."""
    images = (row for model in _CLASSIFIED for row in before.get(model, {}).values() if row is not None)
    return any(is_sensitive(personal=row.get("pii", False), level=row["sensitivity"]) for row in images) or (
        has_classified_columns()
    )


def _sources(before: _Before) -> Iterator[tuple[str, Place, str]]:
    """Yield source columns that were sensitive and no longer are, or were deleted; they have no schema."""
    was = {pk: row for pk, row in before.get(SourceColumn, {}).items() if row is not None and _is_sensitive(row)}
    now = read(SourceColumn, was, "id", "pii", "sensitivity")
    for pk, row in was.items():
        if pk not in now or not _is_sensitive(now[pk]):
            yield row["name"], Place(), _LOWERED


def _is_sensitive(row: Values) -> bool:
    return is_sensitive(personal=row["pii"], level=row["sensitivity"])


def _targets(before: _Before) -> Iterator[tuple[str, Place, str]]:
    """Yield the datasets with lowered columns, each with its place and the change that needs the permission.

    Lowered are columns that were sensitive and no longer are, or were deleted, and those that technical columns were
    made of and no longer are.
    """
    affected = _affected_datasets(before)
    if not affected:
        return
    was = {pk: item for pk, item in classifications(affected, before).items() if item.sensitive}
    if not was:
        return
    now = classifications(list(was))
    lost_parts = _lost_parts(list(was), before)
    rows = TargetDataset.objects.select_related("schema").in_bulk(list(was))
    for pk, then in was.items():
        lowered = then.sensitive - now[pk].sensitive
        lost = sorted(part for part in lost_parts.get(pk, ()) if part.key in then.sensitive)
        if lowered or lost:
            row = rows.get(pk)
            place = Place() if row is None else Place(schemas=frozenset({(row.schema.name, row.schema.layer)}))
            change = _LOWERED if lowered else _lost_part_change(lost[0])
            yield str(row or (before[TargetDataset][pk] or {})["name"]), place, change


def _lost_parts(datasets: list[int], before: _Before) -> dict[int, frozenset[TechnicalPart]]:
    """Return the columns that technical columns of datasets were made of and no longer are, by dataset."""
    if not any(before.get(model) for model in _TECHNICAL):
        return {}
    now = technical_parts(datasets)
    return {pk: parts - now[pk] for pk, parts in technical_parts(datasets, before).items()}


def _lost_part_change(part: TechnicalPart) -> str:
    """Return the beginning of the refusal of a change that disconnects a technical column from a sensitive column."""
    name = TargetColumn.objects.filter(key=part.key).values_list("name", flat=True).first()
    return (
        f"{name} is classified, and rows loaded so far have its values, or hashes of them, as {part.purpose}; "
        "changing what that is made of"
    )


def _affected_datasets(before: _Before) -> set[int]:
    """Return the datasets whose classification read a changed row, with all datasets downstream of them."""
    changed = {model: list(_changed(model, before)) for model in _FIELDS}
    columns = {row["column_id"] for row in changed[ColumnInput]}
    columns |= {row[name] for row in changed[ReferencePair] for name in ("child_column_id", "parent_column_id")}
    schemas = {row["id"] for row in changed[TargetSchema]}
    # A dataset's name is in the foreign keys that loads add to its children.
    renamed = {row["id"] for row in changed[TargetDataset]}
    targets = {
        *(row["dataset_id"] for row in (*changed[TargetColumn], *changed[DatasetInput])),
        *(row[name] for row in changed[Reference] for name in ("child_id", "parent_id")),
        *_datasets_of(columns, before),
        *renamed,
        *(row["history_of_id"] for row in changed[TargetDataset] if row["history_of_id"]),
        *Reference.objects.filter(parent__id__among=renamed).values_list("child_id", flat=True),
        *TargetDataset.objects.filter(schema__id__among=schemas).values_list("pk", flat=True),
    }
    # Nothing read a new dataset before; a dataset that reads it now has a changed input of its own.
    targets -= {pk for pk, was in before.get(TargetDataset, {}).items() if was is None}
    sources = {row["dataset_id"] for row in changed[SourceColumn]}
    return datasets_downstream(targets, sources, before) if targets or sources else set()


def _changed(model: Any, before: _Before) -> Iterator[Values]:
    """Yield new, changed and deleted rows: as they were before, and as they are now."""
    images, fields = before.get(model, {}), _FIELDS[model]
    now = read(model, images, "id", *fields) if images else {}
    for pk, was in images.items():
        row = now.get(pk)
        if was is None or row is None or any(was[name] != row[name] for name in fields):
            yield from (image for image in (was, row) if image is not None)


def _datasets_of(columns: Iterable[int], before: _Before) -> set[int]:
    """Return the datasets of target columns, of deleted ones as well."""
    images = before.get(TargetColumn, {})
    rows = [*read(TargetColumn, columns, "id", "dataset_id").values(), *(images.get(pk) for pk in columns)]
    return {row["dataset_id"] for row in rows if row is not None}
