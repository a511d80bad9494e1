"""Tables of Fivetran as metadata: a system for a schema, a source dataset for a table, and its generated targets.

The targets are changed by the services that pages use, so each change appears in the change log under the sender's
name, and tables in the warehouse change by the next write, or by a report if the change policy requires one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.conf import settings

from architecture.domain.report import Scope as ReportScope
from architecture.services.automatic_changes import pending_changes
from architecture.services.reports import build_report, refresh_state, table_keys
from architecture.services.states import current_environment, last_seen
from elevata.accounts.permissions import current_actor
from elevata.audit.services import chain
from elevata.audit.services.change_log import writing
from elevata.core.errors import MetadataError
from elevata.core.words import counted
from loader.domain.dependencies import DATASET
from loader.domain.fivetran import (
    START,
    Changes,
    Column,
    KnownColumn,
    Table,
    changes_of,
    check_name,
    contract_name,
    reported_column,
    sent_name,
)
from loader.domain.refusals import Refusal
from loader.services.loads.plans import plan_named
from metadata.domain import naming
from metadata.domain.history.history_policy import BATCH_FILES
from metadata.domain.sensitivity import LEVELS
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import rename_column, rename_dataset
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    create_system,
    update_source_column,
    update_source_dataset,
)

POLICY = {"input": BATCH_FILES, "time": START}
FOLDER, TAG, HISTORY_TAG, TYPE_TAG = "fivetran", "fivetran", "fivetran history mode", "fivetran type "
_TYPED_LAYERS = ("stage", "rawcore")


def known_table(schema: str, name: str) -> SourceDataset | None:
    """Return the contract of a table that was created here and not dropped."""
    row = _row(schema, name)
    return row if row is not None and row.active else None


def wanted_table(schema: str, name: str) -> SourceDataset:
    """Return the contract of a table. Raise Refusal UNKNOWN_TABLE."""
    row = known_table(schema, name)
    if row is None:
        raise Refusal("UNKNOWN_TABLE", f"there is no table {schema}.{name}", hint="Sync it again from the beginning.")
    return row


def in_history_mode(source: SourceDataset) -> bool:
    return HISTORY_TAG in source.tags


def rawcore_of(source: SourceDataset) -> TargetDataset:
    """Return the dataset that the table's rows are written to. Raise Refusal NO_TARGET."""
    row = _targets(source).filter(schema__layer="rawcore").first()
    if row is None:
        raise Refusal("NO_TARGET", f"{source} has no rawcore dataset", hint="Generate its targets in elevata.")
    return row


def target_names(source: SourceDataset) -> dict[str, str]:
    """Return the columns of rawcore by the names in batch files."""
    columns = {row.key: row.name for row in rawcore_of(source).columns.all()}
    return {
        sent_name(row.name): columns.get(naming.generated_column_key("rawcore", row.key), row.name)
        for row in source.columns.filter(active=True)
    }


