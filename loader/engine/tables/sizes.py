"""Sizes of tables from their logs, without reading rows."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.engine.pyspark_types import row_of
from loader.engine.tables.tables import DeltaTable


def sizes(spark: SparkSession, warehouse: str, keys: Iterable[str]) -> dict[str, dict[str, int | None]]:
    """Return version, rows, bytes and files of each existing table, by stable key.

    ``rows`` is None if a file lacks statistics; deleted rows are not counted.
    """
    by_key = {}
    for key in keys:
        table = DeltaTable(spark, warehouse, key)
        if table.exists():
            by_key[key] = {"version": table.version(), **size_of(table)}
    return by_key


def size_of(table: DeltaTable) -> dict[str, int | None]:
    """Return rows, bytes and files of the newest version."""
    files = DataFrame(table.snapshot().allFiles().toDF(), table.spark)
    records = F.get_json_object("stats", "$.numRecords").cast("bigint")
    live = records - F.coalesce(F.col("deletionVector.cardinality"), F.lit(0))
    totals = row_of(
        files.agg(
            F.count("*").alias("files"),
            F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
            F.count(records).alias("counted"),
            F.coalesce(F.sum(live), F.lit(0)).alias("rows"),
        ).first()
    )
    return {
        "rows": totals.rows if totals.counted == totals.files else None,
        "bytes": totals.bytes,
        "files": totals.files,
    }
