"""Target schemas, datasets and columns: create and change. Renames and retirement are in ``lifecycle``."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from metadata.domain import keys
from metadata.domain.errors import MetadataError
from metadata.domain.sql import check_expression
from metadata.domain.types import DataType
from metadata.models import (
    ColumnInput,
    DatasetInput,
    SourceColumn,
    SourceDataset,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.services.checks import (
    check_dataset_columns,
    check_schema,
    check_target_column,
    check_target_dataset,
    with_place,
)
from metadata.services.common import assign, claim, free_key, remove, store, store_all, writing
from metadata.services.generation import ensure_history
from metadata.services.lifecycle import set_retired
from metadata.services.sources import DESCRIBED, next_ordinal, plain_fields

SCHEMA_FIELDS = ("name", "layer", "ordinal", *DESCRIBED)
DATASET_FIELDS = ("materialization", "historize", "history_policy", "filter", *DESCRIBED)
COLUMN_FIELDS = ("type", "nullable", "ordinal", "role", "key_ordinal", "expression", "pii", *DESCRIBED)


def create_schema(*, name: str, layer: str, **described: Any) -> TargetSchema:
    with writing():
        row = TargetSchema(name=name, layer=layer)
        assign(row, described, SCHEMA_FIELDS)
        check_schema(row)
        return store(row)


def update_schema(*, schema: TargetSchema, expected_version: int, **changes: Any) -> TargetSchema:
    with writing():
        row = claim(schema, expected_version)
        if "layer" in changes and changes["layer"] != row.layer and row.datasets.exists():
            raise MetadataError("invalid", "a schema with datasets stays in its layer", "layer", str(row))
        if assign(row, changes, SCHEMA_FIELDS):
            check_schema(row)
            store(row)
        return row


def create_target_dataset(
    *,
    schema: TargetSchema,
    name: str,
    inputs: Iterable[SourceDataset | TargetDataset] = (),
    key: UUID | None = None,
    **described: Any,
) -> TargetDataset:
    with writing():
        derived = key or free_key(TargetDataset, lambda attempt: keys.target_dataset_key(schema.name, name, attempt))
        row = TargetDataset(schema=schema, name=name, key=derived)
        assign(row, plain_fields(row, described), DATASET_FIELDS)
        check_target_dataset(row)
        store(row)
        link_dataset(row, inputs)
        check_dataset_columns(row)
        if row.historize:
            ensure_history(row)
        return row


def update_target_dataset(*, dataset: TargetDataset, expected_version: int, **changes: Any) -> TargetDataset:
    """Change what a dataset is. Switching history off retires the history dataset, it deletes nothing."""
    with writing():
        row = claim(dataset, expected_version)
        if assign(row, plain_fields(row, changes), DATASET_FIELDS):
            check_target_dataset(row)
            check_dataset_columns(row)
            store(row)
            if row.historize:
                ensure_history(row)
            elif hasattr(row, "history"):
                set_retired(row.history, by=TargetDataset.RetiredBy.GENERATION)
        return row


def create_target_column(
    *,
    dataset: TargetDataset,
    name: str,
    type: str | DataType,
    inputs: Iterable[SourceColumn | TargetColumn] | None = None,
    key: UUID | None = None,
    **described: Any,
) -> TargetColumn:
    """A column after the others. Without ``inputs`` they follow from the expression."""
    with writing():
        derived = key or free_key(TargetColumn, lambda attempt: keys.target_column_key(dataset.key, name, attempt))
        row = TargetColumn(dataset=dataset, name=name, key=derived)
        ordinal = described.pop("ordinal", None) or next_ordinal(dataset)
        assign(row, plain_fields(row, {"type": type, "ordinal": ordinal, **described}), COLUMN_FIELDS)
        check_target_column(row)
        store(row)
        link_column(row, columns_named_in(row) if inputs is None else inputs)
        check_dataset_columns(row.dataset)
        return row


def update_target_column(*, column: TargetColumn, expected_version: int, **changes: Any) -> TargetColumn:
    """Change what a column is; a new expression brings its inputs along."""
    with writing():
        row = claim(column, expected_version)
        expression = row.expression
        if assign(row, plain_fields(row, changes), COLUMN_FIELDS):
            check_target_column(row)
            store(row)
            if row.expression and row.expression != expression:
                link_column(row, columns_named_in(row))
            check_dataset_columns(row.dataset)
        return row


def set_dataset_inputs(
    *, dataset: TargetDataset, expected_version: int, inputs: Iterable[SourceDataset | TargetDataset]
) -> TargetDataset:
    """What the dataset reads, in this order. An input that columns still read cannot go."""
    with writing():
        row = claim(dataset, expected_version)
        if link_dataset(row, inputs):
            check_dataset_columns(row)
            store(row)
        return row


def set_column_inputs(
    *, column: TargetColumn, expected_version: int, inputs: Iterable[SourceColumn | TargetColumn]
) -> TargetColumn:
    """What the column reads, in this order: columns of its dataset's inputs."""
    with writing():
        row = claim(column, expected_version)
        if link_column(row, inputs):
            store(row)
        return row


