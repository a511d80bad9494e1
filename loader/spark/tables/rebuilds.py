"""Rebuild of a table with other column types, and removal of a dropped table's files from its location.

A rebuild is one atomic overwrite in place; it is verified, and restored if rows are missing.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from architecture.domain.steps.rendering import DROPPED_FOLDER, rebuilt_columns
from architecture.domain.steps.step import Step, TableShape, becomes
from loader.domain.runs.refusals import Refusal
from loader.spark.historization.hashing import digest
from loader.spark.runtime.conditions import all_of
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.types import parse, spark_type

_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


def rebuild(step: Step, table: DeltaTable) -> int:
    """Overwrite the table with the step's types and return its row count; RESTORE if the counts differ."""
    shape = becomes(step)
    assert shape is not None
    before, rows = table.version(), table.rows()
    frame = _hashed_anew(table.frame().selectExpr(*rebuilt_columns(step)), step)
    frame = _with_lengths(frame, shape)
    _overwrite(frame, shape, table)
    written, found = _rows_written(table, before), table.rows()
    if (written, found) != (rows, rows):
        table.spark.sql(f"RESTORE TABLE {table.sql_name} TO VERSION AS OF {before}")
        raise Refusal(
            "REBUILD_MISMATCH",
            f"{step.describe()}: {rows} rows before, {written} written, {found} after; "
            f"the table is back at what version {before} held",
            hint="see the runner's log; nothing was changed",
        )
    return rows


def _hashed_anew(frame: DataFrame, step: Step) -> DataFrame:
    """Recompute keys over columns with a new type, since a hash must match the value beside it."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    for key in step.rehashed:
        parts = [(part, F.col(quote_identifier(name)), types[name]) for part, name in key.parts]
        hashed = digest(parts)
        if key.absent:
            hashed = F.when(all_of(value.isNotNull() for _, value, _ in parts), hashed)
        frame = frame.withColumn(key.name, hashed)
    return frame


def set_aside(table: DeltaTable, warehouse: str) -> None:
    """Move a dropped table's files to another folder, so that a new table starts with a new log.

    A continued log would give the next load runs whose rows the new table lacks.
    """
    jvm, session = table.spark._jvm, table.spark._jsparkSession
    folder = jvm.org.apache.hadoop.fs.Path(f"{warehouse.rstrip('/')}/{DROPPED_FOLDER}")
    files = folder.getFileSystem(table.spark._jsc.hadoopConfiguration())
    files.mkdirs(folder)
    name, number = f"{table.key}-{table.version()}", 1
    while files.exists(jvm.org.apache.hadoop.fs.Path(folder, name)):
        number += 1
        name = f"{table.key}-{table.version()}-{number}"
    place = jvm.org.apache.hadoop.fs.Path(table.location)
    if not files.rename(place, jvm.org.apache.hadoop.fs.Path(folder, name)):
        raise Refusal(
            "NOT_SET_ASIDE",
            f"the files of the dropped table at {table.location} cannot be moved",
            hint="move them by hand, or let the runner write to the warehouse's folder",
        )
    jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(session, place)


def _with_lengths(frame: DataFrame, shape: TableShape) -> DataFrame:
    """Add the lengths of text columns as metadata, which an overwrite would otherwise lose."""
    selected = []
    for column in shape.columns:
        described, value = parse(column.type), F.col(quote_identifier(column.name))
        length = {_LENGTH: spark_type(described).lower()} if described.length is not None else {}
        selected.append(value.alias(column.name, metadata=length) if length else value.alias(column.name))
    return frame.select(*selected)


def _overwrite(frame: DataFrame, shape: TableShape, table: DeltaTable) -> None:
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    if shape.partition_by:
        writer = writer.partitionBy(*shape.partition_by)
    writer.save(table.location)


def _rows_written(table: DeltaTable, before: int) -> int | None:
    """Return the number of rows that the commit after ``before`` wrote.

    None if that commit is not the newest or lacks the number.
    """
    if table.version() != before + 1:
        return None
    for action in table.commit(before + 1) or ():
        metrics = action.get("commitInfo", {}).get("operationMetrics", {})
        if "numOutputRows" in metrics:
            return int(metrics["numOutputRows"])
    return None
