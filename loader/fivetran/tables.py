"""Tables of Fivetran as metadata: a system for a schema, a source dataset for a table, and its generated targets.

The targets are changed by the services that pages use, so each change appears in the change log under the sender's
name, and tables in the warehouse change by the next write, or by a report if the change policy requires one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from loader.contract.refusals import Refusal
from loader.domain.fivetran import (
    START,
    Column,
    Table,
    changes_of,
    check_name,
    contract_name,
    reported_column,
    sent_name,
)
from loader.fivetran.metadata_rows import (
    FOLDER,
    add_source_column,
    apply_changes,
    classify_like,
    column_of,
    generated_columns,
    in_history_mode,
    known_columns,
    locked_row,
    row_of,
    sent_as,
    system_of,
    tags_of,
    targets_of,
    unknown_column,
)
from metadata.domain import naming, stable_keys
from metadata.domain.history.history_policy import BATCH_FILES
from metadata.models import SourceDataset, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.lifecycle import rename_column, rename_dataset
from metadata.services.sources import (
    create_source_dataset,
    update_source_column,
    update_source_dataset,
)

POLICY = {"input": BATCH_FILES, "time": START}


def known_table(schema: str, name: str) -> SourceDataset | None:
    """Return the contract of a table that was created here and not dropped."""
    row = row_of(schema, name)
    return row if row is not None and row.active else None


def wanted_table(schema: str, name: str) -> SourceDataset:
    """Return the contract of a table. Raise Refusal UNKNOWN_TABLE."""
    row = known_table(schema, name)
    if row is None:
        raise Refusal("UNKNOWN_TABLE", f"there is no table {schema}.{name}", hint="Sync it again from the beginning.")
    return row


def rawcore_of(source: SourceDataset) -> TargetDataset:
    """Return the dataset that the table's rows are written to. Raise Refusal NO_TARGET."""
    row = targets_of(source).filter(schema__layer="rawcore").first()
    if row is None:
        raise Refusal("NO_TARGET", f"{source} has no rawcore dataset", hint="Generate its targets in elevata.")
    return row


def target_names(source: SourceDataset) -> dict[str, str]:
    """Return the columns of rawcore by the names in batch files."""
    columns = {row.key: row.name for row in rawcore_of(source).columns.all()}
    return {
        sent_name(row.name): columns.get(stable_keys.generated_column_key("rawcore", row.key), row.name)
        for row in source.columns.filter(active=True)
    }


def described_table(source: SourceDataset) -> Table:
    """Return a table as it is reported."""
    rows = source.columns.filter(active=True).order_by("ordinal")
    columns = [
        reported_column(row.name, row.type, sent_as=sent_as(row), primary_key=row.key_ordinal is not None)
        for row in rows
    ]
    table = Table(source.system.location.removeprefix(f"{FOLDER}/"), source.name, tuple(columns))
    return table.in_mode(history=in_history_mode(source))


def create_table(table: Table) -> SourceDataset:
    """Create a table, or bring back one that was dropped. Raise Refusal TABLE_EXISTS.

    The first tables of a schema may be created in parallel; then one request finds the system of the other.
    """
    try:
        return _create_table(table)
    except MetadataError as problem:
        if problem.code != "constraint":
            raise
    return _create_table(table)


def _create_table(table: Table) -> SourceDataset:
    with writing(f"created by Fivetran as {table.schema}.{table.name}"):
        row = row_of(table.schema, table.name)
        if row is not None and row.active:
            raise Refusal("TABLE_EXISTS", f"there is a table {table.schema}.{table.name} already")
        if row is not None:
            changes = changes_of(known_columns(row), table, drops=True)
            update_source_dataset(source_dataset=row, expected_version=row.version, active=True)
            return apply_changes(locked_row(row), table, changes)
        key = table.key
        row = create_source_dataset(
            system=system_of(table.schema),
            name=table.name,
            location=table.name,
            short_name=naming.safe_table_part(table.name),
            history_policy=POLICY,
            historize=True,
            tags=tags_of(table),
            description=f"Written by Fivetran as {table.schema}.{table.name}.",
        )
        for name, column in table.described.items():
            add_source_column(row, name, column, key.index(name) + 1 if name in key else None)
        generate_targets(source_dataset=row)
        return row


