"""Contents of exported YAML files, from the rows of the metadata."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch, QuerySet

from metadata.domain import exchange as fields
from metadata.models import (
    ColumnInput,
    DatasetCopy,
    Exposure,
    QualityCheck,
    Reference,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.selectors import datasets
from metadata.services.copies import COPY_FIELDS
from metadata.services.datasets.targets import KEEPING
from metadata.services.exposures import EXPOSURE_FIELDS


def described_targets() -> QuerySet[TargetDataset]:
    """Return target datasets with their description and columns; ``ends_read`` has the inputs of all."""
    return (
        TargetDataset.objects.filter(history_of__isnull=True)
        .select_related("schema", "generated_from__system", "history")
        .prefetch_related(
            Prefetch("columns", TargetColumn.objects.order_by("ordinal", "id")),
            Prefetch("inputs", datasets.datasets_read()),
            Prefetch("references", datasets.references()),
            "checks",
            "exposures",
            Prefetch("copies", DatasetCopy.objects.select_related("system")),
        )
    )


@dataclass(frozen=True)
class EndRead:
    """Input of a column. ``dataset`` is the name of the input's dataset, with its system or schema."""

    is_source: bool
    dataset: str
    column: str


def ends_read() -> dict[int, list[EndRead]]:
    """Return the inputs of all target columns, in order, by the column's primary key.

    One query reads values, without model instances.
    """
    source, upstream = "source_column__dataset", "upstream_column__dataset"
    ends: dict[int, list[EndRead]] = defaultdict(list)
    rows = ColumnInput.objects.order_by("column_id", "ordinal", "id").values_list(
        *("column_id", f"{source}__system__short_name", f"{source}__name", "source_column__name"),
        *(f"{upstream}__schema__name", f"{upstream}__name", "upstream_column__name"),
    )
    for column, system, source_name, source_column, schema, name, upstream_column in rows.iterator():
        ends[column].append(
            EndRead(True, f"{system}.{source_name}", source_column)
            if source_column is not None
            else EndRead(False, f"{schema}.{name}", upstream_column)
        )
    return ends


