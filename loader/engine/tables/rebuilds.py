"""Table rebuilds.

A rebuild is one atomic overwrite in place. It is verified, and undone by RESTORE if rows are missing.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from architecture.domain.steps.features import COLUMN_MAPPING
from architecture.domain.steps.statements import (
    COLUMN,
    DROPPED_FOLDER,
    drop_features,
    rebuilt_columns,
    unset_properties,
)
from architecture.domain.steps.step import (
    Step,
    TableShape,
    becomes,
    shape_of,
)
from loader.contract.refusals import Refusal
from loader.engine.compared_texts import compared
from loader.engine.expressions import all_of
from loader.engine.hashing import digest
from loader.engine.pyspark_types import jvm_of
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.types import parse, spark_type

_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


def rebuild(step: Step, table: DeltaTable) -> int:
    """Overwrite the table with the step's columns and return its row count. RESTORE it if the counts differ."""
    shape = becomes(step)
    assert shape is not None
    before, rows = table.version(), table.rows()
    frame = _with_new_hashes(table.frame().selectExpr(*rebuilt_columns(step)), step)
    frame = _with_lengths(frame, shape)
    _overwrite(frame, shape, table)
    _restore_unless(rows, table, before, step, _rows_written(table, before))
    return rows


def rewrite_without_features(step: Step, table: DeltaTable) -> int:
    """Rewrite the table without the step's features that it has, and return its row count. RESTORE it if counts differ.

    Without column mapping, stored keys could be those of other columns, so they are removed first; the step stores
    them again.
    """
    shape = shape_of(table.observe())
    left = [name for name in step.features if shape is not None and name in shape.closing]
    before, rows = table.version(), table.rows()
    if COLUMN_MAPPING in left and (keys := table.stored_keys()):
        table.spark.sql(unset_properties(table.sql_name, (COLUMN + key for key in keys)))
    for sql in drop_features(left, table.sql_name):
        table.spark.sql(sql)
    _restore_unless(rows, table, before, step)
    return rows


def _restore_unless(rows: int, table: DeltaTable, before: int, step: Step, *written: int | None) -> None:
    """Restore the version ``before`` and raise Refusal REBUILD_MISMATCH unless the table has as many rows as before.

    ``written`` is the number of rows that a rebuild wrote, which must be the same.
    """
    stored = table.rows()
    if {*written, stored} != {rows}:
        table.spark.sql(f"RESTORE TABLE {table.sql_name} TO VERSION AS OF {before}")
        after = ", ".join([*(f"{count} written" for count in written), f"{stored} after"])
        raise Refusal(
            "REBUILD_MISMATCH",
            f"{step.describe()}: {rows} rows before, {after}; the table is back at what version {before} held",
            hint="see the runner's log; nothing was changed",
        )


def _with_new_hashes(frame: DataFrame, step: Step) -> DataFrame:
    """Recompute keys over columns with a new type, since hashes must match the stored values."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    for key in step.rehashed:
        by_value = dict(key.types)
        parts = [
            (part, compared(F.col(quote_identifier(name)), by_value.get(name, "")), types[name])
            for part, name in key.parts
        ]
        hashed = digest(parts)
        if key.absent:
            hashed = F.when(all_of(value.isNotNull() for _, value, _ in parts), hashed)
        frame = frame.withColumn(key.name, hashed)
    return frame


def set_aside(table: DeltaTable, warehouse: str) -> None:
    """Move a dropped table's files to another folder, so that a new table starts with a new log.

    The old log has commits of runs whose rows the new table would lack.
    """
    jvm, session = jvm_of(table.spark), table.spark._jsparkSession
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
    """Add the lengths of text columns as metadata, since an overwrite would lose them."""
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

    Return None if that commit is not the newest, or does not have the number.
    """
    if table.version() != before + 1:
        return None
    for action in table.commit(before + 1) or ():
        metrics = action.get("commitInfo", {}).get("operationMetrics", {})
        if "numOutputRows" in metrics:
            return int(metrics["numOutputRows"])
    return None
