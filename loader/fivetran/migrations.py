"""Migrations of the protocol: metadata changes, and history batches computed from the rows."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from loader.domain.fivetran import Column, parsed_time
from loader.fivetran import metadata_rows, pending_changes, tables
from loader.fivetran.protocol import messages
from loader.fivetran.writes import change_rows, copy_versions
from metadata.models import SourceDataset

SUPPORTED, UNSUPPORTED = True, False
DELETED = "_fivetran_deleted"


def migrate(details: Any, stopping: threading.Event) -> bool:
    """Perform a migration; return False if it is not supported, as those of the live mode.

    A table in history mode gets new values in all versions if the migration has no time.
    """
    operation = details.WhichOneof("operation")
    request = getattr(details, operation) if operation else None
    entity = request.WhichOneof("entity") if operation in _WITH_ENTITY else operation
    perform = _MIGRATIONS.get(entity)
    if perform is None:
        return UNSUPPORTED
    return perform(details, request if entity == operation else getattr(request, entity), stopping)


def _drop_table(details: Any, _: Any, stopping: threading.Event) -> bool:
    """End all rows and retire the table."""
    source = tables.known_table(details.schema, details.table)
    if source is not None:
        change_rows(source, _at() | {"deletes": True}, stopping=stopping, reason="dropped by Fivetran")
        tables.drop_table(details.schema, details.table)
    return SUPPORTED


def _drop_column_in_history_mode(details: Any, drop: Any, stopping: threading.Event) -> bool:
    """Begin versions without a value of the column; the column stays."""
    source = tables.wanted_table(details.schema, details.table)
    name = tables.column_name(source, drop.column)
    rows = _at(drop.operation_timestamp) | {"values": {name: None}, "having": name}
    change_rows(source, rows, stopping=stopping, reason="column dropped by Fivetran")
    return SUPPORTED


def _rename_table(details: Any, rename: Any, _: threading.Event) -> bool:
    pending_changes.refuse_waiting(tables.rename_table(details.schema, rename.source, rename.target))
    return SUPPORTED


def _rename_column(details: Any, rename: Any, _: threading.Event) -> bool:
    source = tables.rename_table_column(details.schema, details.table, rename.source, rename.target)
    pending_changes.refuse_waiting(source)
    return SUPPORTED


def _copy_column(details: Any, copy: Any, stopping: threading.Event) -> bool:
    source = tables.copy_column(details.schema, details.table, copy.source, copy.target)
    copies = {tables.column_name(source, copy.target): tables.column_name(source, copy.source)}
    change_rows(source, _now(source) | {"copies": copies}, stopping=stopping, reason="column copied by Fivetran")
    return SUPPORTED


def _copy_table(details: Any, copy: Any, stopping: threading.Event) -> bool:
    """Create a table with all versions of another."""
    original = tables.wanted_table(details.schema, copy.source)
    table = replace(tables.described_table(original), name=copy.target)
    copy_versions(original, tables.copy_table(original, table), _at(), stopping=stopping)
    return SUPPORTED


def _copy_table_to_history_mode(details: Any, copy: Any, stopping: threading.Event) -> bool:
    """Create a table in history mode with all versions of another; rows that are marked as deleted are ended."""
    original, column = tables.wanted_table(details.schema, copy.source), copy.soft_deleted_column
    table = tables.described_table(original).in_mode(history=True, without=column if column == DELETED else "")
    rows = _at()
    if column in tables.target_names(original):
        rows |= {"equal": {tables.column_name(original, column): "true"}, "deletes": True}
    target = tables.copy_table(original, replace(table, name=copy.target))
    copy_versions(original, target, rows, stopping=stopping)
    return SUPPORTED


def _add_with_default(details: Any, add: Any, stopping: threading.Event) -> bool:
    return _add(details, add, _now(tables.wanted_table(details.schema, details.table)), stopping)


def _add_in_history_mode(details: Any, add: Any, stopping: threading.Event) -> bool:
    return _add(details, add, _at(add.operation_timestamp), stopping)


def _add(details: Any, add: Any, rows: dict[str, Any], stopping: threading.Event) -> bool:
    column = Column(add.column, messages.DataType.Name(add.column_type))
    source = tables.add_column(details.schema, details.table, column)
    if not add.default_value:
        pending_changes.refuse_waiting(source)
        return SUPPORTED
    rows |= {"values": {tables.column_name(source, add.column): add.default_value}}
    change_rows(source, rows, stopping=stopping, reason="column added by Fivetran")
    return SUPPORTED


def _update_column_value(details: Any, update: Any, stopping: threading.Event) -> bool:
    source = tables.wanted_table(details.schema, details.table)
    rows = _now(source) | {"values": {tables.column_name(source, update.column): update.value or None}}
    change_rows(source, rows, stopping=stopping, reason="column set by Fivetran")
    return SUPPORTED


def _change_mode(details: Any, migration: Any, stopping: threading.Event) -> bool:
    """Change between soft deletes and history mode; both have the same tables, so only the current rows change."""
    column, reason = migration.soft_deleted_column or DELETED, "changed to another mode by Fivetran"
    source = tables.wanted_table(details.schema, details.table)
    where = {"schema": details.schema, "name": details.table}
    if migration.type == messages.SOFT_DELETE_TO_HISTORY:
        if column in tables.target_names(source):
            rows = _at() | {"equal": {tables.column_name(source, column): "true"}, "deletes": True}
            change_rows(source, rows, stopping=stopping, reason=reason)
        without = column if column == DELETED else ""
        pending_changes.refuse_waiting(tables.change_mode(**where, in_history_mode=True, without=without))
        return SUPPORTED
    if migration.type != messages.HISTORY_TO_SOFT_DELETE:
        return UNSUPPORTED
    source = tables.add_column(details.schema, details.table, Column(column, "BOOLEAN"))
    name = tables.column_name(source, column)
    change_rows(source, _at() | {"values": {name: "false"}}, stopping=stopping, reason=reason)
    if migration.keep_deleted_rows or not migration.HasField("keep_deleted_rows"):
        rows = _at() | {"values": {name: "true"}, "ended": True}
        change_rows(source, rows, stopping=stopping, reason=reason)
    pending_changes.refuse_waiting(tables.change_mode(**where, in_history_mode=False))
    return SUPPORTED


def _now(source: SourceDataset) -> dict[str, Any]:
    """Return a batch that opens versions now; in history mode one that changes all versions."""
    return _at() | ({"every": True} if metadata_rows.in_history_mode(source) else {})


def _at(text: str = "") -> dict[str, Any]:
    time: datetime = parsed_time(text) if text else timezone.now()
    return {"at": time.astimezone(UTC).isoformat()}


_WITH_ENTITY = ("drop", "copy", "rename", "add")
_MIGRATIONS = {
    "drop_table": _drop_table,
    "drop_column_in_history_mode": _drop_column_in_history_mode,
    "rename_table": _rename_table,
    "rename_column": _rename_column,
    "copy_column": _copy_column,
    "copy_table": _copy_table,
    "copy_table_to_history_mode": _copy_table_to_history_mode,
    "add_column_with_default_value": _add_with_default,
    "add_column_in_history_mode": _add_in_history_mode,
    "update_column_value": _update_column_value,
    "table_sync_mode_migration": _change_mode,
}
