"""Copy of a dataset under a new name."""

from typing import Any

from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.datasets import datasets_read, target_columns
from metadata.services.datasets.targets import (
    COLUMN_FIELDS,
    DATASET_FIELDS,
    add_column,
    change_column,
    create_target_dataset,
)
from metadata.services.quality import create_check
from metadata.services.rows.checks import check_dataset_columns

# A contract is a promise to the consumers of the original.
_COPIED = tuple(name for name in DATASET_FIELDS if name != "contract")
_OF_COLUMN = tuple(name for name in COLUMN_FIELDS if name != "type")
# Fields of a model's column that do not follow from its SELECT.
_DESCRIBED = ("pii", "sensitivity", "description", "owner", "tags")


def clone_dataset(
    *, dataset: TargetDataset, schema: TargetSchema, name: str, reason: str = "", quoted_name: bool = True
) -> TargetDataset:
    """Copy a dataset with its columns in use, inputs, expressions and checks; return the copy.

    The copy has keys of its own and no former names. References, exposures and a contract are not copied, nor are
    checks whose SELECT reads the original. ``quoted_name`` accepts names that most engines need quotes for.
    """
    if dataset.history_of_id is not None:
        raise MetadataError("invalid", "a history follows its base; clone that", "", str(dataset))
    with writing(reason):
        columns = list(target_columns().filter(dataset=dataset, active=True).order_by("ordinal", "id"))
        fields = {field: getattr(dataset, field) for field in _COPIED}
        options: dict[str, Any] = {"schema": schema, "name": name, "quoted_name": quoted_name}
        if dataset.select:
            row = _clone_model(columns, options | fields)
        else:
            inputs = [item.read_dataset for item in datasets_read().filter(dataset=dataset)]
            row = create_target_dataset(**options, inputs=inputs, **fields)
            _copy_columns(row, columns)
        _copy_checks(row, dataset)
        return row


def _clone_model(columns: list[TargetColumn], options: dict) -> TargetDataset:
    """Create a model with the same SELECT, and describe its columns as those of the original."""
    keyed = sorted((column.key_ordinal, column.name) for column in columns if column.key_ordinal is not None)
    row = create_target_dataset(**options, business_key=[name for _, name in keyed])
    described = {column.name: {field: getattr(column, field) for field in _DESCRIBED} for column in columns}
    for column in row.columns.select_related("dataset__schema"):
        change_column(column, described[column.name])
    return row


def _copy_columns(row: TargetDataset, columns: list[TargetColumn]) -> None:
    for column in columns:
        reads = [item.read_column for item in column.inputs.all()]
        fields = {field: getattr(column, field) for field in _OF_COLUMN}
        add_column(row, column.name, column.type, fields, inputs=reads)
    check_dataset_columns(TargetDataset.objects.select_related("schema").get(pk=row.pk))


def _copy_checks(row: TargetDataset, original: TargetDataset) -> None:
    for check in original.checks.filter(active=True).order_by("pk"):
        if check.rule.sql and check.rule.selects_from([str(original).lower()]):
            continue
        arguments = dict(check.arguments)
        if str(arguments.get("dataset", "")).lower() == str(original).lower():
            arguments["dataset"] = str(row)
        fields = {field: getattr(check, field) for field in ("name", "kind", "severity", "description")}
        create_check(dataset=row, arguments=arguments, **fields)
