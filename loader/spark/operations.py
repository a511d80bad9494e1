"""The operation executor: operation → statement → observed → recorded.

Every operation is idempotent: it looks at the table first, does what is missing, and is proved
done by looking again. ALTER carries no transaction id, so observing is the only proof there is.
"""

import time
from collections.abc import Callable
from dataclasses import asdict

from pyspark.sql import SparkSession

from architecture.domain.operations import ADD_COLUMN, CREATE_TABLE, Operation
from architecture.domain.tables import ColumnSpec, TableSpec
from loader.domain.refusals import Refusal
from loader.spark.tables import COLUMN, KEY, NAME, DeltaTable
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import parse, spark_type

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


def statement(operation: Operation, sql_name: str) -> str:
    """The statement an operation runs."""
    if operation.op == CREATE_TABLE:
        return create_statement(operation.table, sql_name)
    if operation.op == ADD_COLUMN and operation.column is not None:
        return f"ALTER TABLE {sql_name} ADD COLUMNS ({column_definition(operation.column)})"
    raise Refusal(
        "UNKNOWN_OPERATION",
        f"{operation.describe()} cannot be executed",
        hint="Change the table by hand, or bring the metadata back to what the table holds.",
    )


def _is_done(operation: Operation, table: DeltaTable) -> bool:
    observed = table.observe()
    if observed is None:
        return False
    if operation.op == CREATE_TABLE:
        return True
    return any(column.name.lower() == operation.column.name.lower() for column in observed.columns)


def _stamp_column_keys(spark: SparkSession, spec: TableSpec, table: DeltaTable) -> None:
    """Tie stable keys to Delta's physical names, for columns that are not tied yet."""
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
            statement=statement(operation, table.sql_name),
            version_before=before if before >= 0 else None,
        )
        error = None
        try:
            if not _is_done(operation, table):
                spark.sql(statement(operation, table.sql_name))
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
