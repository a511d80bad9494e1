"""From desired and observed tables to operations.

Columns are matched by stable key first, then by name; types are compared as Delta stores them.
Creating tables and adding nullable columns are safe and allowed; every other difference is planned
as blocked, with what to do, so that a load never runs into a table whose structure it does not know.
"""

from collections.abc import Iterable, Mapping

from architecture.domain.operations import (
    ADD_COLUMN,
    BLOCKED,
    CREATE_TABLE,
    RENAME_COLUMN,
    RENAME_TABLE,
    RETYPE_COLUMN,
    Operation,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec
from metadata.domain.types import parse, stored_type


def plan(desired: Iterable[TableSpec], observed: Mapping[str, ObservedTable]) -> tuple[Operation, ...]:
    """Operations that bring the observed tables (by stable key) to the desired ones, in order."""
    operations: list[Operation] = []
    for table in desired:
        existing = observed.get(table.key)
        operations.extend([Operation(CREATE_TABLE, table)] if existing is None else _alter(table, existing))
    return tuple(operations)


def _alter(table: TableSpec, existing: ObservedTable) -> Iterable[Operation]:
    if existing.qualified_name != table.qualified_name:
        yield _blocked(RENAME_TABLE, table, None, f"the table is published as {existing.qualified_name}")
    by_key = {column.key: column for column in existing.columns if column.key}
    by_name = {column.name.lower(): column for column in existing.columns}
    for column in table.columns:
        found = by_key.get(column.key) or by_name.get(column.name.lower())
        if found is None:
            yield Operation(ADD_COLUMN, table, column)
        else:
            yield from _differences(table, column, found)


def _differences(table: TableSpec, column: ColumnSpec, found: ObservedColumn) -> Iterable[Operation]:
    if found.name != column.name:
        yield _blocked(RENAME_COLUMN, table, column, f"the table holds it as {found.name}")
    if stored_type(parse(found.type)) != stored_type(parse(column.type)):
        yield _blocked(RETYPE_COLUMN, table, column, f"the table holds {found.type}, metadata says {column.type}")


def _blocked(op: str, table: TableSpec, column: ColumnSpec | None, message: str) -> Operation:
    return Operation(op, table, column, decision=BLOCKED, code="NEEDS_REVIEW", message=message)
