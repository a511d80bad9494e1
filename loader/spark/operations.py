"""The operation executor: operation → statement → observed → recorded.

Every operation is idempotent: it looks at the table first, does what is missing, and is proved
done by looking again. ALTER carries no transaction id, so observing is the only proof there is.
"""

import time
from collections.abc import Callable
from dataclasses import asdict

from pyspark.sql import SparkSession

from architecture.domain.operations import (
    ADD_COLUMN,
    CREATE_TABLE,
    REBUILD_TABLE,
    RENAME_COLUMN,
    WIDEN_COLUMN,
    Operation,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec
from loader.domain.refusals import Refusal
from loader.spark.tables import COLUMN, KEY, NAME, DeltaTable
from metadata.domain import types as ours
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import DataType, parse, spark_type, stored_type

# Rename, drop and widening become metadata-only with these (docs/design.md, Warehouse layout).
TABLE_PROPERTIES = {
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    "delta.enableDeletionVectors": "true",
}


def column_definition(column: ColumnSpec) -> str:
    return f"{quote_identifier(column.name)} {spark_type(parse(column.type))}"


def create_statement(table: TableSpec, sql_name: str) -> str:
    properties = TABLE_PROPERTIES | {KEY: table.key, NAME: table.qualified_name}
    columns = ",\n  ".join(column_definition(column) for column in table.columns)
    partitions = ", ".join(quote_identifier(name) for name in table.partition_by)
    options = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in properties.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {sql_name} (\n  {columns}\n) USING delta"
        + (f"\nPARTITIONED BY ({partitions})" if partitions else "")
        + f"\nTBLPROPERTIES ({options})"
    )


def statement(operation: Operation, table: DeltaTable) -> str:
    """The statement an operation runs on the table as it is."""
    sql_name, column = table.sql_name, operation.column
    if operation.op == CREATE_TABLE:
        return create_statement(operation.table, sql_name)
    if operation.op == ADD_COLUMN and column is not None:
        return f"ALTER TABLE {sql_name} ADD COLUMNS ({column_definition(column)})"
    if operation.op == RENAME_COLUMN and column is not None:
        return _rename(sql_name, _held_as(column, table), column.name)
    if operation.op == WIDEN_COLUMN and column is not None:
        held, wanted = quote_identifier(_held_as(column, table)), spark_type(parse(column.type))
        return f"ALTER TABLE {sql_name} ALTER COLUMN {held} TYPE {wanted}"
    if operation.op == REBUILD_TABLE:
        return f"INSERT OVERWRITE {sql_name} SELECT {', '.join(_rebuilt(operation.table, table))} FROM {sql_name}"
    raise Refusal(
        "UNKNOWN_OPERATION",
        f"{operation.describe()} cannot be executed",
        hint="Change the table by hand, or bring the metadata back to what the table holds.",
    )


def can_alter(stored: DataType, wanted: DataType) -> bool:
    """Whether Delta widens the one to the other in place (DESIGN, The physical side); else a rebuild does."""
    match (stored.name, wanted.name):
        case (ours.STRING, ours.STRING):
            return True
        case (ours.INTEGER, ours.BIGINT | ours.FLOAT):
            return True
        case (ours.INTEGER, ours.DECIMAL):
            return wanted.precision - wanted.scale >= 10
        case (ours.DECIMAL, ours.DECIMAL):
            return wanted.scale >= stored.scale and wanted.precision - wanted.scale >= stored.precision - stored.scale
    return spark_type(stored) == spark_type(wanted)


def _rename(sql_name: str, held: str, wanted: str) -> str:
    return f"ALTER TABLE {sql_name} RENAME COLUMN {quote_identifier(held)} TO {quote_identifier(wanted)}"


def _observed(table: DeltaTable) -> ObservedTable:
    observed = table.observe()
    if observed is None:
        raise Refusal("NO_TABLE", f"There is no table at {table.location}", hint="A load run creates it.")
    return observed


def _held_as(column: ColumnSpec, table: DeltaTable) -> str:
    """What the table calls a column: found by its stable key, then by its name."""
    columns = _observed(table).columns
    found = [c for c in columns if c.key == column.key] or [c for c in columns if c.name == column.name]
    return found[0].name if found else column.name


def _rebuilt(spec: TableSpec, table: DeltaTable) -> list[str]:
    """Every column the table holds, as the description's type where it has one."""
    wanted = {column.key: column for column in spec.columns} | {column.name: column for column in spec.columns}
    selected = []
    for held in _observed(table).columns:
        column, name = wanted.get(held.key) or wanted.get(held.name), quote_identifier(held.name)
        selected.append(f"CAST({name} AS {spark_type(parse(column.type))}) AS {name}" if column else name)
    return selected