def link_dataset(dataset: TargetDataset, inputs: Iterable[SourceDataset | TargetDataset]) -> bool:
    """Make the dataset's input rows be these; True if they were not."""
    wanted = list(inputs)
    existing = {item.source or item.upstream: item for item in dataset.inputs.all()}
    if list(existing) == wanted:
        return False
    for upstream, item in existing.items():
        if upstream not in wanted:
            if item.column_inputs.exists():
                raise MetadataError("in_use", f"columns still read {upstream}", "inputs", str(dataset))
            remove([item])
    for ordinal, upstream in enumerate(wanted, start=1):
        side = "source" if isinstance(upstream, SourceDataset) else "upstream"
        item = existing.get(upstream) or DatasetInput(dataset=dataset, **{side: upstream})
        if item.pk is None or item.ordinal != ordinal:
            item.ordinal = ordinal
            store(item)
    refuse_cycle(dataset)
    return True


def refuse_cycle(dataset: TargetDataset) -> None:
    """Rows flow one way: no dataset may read, over any number of others, itself."""
    edges: dict[int, list[int]] = {}
    for reader, upstream in DatasetInput.objects.filter(upstream__isnull=False).values_list(
        "dataset_id", "upstream_id"
    ):
        edges.setdefault(reader, []).append(upstream)
    for base, history in TargetDataset.objects.filter(history_of__isnull=False).values_list("history_of_id", "id"):
        edges.setdefault(history, []).append(base)
    seen: set[int] = set()
    pending = list(edges.get(dataset.pk, ()))
    while pending:
        reached = pending.pop()
        if reached == dataset.pk:
            raise MetadataError("cycle", "would read itself over its inputs", "inputs", str(dataset))
        if reached not in seen:
            seen.add(reached)
            pending += edges.get(reached, ())


def link_column(column: TargetColumn, inputs: Iterable[SourceColumn | TargetColumn]) -> bool:
    """Make the column's input rows be these; True if they were not. Refuses columns from elsewhere."""
    wanted = list(dict.fromkeys(inputs))
    existing = [item.source_column or item.upstream_column for item in column.inputs.all()]
    if existing == wanted:
        return False
    available = {item.source_id or -item.upstream_id: item for item in column.dataset.inputs.all()}
    rows = []
    for ordinal, reads in enumerate(wanted, start=1):
        from_source = isinstance(reads, SourceColumn)
        dataset_input = available.get(reads.dataset_id if from_source else -reads.dataset_id)
        if dataset_input is None:
            raise MetadataError(
                "foreign_input",
                f"{reads} does not belong to an input of {column.dataset}",
                "inputs",
                str(column),
            )
        side = "source_column" if from_source else "upstream_column"
        rows.append(ColumnInput(column=column, dataset_input=dataset_input, ordinal=ordinal, **{side: reads}))
    remove(column.inputs.all())
    store_all(rows)
    return True


def columns_named_in(column: TargetColumn) -> list[SourceColumn | TargetColumn]:
    """The columns of the dataset's inputs that an expression names; the first input goes first."""
    if not column.expression:
        return []
    names = []
    with_place(column, lambda: names.extend(check_expression(column.expression)))
    found: list[SourceColumn | TargetColumn] = []
    for item in column.dataset.inputs.all():
        by_name = {row.name.lower(): row for row in (item.source or item.upstream).columns.filter(active=True)}
        found += [by_name[name.lower()] for name in names if name.lower() in by_name]
    return found