def alter_table(table: Table, *, drops: bool) -> SourceDataset:
    """Change the contract and its targets to the sent columns; those that are not sent are retired with ``drops``."""
    with _changing(table.schema, table.name, "altered") as row:
        return apply_changes(row, table, changes_of(known_columns(row), table, drops=drops))


def add_column(schema: str, name: str, column: Column) -> SourceDataset:
    """Add a column, or bring it back, unless the table has it."""
    with _changing(schema, name, "altered") as row:
        known = known_columns(row)
        if contract_name(column.name) in known and known[contract_name(column.name)].active:
            return row
        table = Table(schema, name, (*described_table(row).columns, column))
        return apply_changes(row, table, changes_of(known, table, drops=False))


def copy_column(schema: str, name: str, old: str, new: str) -> SourceDataset:
    """Add a column of the type and classification of another, or bring it back, unless the table has it."""
    with _changing(schema, name, "altered") as row:
        sent = next((column for column in described_table(row).columns if column.name == old), None)
        if sent is None:
            raise unknown_column(row, old)
        add_column(schema, name, replace(sent, name=new, primary_key=False))
        classify_like(column_of(row, new), like=column_of(row, old))
        return row


def copy_table(original: SourceDataset, table: Table) -> SourceDataset:
    """Create a table with the classification of another's columns.

    An existing table with the same columns gets the classification only. Raise Refusal TABLE_EXISTS for a table with
    other columns.
    """
    with writing(f"copied by Fivetran from {original.name}"):
        known = known_table(table.schema, table.name)
        row = known if known is not None and described_table(known) == table else _create_table(table)
        for name in table.described:
            classify_like(column_of(row, name), like=column_of(original, name))
        return row


def change_mode(schema: str, name: str, *, in_history_mode: bool, without: str = "") -> SourceDataset:
    """Change the mode of a table, and retire the column ``without``, if it is given."""
    with _changing(schema, name, "changed to another mode") as row:
        table = described_table(row).in_mode(history=in_history_mode, without=without)
        return apply_changes(row, table, changes_of(known_columns(row), table, drops=True))


def rename_table(schema: str, old: str, new: str) -> SourceDataset:
    """Rename a table and its targets, except those that users renamed. A table that was renamed is unchanged."""
    check_name(new)
    renamed = known_table(schema, new)
    if renamed is not None and known_table(schema, old) is None:
        return renamed
    with _changing(schema, old, "renamed") as row:
        short_name, former = naming.safe_table_part(new), row.short_name
        update_source_dataset(
            source_dataset=row, expected_version=row.version, name=new, location=new, short_name=short_name
        )
        for target in targets_of(row):
            layer, system = target.schema.layer, row.system.short_name
            if target.name == naming.generated_name(layer, system, former):
                name = naming.generated_name(layer, system, short_name)
                rename_dataset(dataset=target, name=name, expected_version=target.version)
        return locked_row(row)


def rename_table_column(schema: str, table: str, old: str, new: str) -> SourceDataset:
    """Rename a column and those generated from it, except those that users renamed.

    A column that was renamed is unchanged.
    """
    with _changing(schema, table, "altered") as row:
        names = target_names(row)
        if new in names and old not in names:
            return row
        column = column_of(row, old)
        former, name = column.name, contract_name(new)
        update_source_column(source_column=column, expected_version=column.version, name=name)
        for target in generated_columns(column, naming.PREFIXES):
            if target.name in (former, naming.safe_column_name(former, column.ordinal)):
                is_raw = target.dataset.schema.layer == "raw"
                wanted = name if is_raw else naming.safe_column_name(name, column.ordinal)
                rename_column(column=target, name=wanted, expected_version=target.version)
        return row


def drop_table(schema: str, name: str) -> None:
    """Retire a table and its targets; the tables in the warehouse stay."""
    with _changing(schema, name, "dropped") as row:
        update_source_dataset(source_dataset=row, expected_version=row.version, active=False)
        generate_targets(source_dataset=row)


def column_name(source: SourceDataset, name: str) -> str:
    """Return the rawcore column of a sent column. Raise Refusal UNKNOWN_COLUMN."""
    names = target_names(source)
    if name not in names:
        raise unknown_column(source, name)
    return names[name]


@contextmanager
def _changing(schema: str, name: str, done: str) -> Iterator[SourceDataset]:
    with writing(f"{done} by Fivetran"):
        yield locked_row(wanted_table(schema, name))
