"""Rows of metadata for the tables of Fivetran: the system of a schema, a source dataset with its columns and tags."""

from typing import Any

from loader.contract.refusals import Refusal
from loader.domain.fivetran import (
    Changes,
    Column,
    KnownColumn,
    Table,
    check_name,
    contract_name,
)
from metadata.domain import naming, stable_keys
from metadata.domain.sensitivity import LEVELS
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import update_target_column
from metadata.services.sources import (
    create_source_column,
    create_system,
    update_source_column,
    update_source_dataset,
)

FOLDER, TAG, HISTORY_TAG, TYPE_TAG = "fivetran", "fivetran", "fivetran history mode", "fivetran type "


def in_history_mode(source: SourceDataset) -> bool:
    return HISTORY_TAG in source.tags


_TYPED_LAYERS = ("stage", "rawcore")


def row_of(schema: str, name: str) -> SourceDataset | None:
    check_name(schema)
    check_name(name)
    rows = SourceDataset.objects.filter(system__location=f"{FOLDER}/{schema}", name=name)
    return rows.select_related("system").first()


def locked_row(row: SourceDataset) -> SourceDataset:
    return SourceDataset.objects.select_for_update(of=("self",)).select_related("system").get(pk=row.pk)


def system_of(schema: str) -> System:
    """Return the system of a schema, created if there is none."""
    location = f"{FOLDER}/{schema}"
    row = System.objects.filter(location=location).first()
    if row is not None:
        return row
    taken = set(System.objects.values_list("short_name", flat=True))
    short_name = naming.safe_table_part(schema)[: naming.MAX_SYSTEM_NAME - 3]
    return create_system(
        name=f"Fivetran {schema}",
        short_name=naming.free_name(short_name, taken),
        location=location,
        tags=[TAG],
        description=f"Schema {schema}, which Fivetran writes.",
    )


def targets_of(source: SourceDataset):
    return TargetDataset.objects.filter(generated_from=source, history_of=None).select_related("schema")


def generated_columns(column: SourceColumn, layers) -> list[TargetColumn]:
    keys = [stable_keys.generated_column_key(layer, column.key) for layer in layers]
    return list(TargetColumn.objects.filter(key__in=keys).select_related("dataset__schema"))


def column_of(source: SourceDataset, name: str) -> SourceColumn:
    row = source.columns.filter(active=True, name__iexact=contract_name(name)).first()
    if row is None:
        raise unknown_column(source, name)
    return row


def unknown_column(source: SourceDataset, name: str) -> Refusal:
    return Refusal("UNKNOWN_COLUMN", f"{source} has no column {name}", column=name)


def sent_as(column: SourceColumn) -> str:
    tag = next((tag for tag in column.tags if tag.startswith(TYPE_TAG)), "")
    return tag.removeprefix(TYPE_TAG).upper()


def tags_of(table: Table) -> list[str]:
    return [TAG, HISTORY_TAG] if table.in_history_mode else [TAG]


def _type_tags(column: Column) -> list[str]:
    return [f"{TYPE_TAG}{column.type.lower()}"]


def classify_like(column: SourceColumn, *, like: SourceColumn) -> None:
    """Classify a column and those generated from it at least as another, which may be classified in any layer."""
    rows: list[Any] = [  # columns of targets and of the source
        *(target for row in (like, column) for target in generated_columns(row, naming.PREFIXES)),
        *(like, column),
    ]
    levels = [row.sensitivity or getattr(row.dataset, "sensitivity", "") for row in rows]
    changes = {"pii": any(row.pii for row in rows), "sensitivity": max(levels, key=("", *LEVELS).index)}
    update_source_column(source_column=column, expected_version=column.version, **changes)
    for target in generated_columns(column, naming.PREFIXES):
        update_target_column(column=target, expected_version=target.version, **changes)


def known_columns(source: SourceDataset) -> dict[str, KnownColumn]:
    return {
        row.name: KnownColumn(row.type, sent_as(row), row.key_ordinal is not None, row.active)
        for row in source.columns.all()
    }


def apply_changes(source: SourceDataset, table: Table, changes: Changes) -> SourceDataset:
    """Apply changes of columns and of the mode, and generate the targets."""
    for name in changes.bring_back:
        column = source.columns.get(name=name)
        update_source_column(source_column=column, expected_version=column.version, active=True)
    for name, sent in changes.retype.items():
        _retype(source.columns.select_related("dataset__system").get(name=name), sent)
    for name in changes.retire:
        column = source.columns.get(name=name)
        update_source_column(source_column=column, expected_version=column.version, active=False)
    for name, sent in changes.add.items():
        add_source_column(source, name, sent, None)
    if in_history_mode(source) != table.in_history_mode:
        tags = [tag for tag in source.tags if tag not in (TAG, HISTORY_TAG)] + tags_of(table)
        source = update_source_dataset(source_dataset=source, expected_version=source.version, tags=tags)
    generate_targets(source_dataset=source)
    return source


def _retype(column: SourceColumn, sent: Column) -> None:
    tags = [tag for tag in column.tags if not tag.startswith(TYPE_TAG)] + _type_tags(sent)
    update_source_column(source_column=column, expected_version=column.version, type=sent.data_type, tags=tags)
    for target in generated_columns(column, _TYPED_LAYERS):
        if target.type != sent.data_type:
            update_target_column(column=target, expected_version=target.version, type=sent.data_type)


def add_source_column(source: SourceDataset, name: str, sent: Column, key_ordinal: int | None) -> None:
    create_source_column(
        source_dataset=source,
        name=name,
        type=sent.data_type,
        key_ordinal=key_ordinal,
        nullable=key_ordinal is None,
        tags=_type_tags(sent),
    )
