"""Origin of a row: the delivered rows of its key in raw tables, with run, file and row number.

Raw has the deliveries that its dataset keeps, so the delivery that opened a version may be gone while a later one with
the same values is there. The answer names these runs, too.
"""

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain.manifest.loads import StageInput
from loader.domain.manifest.reads import ReadManifest
from loader.domain.refusals import Refusal
from loader.spark.historization.stage import rows_of_key
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

COLUMNS = ("raw", "load_run_id", "loaded_at", "source_file", "source_row", "opened_version")
_PURPOSES = ("run_id", "loaded_at", "source_file", "source_row")


def read_origin(spark: SparkSession, warehouse: str, manifest: ReadManifest, limit: int) -> dict[str, Any]:
    """Return the delivered rows of a key, newest first, and the runs of its versions without a delivery in raw.

    Raise Refusal NO_TABLE.
    """
    spec, key = manifest.table, manifest.arguments["entity_key"]
    table = DeltaTable(spark, warehouse, spec.key)
    raw = {item.table.key: DeltaTable(spark, warehouse, item.table.key) for item in manifest.inputs}
    inputs = [item for item in manifest.inputs if raw[item.table.key].exists()]
    if not table.exists() or not inputs:
        name = spec.qualified_name if not table.exists() else "its raw table"
        raise Refusal("NO_TABLE", f"{name} does not exist in the warehouse yet", hint="A load run creates it.")
    version = table.version()
    of_key = F.col(quote_identifier(spec.column("entity_key").name)) == key
    run_id = quote_identifier(spec.column("run_id").name)
    opened = [row[0] for row in table.frame_as_of(version).where(of_key).select(run_id).distinct().collect()]
    parts = [_delivered(raw[item.table.key].frame(), item, manifest, key) for item in inputs]
    delivered = reduce(DataFrame.unionByName, parts)
    by_time = delivered.withColumn("opened_version", F.col("load_run_id").isin(opened).cast("string"))
    rows = by_time.orderBy(F.col("loaded_at").desc(), "raw", "source_file", "source_row").limit(limit + 1).collect()
    runs = delivered.select("load_run_id").distinct().collect() if len(rows) > limit else rows
    in_raw = {row["load_run_id"] for row in runs}
    return {
        "table_version": version,
        "columns": list(COLUMNS),
        "rows": [[row[name] for name in COLUMNS] for row in rows[:limit]],
        "truncated": len(rows) > limit,
        "masked": [],
        "removed": sorted(run for run in opened if run is not None and run not in in_raw),
    }


def _delivered(frame: DataFrame, stage_input: StageInput, manifest: ReadManifest, key: str) -> DataFrame:
    spec = stage_input.table
    rows = rows_of_key(frame, stage_input, manifest.entity_key, key)
    names = dict(zip(_PURPOSES, COLUMNS[1:5], strict=True))
    columns = [F.col(quote_identifier(spec.column(p).name)).cast("string").alias(name) for p, name in names.items()]
    return rows.select(F.lit(spec.qualified_name).alias("raw"), *columns)