def _run(spark: SparkSession, operation: Operation, table: DeltaTable) -> None:
    if operation.op == REBUILD_TABLE:
        frame = table.frame().selectExpr(*_rebuilt(operation.table, table))
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if operation.table.partition_by:
            writer = writer.partitionBy(*operation.table.partition_by)
        writer.save(table.location)
        return
    if operation.op == RENAME_COLUMN and operation.column is not None:
        _make_way(spark, operation.column, table)
    spark.sql(statement(operation, table))


def _make_way(spark: SparkSession, column: ColumnSpec, table: DeltaTable) -> None:
    """Free the name of a column that is to be renamed: its holder (of a swap, or itself in other case) steps aside."""
    held = _held_as(column, table)
    for other in _observed(table).columns:
        if (
            other.name.lower() == column.name.lower()
            and other.name != column.name
            or (other.name == column.name and other.name != held)
        ):
            aside = f"__moving_{(other.key or other.name).replace('-', '')[:24]}"
            spark.sql(_rename(table.sql_name, other.name, aside))


def _is_done(operation: Operation, table: DeltaTable) -> bool:
    observed = table.observe()
    if observed is None:
        return False
    if operation.op == CREATE_TABLE:
        return True
    by_name = {column.name: column for column in observed.columns}
    if operation.op == REBUILD_TABLE:
        return all(c.name not in by_name or _has_type(by_name[c.name], c) for c in operation.table.columns)
    assert operation.column is not None
    found = by_name.get(operation.column.name)
    if operation.op == WIDEN_COLUMN:
        held = by_name[_held_as(operation.column, table)]
        return _has_type(held, operation.column)
    if operation.op == RENAME_COLUMN:
        return found is not None and found.key == operation.column.key
    return any(name.lower() == operation.column.name.lower() for name in by_name)


def _has_type(held: ObservedColumn, wanted: ColumnSpec) -> bool:
    return stored_type(parse(held.type)) == stored_type(parse(wanted.type))


def _stamp_column_keys(spark: SparkSession, spec: TableSpec, table: DeltaTable) -> None:
    """Tie stable keys to Delta's physical names, for columns that are not tied yet or were written anew."""
    known = {column.key for column in table.observe().columns}
    physical = table.physical_names()
    missing = {
        COLUMN + column.key: physical[column.name]
        for column in spec.columns
        if column.key not in known and column.name in physical
    }
    if missing:
        pairs = ", ".join(f"{quote_text(name)} = {quote_text(value)}" for name, value in missing.items())
        spark.sql(f"ALTER TABLE {table.sql_name} SET TBLPROPERTIES ({pairs})")


def execute(spark: SparkSession, warehouse: str, operations: tuple[Operation, ...], emit: Callable[..., None]) -> bool:
    """Run the operations in order; stops at the first that fails and says so. True if all succeeded."""
    for ordinal, operation in enumerate(operations):
        started = time.monotonic()
        table = DeltaTable(spark, warehouse, operation.table.key)
        before = table.version()
        emit(
            "operation_started",
            ordinal=ordinal,
            statement=statement(operation, table),
            version_before=before if before >= 0 else None,
        )
        error = None
        try:
            if not _is_done(operation, table):
                _run(spark, operation, table)
            _stamp_column_keys(spark, operation.table, table)
        except Exception as failure:  # whatever Spark raises belongs to this operation's record
            error = _as_refusal(operation, failure)
        observed = table.observe()
        if error is None and not _is_done(operation, table):
            error = Refusal("NOT_OBSERVED", f"{operation.describe()} ran, but the table does not show it")
        emit(
            "operation_finished",
            ordinal=ordinal,
            status="failed" if error else "succeeded",
            observed=asdict(observed) if observed else None,
            version_after=observed.version if observed else None,
            error=error.as_json() if error else None,
            seconds=round(time.monotonic() - started, 3),
        )
        if error:
            return False
    return True


def _as_refusal(operation: Operation, failure: Exception) -> Refusal:
    if isinstance(failure, Refusal):
        return failure
    first_line = str(failure).strip().splitlines()[0] if str(failure).strip() else type(failure).__name__
    return Refusal("OPERATION_FAILED", f"{operation.describe()} failed: {first_line}", hint="See the runner's log.")