def exported_contents() -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the name and content of every file."""
    for system in System.objects.order_by("short_name").prefetch_related("datasets__columns", "datasets__generated"):
        yield f"systems/{system.short_name}.yaml", {"system": _system(system)}
    ordered = sorted(TargetSchema.objects.all(), key=lambda schema: (schema.ordinal, schema.name))
    schemas = [_schema(schema) for schema in ordered]
    if schemas:
        yield "schemas.yaml", {"schemas": schemas}
    read = ends_read()
    for dataset in described_targets():
        yield f"targets/{dataset.schema.name}/{dataset.name}.yaml", {"dataset": _target(dataset, read)}


def _described(row: Any) -> dict[str, Any]:
    return {"description": row.description, "owner": row.owner, "tags": row.tags}


def _retired(row: TargetDataset | TargetColumn) -> dict[str, Any]:
    return {
        "retired_at": row.retired_at.isoformat() if row.retired_at else None,
        "retired_by": row.retired_by,
    }


def _system(row: System) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in ("short_name", "name", "kind", "location", "secret", "active")}
    values["options"] = _sorted(row.options)
    datasets = sorted(row.datasets.all(), key=lambda dataset: dataset.name)
    values |= _described(row) | {"datasets": [_source_dataset(dataset) for dataset in datasets]}
    return fields.without_defaults(values, fields.SYSTEM)


def _source_dataset(row: SourceDataset) -> dict[str, Any]:
    same = ("name", "short_name", "location", "format", "historize", "new_columns", "active")
    values = {name: getattr(row, name) for name in same} | _described(row)
    values |= {
        "key": str(row.key),
        "options": _sorted(row.options),
        "intake": _sorted(row.intake),
        "history_policy": _sorted(row.history_policy),
        # Omitted, it means: generate, unless the files contain the generated datasets.
        "generate": None if row.generated.all() else False,
        "columns": [_source_column(column) for column in row.columns.all()],
    }
    return fields.without_defaults(values, fields.SOURCE_DATASET)


def _source_column(row: SourceColumn) -> dict[str, Any]:
    same = ("name", "target_name", "nullable", "integrate", "pii", "sensitivity", "active")
    values = {name: getattr(row, name) for name in same} | _described(row)
    values |= {"key": str(row.key), "type": str(row.type), "business_key": row.key_ordinal}
    return fields.without_defaults(values, fields.SOURCE_COLUMN)


def _schema(row: TargetSchema) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in ("name", "layer", "ordinal")} | _described(row)
    return fields.without_defaults(values, fields.SCHEMA)


def _target(row: TargetDataset, read: Mapping[int, list[EndRead]]) -> dict[str, Any]:
    same = (
        *("name", "former_names", "materialization", "historize", "hash_version", "filter", "select"),
        *(*KEEPING, "sensitivity", "contract"),
    )
    # Inputs and expressions of a model follow from its SELECT.
    inputs = [] if row.select else list(row.inputs.all())
    values = {name: getattr(row, name) for name in same} | _described(row) | _retired(row)
    values |= {
        "schema": row.schema.name,
        "key": str(row.key),
        "generated_from": str(row.generated_from) if row.generated_from else None,
        "history_policy": _sorted(row.history_policy),
        "increment": _sorted(row.increment),
        "history": _history(row.history) if hasattr(row, "history") else None,
        "inputs": [_end(item.source, item.upstream) for item in inputs],
        "columns": [
            _model_column(column)
            if row.select
            else _target_column(column, read.get(column.pk, ()), single=len(inputs) == 1)
            for column in row.columns.all()
        ],
        "references": [
            _reference(reference)
            for reference in sorted(row.references.all(), key=lambda item: (str(item.parent), item.role_name))
        ],
        "checks": [_check(check) for check in sorted(row.checks.all(), key=lambda item: item.name)],
        "exposures": [_exposure(item) for item in sorted(row.exposures.all(), key=lambda item: item.name)],
        "copies": [
            _copy(item) for item in sorted(row.copies.all(), key=lambda item: (item.system.short_name, item.table))
        ],
    }
    return fields.without_defaults(values, fields.TARGET)


def _history(row: TargetDataset) -> dict[str, Any]:
    values = {"key": str(row.key), "former_names": row.former_names} | _described(row) | _retired(row)
    return fields.without_defaults(values, fields.HISTORY)


def _target_column(row: TargetColumn, read: Iterable[EndRead], *, single: bool) -> dict[str, Any]:
    same = ("name", "former_names", "role", "nullable", "pii", "sensitivity", "expression")
    values = {name: getattr(row, name) for name in same} | _described(row) | _retired(row)
    values |= {
        "key": str(row.key),
        "type": str(row.type),
        "business_key": row.key_ordinal,
        "inputs": [_column_input(end, single=single) for end in read],
    }
    if row.key_ordinal is not None:
        values.pop("role")
    return fields.without_defaults(values, fields.TARGET_COLUMN)


def _model_column(row: TargetColumn) -> dict[str, Any]:
    values = _target_column(row, (), single=True)
    values.pop("expression", None)
    return values


def _column_input(end: EndRead, *, single: bool) -> Any:
    if single:
        return end.column
    return {"source" if end.is_source else "dataset": end.dataset, "column": end.column}


def _end(source: SourceDataset | None, target: TargetDataset | None) -> dict[str, str]:
    return {"source": str(source)} if source else {"dataset": str(target)}


def _reference(row: Reference) -> dict[str, Any]:
    pairs = sorted((pair.parent_column.name, pair.child_column.name) for pair in row.pairs.all())
    values = {
        "parent": str(row.parent),
        "role_name": row.role_name,
        "key": str(row.key),
        "columns": dict(pairs),
        "unknown_parent": row.unknown_parent,
        "active": row.active,
    }
    return fields.without_defaults(values, fields.OWN_REFERENCE)


def _check(row: QualityCheck) -> dict[str, Any]:
    same = ("name", "kind", "severity", "description", "active")
    values = {name: getattr(row, name) for name in same} | {"key": str(row.key), "arguments": _sorted(row.arguments)}
    return fields.without_defaults(values, fields.CHECK)


def _exposure(row: Exposure) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in EXPOSURE_FIELDS} | {"key": str(row.key)}
    return fields.without_defaults(values, fields.EXPOSURE)


def _copy(row: DatasetCopy) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in COPY_FIELDS}
    values |= {"to": row.system.short_name, "key": str(row.key)}
    return fields.without_defaults(values, fields.COPY)


def _sorted(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value with sorted keys, because PostgreSQL does not preserve the order of JSON keys."""
    return json.loads(json.dumps(value, sort_keys=True))