def described_table(source: SourceDataset) -> Table:
    """Return a table as it is reported."""
    rows = source.columns.filter(active=True).order_by("ordinal")
    columns = [
        reported_column(row.name, row.type, sent_as=_sent_as(row), primary_key=row.key_ordinal is not None)
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
        row = _row(table.schema, table.name)
        if row is not None and row.active:
            raise Refusal("TABLE_EXISTS", f"there is a table {table.schema}.{table.name} already")
        if row is not None:
            changes = changes_of(_known(row), table, drops=True)
            update_source_dataset(source_dataset=row, expected_version=row.version, active=True)
            return _apply(_locked(row), table, changes)
        key = table.key
        row = create_source_dataset(
            system=_system(table.schema),
            name=table.name,
            location=table.name,
            short_name=naming.safe_table_part(table.name),
            history_policy=POLICY,
            historize=True,
            tags=_tags(table),
            description=f"Written by Fivetran as {table.schema}.{table.name}.",
        )
        for name, column in table.described.items():
            _add_column(row, name, column, key.index(name) + 1 if name in key else None)
        generate_targets(source_dataset=row)
        return row


def alter_table(table: Table, *, drops: bool) -> SourceDataset:
    """Change the contract and its targets to the sent columns; those that are not sent are retired with ``drops``."""
    with _changing(table.schema, table.name, "altered") as row:
        return _apply(row, table, changes_of(_known(row), table, drops=drops))


def add_column(schema: str, name: str, column: Column) -> SourceDataset:
    """Add a column, or bring it back, unless the table has it."""
    with _changing(schema, name, "altered") as row:
        known = _known(row)
        if contract_name(column.name) in known and known[contract_name(column.name)].active:
            return row
        table = Table(schema, name, (*described_table(row).columns, column))
        return _apply(row, table, changes_of(known, table, drops=False))


def copy_column(schema: str, name: str, old: str, new: str) -> SourceDataset:
    """Add a column of the type and classification of another, or bring it back, unless the table has it."""
    with _changing(schema, name, "altered") as row:
        sent = next((column for column in described_table(row).columns if column.name == old), None)
        if sent is None:
            raise _unknown_column(row, old)
        add_column(schema, name, replace(sent, name=new, primary_key=False))
        _classify(_column(row, new), like=_column(row, old))
        return row


def copy_table(original: SourceDataset, table: Table) -> SourceDataset:
    """Create a table with the classification of another's columns. One that was created so is unchanged.

    Raise Refusal TABLE_EXISTS for a table with other columns.
    """
    known = known_table(table.schema, table.name)
    if known is not None and described_table(known) == table:
        return known
    with writing(f"copied by Fivetran from {original.name}"):
        row = _create_table(table)
        for name in table.described:
            _classify(_column(row, name), like=_column(original, name))
        return row


def change_mode(schema: str, name: str, *, in_history_mode: bool, without: str = "") -> SourceDataset:
    """Change the mode of a table, and retire the column ``without``, if it is given."""
    with _changing(schema, name, "changed to another mode") as row:
        table = described_table(row).in_mode(history=in_history_mode, without=without)
        return _apply(row, table, changes_of(_known(row), table, drops=True))


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
        for target in _targets(row):
            layer, system = target.schema.layer, row.system.short_name
            if target.name == naming.generated_name(layer, system, former):
                name = naming.generated_name(layer, system, short_name)
                rename_dataset(dataset=target, name=name, expected_version=target.version)
        return _locked(row)


def rename_table_column(schema: str, table: str, old: str, new: str) -> SourceDataset:
    """Rename a column and those generated from it, except those that users renamed.

    A column that was renamed is unchanged.
    """
    with _changing(schema, table, "altered") as row:
        names = target_names(row)
        if new in names and old not in names:
            return row
        column = _column(row, old)
        former, name = column.name, contract_name(new)
        update_source_column(source_column=column, expected_version=column.version, name=name)
        for target in _generated(column, naming.PREFIXES):
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
        raise _unknown_column(source, name)
    return names[name]


# Changes that wait for a decision.


def refuse_waiting(source: SourceDataset) -> None:
    """Create a change report if changes of the table need a decision, and raise Refusal REPORT_WAITS, which names it.

    Other changes are executed by the next write.
    """
    through = chain.sealed_through()
    name, environment = str(rawcore_of(source)), current_environment()
    plan = plan_named(name)
    tables = table_keys(plan.states[key] for key in plan.described)
    refresh_state(environment=environment, keys=lambda: tables, local=False)
    pending = pending_changes(
        environment=environment,
        states=plan.states.values(),
        keys=plan.described,
        seen=last_seen(environment=environment, keys=tables),
        through=through,
    )
    if not pending.needing:
        return
    scope = ReportScope(DATASET, name, target_only=True)
    report = build_report(environment=environment, scope=scope, user=current_actor().user)
    raise Refusal(
        "REPORT_WAITS",
        f"{counted(len(pending.needing), 'change needs', 'changes need')} a decision before rows can be written to "
        f"{name}: {'; '.join(pending.needing[:3])}",
        hint=f"Have change report {report.report_id} of environment {settings.ENVIRONMENT} approved and executed in "
        "elevata, then sync again.",
    )


# Rows of metadata.


@contextmanager
def _changing(schema: str, name: str, done: str) -> Iterator[SourceDataset]:
    with writing(f"{done} by Fivetran"):
        yield _locked(wanted_table(schema, name))


def _row(schema: str, name: str) -> SourceDataset | None:
    check_name(schema)
    check_name(name)
    rows = SourceDataset.objects.filter(system__location=f"{FOLDER}/{schema}", name=name)
    return rows.select_related("system").first()


def _locked(row: SourceDataset) -> SourceDataset:
    return SourceDataset.objects.select_for_update(of=("self",)).select_related("system").get(pk=row.pk)


def _system(schema: str) -> System:
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


def _targets(source: SourceDataset):
    return TargetDataset.objects.filter(generated_from=source, history_of=None).select_related("schema")


def _generated(column: SourceColumn, layers) -> list[TargetColumn]:
    keys = [naming.generated_column_key(layer, column.key) for layer in layers]
    return list(TargetColumn.objects.filter(key__in=keys).select_related("dataset__schema"))


def _column(source: SourceDataset, name: str) -> SourceColumn:
    row = source.columns.filter(active=True, name__iexact=contract_name(name)).first()
    if row is None:
        raise _unknown_column(source, name)
    return row


def _unknown_column(source: SourceDataset, name: str) -> Refusal:
    return Refusal("UNKNOWN_COLUMN", f"{source} has no column {name}", column=name)


def _sent_as(column: SourceColumn) -> str:
    tag = next((tag for tag in column.tags if tag.startswith(TYPE_TAG)), "")
    return tag.removeprefix(TYPE_TAG).upper()


def _tags(table: Table) -> list[str]:
    return [TAG, HISTORY_TAG] if table.in_history_mode else [TAG]


def _type_tags(column: Column) -> list[str]:
    return [f"{TYPE_TAG}{column.type.lower()}"]


def _classify(column: SourceColumn, *, like: SourceColumn) -> None:
    """Classify a column and those generated from it as another, which users may have classified in rawcore."""
    rows: list[Any] = [*_generated(like, ("rawcore",)), like, column]  # columns of targets and of the source
    levels = [row.sensitivity or getattr(row.dataset, "sensitivity", "") for row in rows]
    changes = {"pii": any(row.pii for row in rows), "sensitivity": max(levels, key=("", *LEVELS).index)}
    update_source_column(source_column=column, expected_version=column.version, **changes)
    for target in _generated(column, naming.PREFIXES):
        update_target_column(column=target, expected_version=target.version, **changes)


def _known(source: SourceDataset) -> dict[str, KnownColumn]:
    return {
        row.name: KnownColumn(row.type, _sent_as(row), row.key_ordinal is not None, row.active)
        for row in source.columns.all()
    }


def _apply(source: SourceDataset, table: Table, changes: Changes) -> SourceDataset:
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
        _add_column(source, name, sent, None)
    if in_history_mode(source) != table.in_history_mode:
        tags = [tag for tag in source.tags if tag not in (TAG, HISTORY_TAG)] + _tags(table)
        source = update_source_dataset(source_dataset=source, expected_version=source.version, tags=tags)
    generate_targets(source_dataset=source)
    return source


def _retype(column: SourceColumn, sent: Column) -> None:
    tags = [tag for tag in column.tags if not tag.startswith(TYPE_TAG)] + _type_tags(sent)
    update_source_column(source_column=column, expected_version=column.version, type=sent.data_type, tags=tags)
    for target in _generated(column, _TYPED_LAYERS):
        if target.type != sent.data_type:
            update_target_column(column=target, expected_version=target.version, type=sent.data_type)


def _add_column(source: SourceDataset, name: str, sent: Column, key_ordinal: int | None) -> None:
    create_source_column(
        source_dataset=source,
        name=name,
        type=sent.data_type,
        key_ordinal=key_ordinal,
        nullable=key_ordinal is None,
        tags=_type_tags(sent),
    )
