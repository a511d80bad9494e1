"""Origin of a row, and what was made of a delivered row.

The origin are the delivered rows of a key in raw tables, with run, file and row number. Raw has the deliveries that its
dataset keeps, so the delivery that opened a version may be gone while a later one with the same values is there. The
answer names these runs, too.
"""

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN
from loader.contract.manifest.loads import StageInput
from loader.contract.manifest.reads import Descendant, ReadManifest
from loader.contract.refusals import Refusal
from loader.engine.historization.former_keys import FormerKeys
from loader.engine.historization.stage import with_entity_key
from loader.engine.queries.history_queries import valid_at
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sensitivity import MASK
from metadata.domain.sql import quote_identifier

COLUMNS = ("raw", "load_run_id", "loaded_at", "source_file", "source_row", "opened_version")
_PURPOSES = ("run_id", "loaded_at", "source_file", "source_row")


def read_origin(spark: SparkSession, warehouse: str, manifest: ReadManifest, limit: int) -> dict[str, Any]:
    """Return the delivered rows of a key, newest first, and the runs of its versions without a delivery in raw.

    With ``at``, only the version that was valid then counts, and the rows are those of its run. Raise Refusal NO_TABLE.
    """
    spec, key = manifest.own_table, manifest.arguments["entity_key"]
    table = DeltaTable(spark, warehouse, spec.key)
    raw = {item.table.key: DeltaTable(spark, warehouse, item.table.key) for item in manifest.inputs}
    versions = {key: own.version() for key, own in raw.items()}
    inputs = [item for item in manifest.inputs if versions[item.table.key] >= 0]
    if not table.exists() or not inputs:
        name = spec.qualified_name if not table.exists() else "its raw table"
        raise Refusal("NO_TABLE", f"{name} does not exist in the warehouse yet", hint="A load run creates it.")
    version = table.version()
    of_key = F.col(quote_identifier(spec.column("entity_key").name)) == key
    run_id = quote_identifier(spec.column("run_id").name)
    stored = table.frame_as_of(version).where(of_key)
    is_dated = spec.kind == "history" and bool(manifest.arguments.get("at"))
    if is_dated:
        stored = valid_at(stored, spec, manifest.arguments)
    opened = [row[0] for row in stored.select(run_id).distinct().collect()]
    former = FormerKeys(spark, warehouse)
    frames = [raw[item.table.key].frame_as_of(versions[item.table.key]) for item in inputs]
    parts = [_delivered(frame, item, manifest, key, former) for frame, item in zip(frames, inputs, strict=True)]
    delivered = reduce(DataFrame.unionByName, parts)
    if is_dated:
        delivered = delivered.where(F.col("load_run_id").isin(opened))
    by_time = delivered.withColumn("opened_version", F.col("load_run_id").isin(opened).cast("string"))
    rows = by_time.orderBy(F.col("loaded_at").desc(), "raw", "source_file", "source_row").limit(limit + 1).collect()
    runs = delivered.select("load_run_id").distinct().collect() if len(rows) > limit else rows
    former.release()
    in_raw = {row["load_run_id"] for row in runs}
    return {
        "table_version": version,
        "columns": list(COLUMNS),
        "rows": [[row[name] for name in COLUMNS] for row in rows[:limit]],
        "truncated": len(rows) > limit,
        "masked": [],
        "removed": sorted(run for run in opened if run is not None and run not in in_raw),
    }


def _delivered(
    frame: DataFrame, stage_input: StageInput, manifest: ReadManifest, key: str, former: FormerKeys
) -> DataFrame:
    spec = stage_input.table
    keyed = former.kept(with_entity_key(frame, stage_input, manifest.entity_key, "__key"), "__key", manifest.own_table)
    rows = keyed.where(F.col("__key") == key)
    names = dict(zip(_PURPOSES, COLUMNS[1:5], strict=True))
    columns = [F.col(quote_identifier(spec.column(p).name)).cast("string").alias(name) for p, name in names.items()]
    return rows.select(F.lit(spec.qualified_name).alias("raw"), *columns)


# Descendants of a delivered row.

DESCENDANT_COLUMNS = ("dataset", "entity_key", "versions", "current", "opened_version")


def read_descendants(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict[str, Any]:
    """Return the rows that tables have under the keys of a delivered row: number of versions, current, opened by it.

    Raise Refusal NO_TABLE, or NO_ROW if raw does not have the row any more.
    """
    spec, arguments = manifest.own_table, manifest.arguments
    raw = DeltaTable(spark, warehouse, spec.key)
    if not raw.exists():
        hint = "A load run creates it."
        raise Refusal("NO_TABLE", f"{spec.qualified_name} does not exist in the warehouse yet", hint=hint)
    version = raw.version()
    file, number, run = (F.col(quote_identifier(spec.column(p).name)) for p in ("source_file", "source_row", "run_id"))
    same = file.eqNullSafe(F.lit(arguments["file"])) & (number == F.lit(int(arguments["row"])))
    rows = raw.frame_as_of(version).where(same & (run == F.lit(arguments["run_id"])))
    if rows.isEmpty():
        raise Refusal(
            "NO_ROW",
            f"{spec.qualified_name} does not have row {arguments['row']} of this delivery any more",
            hint="Keep all deliveries of the raw dataset to follow their rows later.",
        )
    lines = [row for item in manifest.descendants for row in _stored(spark, warehouse, rows, item, arguments["run_id"])]
    return {
        "table_version": version,
        "columns": list(DESCENDANT_COLUMNS),
        "rows": lines,
        "truncated": False,
        "masked": ["entity_key"] if any(item.is_hashed for item in manifest.descendants) else [],
    }


def _stored(
    spark: SparkSession, warehouse: str, rows: DataFrame, item: Descendant, run_id: str
) -> list[list[str | None]]:
    spec, table = item.table, DeltaTable(spark, warehouse, item.table.key)
    if not table.exists():
        return []
    keyed = [with_entity_key(rows, own, item.entity_key, "__key").select("__key") for own in item.inputs]
    former = FormerKeys(spark, warehouse)
    stored = former.kept(reduce(DataFrame.union, keyed), "__key", spec)
    keys = [row[0] for row in stored.distinct().collect()]
    former.release()
    key = F.col(quote_identifier(spec.column("entity_key").name))
    is_open = F.col(quote_identifier(spec.column("segment").name)) == OPEN if spec.kind == "history" else F.lit(True)
    is_own = F.col(quote_identifier(spec.column("run_id").name)) == F.lit(run_id)
    versions = table.frame().where(key.isin(keys)).groupBy(key.alias("key"))
    counted = versions.agg(F.count(F.lit(1)).alias("n"), F.max(is_open).alias("open"), F.max(is_own).alias("own"))
    return [
        [
            spec.qualified_name,
            MASK if item.is_hashed else row["key"],
            str(row["n"]),
            _text(row["open"]),
            _text(row["own"]),
        ]
        for row in counted.orderBy("key").collect()
    ]


def _text(value: bool) -> str:
    return "true" if value else "false"
