"""Reads for pages: bounded questions to one table or file, answered as JSON values.

Kinds and their arguments:

    sample      limit                        rows of a table
    key_search  text, limit                  business keys of a history or rawcore table that start with text
    versions    entity_key | business_key    every version of one key, oldest first
    as_of       at, limit, text              the rows that were valid at an instant
    discover    (source)                     columns and inferred types of a file

Every answer names the Delta version it was read at. Values are text, as Spark casts them, and NULL
is null: a page shows them and computes nothing.
"""

import threading
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain.manifest import ReadManifest
from loader.domain.refusals import Refusal
from loader.spark.sources import discover
from loader.spark.tables import DeltaTable
from metadata.domain.sql import quote_identifier

MAXIMUM_ROWS = 1000


def read(spark: SparkSession, warehouse: str, manifest: ReadManifest, job_group: str) -> dict:
    """Answer one read; Refusal where the table is not there or it takes too long."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "read")
    context.setJobGroup(job_group, f"read {manifest.kind}")
    late = threading.Event()

    def give_up() -> None:
        late.set()
        context.cancelJobGroup(job_group)

    timer = threading.Timer(manifest.timeout_seconds, give_up)
    timer.start()
    try:
        return _answer(spark, warehouse, manifest)
    except Exception:
        if late.is_set():
            raise Refusal(
                "READ_TIMEOUT",
                f"The answer took longer than {manifest.timeout_seconds:.0f} seconds",
                hint="Ask for less, or ask again when no load is running.",
            ) from None
        raise
    finally:
        timer.cancel()


def _answer(spark: SparkSession, warehouse: str, manifest: ReadManifest) -> dict:
    arguments = manifest.arguments
    if manifest.kind == "discover":
        source = manifest.source
        return discover(spark, source.location, source.format, source.options)
    kinds: dict[str, Callable[[DataFrame, TableSpec, dict], DataFrame]] = {
        "sample": lambda frame, _, __: frame,
        "key_search": _key_search,
        "versions": _versions,
        "as_of": _as_of,
    }
    if manifest.kind not in kinds:
        raise Refusal("UNKNOWN_READ", f"There is no read of kind {manifest.kind}")
    table = DeltaTable(spark, warehouse, manifest.table.key)
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{manifest.table.qualified_name} does not exist in the warehouse yet",
            hint="A load run creates it.",
        )
    version = table.version()
    asked = kinds[manifest.kind](table.frame_as_of(version), manifest.table, arguments)
    limit = min(int(arguments.get("limit", 50)), MAXIMUM_ROWS)
    rows = asked.select(*(_as_text(asked, name) for name in asked.columns)).limit(limit + 1).collect()
    return {
        "table_version": version,
        "columns": asked.columns,
        "rows": [list(row) for row in rows[:limit]],
        "truncated": len(rows) > limit,
    }


def _as_text(frame: DataFrame, name: str) -> Column:
    return F.col(quote_identifier(name)).cast("string").alias(name)


def _business_key(table: TableSpec) -> list[str]:
    return [quote_identifier(column.name) for column in table.of_purpose("business_key")]


def _key_search(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Keys whose first business-key column starts with the text, whatever its case."""
    names = _business_key(table)
    text = str(arguments.get("text", ""))
    matching = frame.where(F.startswith(F.lower(F.col(names[0]).cast("string")), F.lower(F.lit(text))))
    entity_key = quote_identifier(table.column("entity_key").name)
    return matching.select(*names, entity_key).distinct().orderBy(*names)


def _versions(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """The versions of one key, found by its entity key or by its business-key values."""
    if arguments.get("entity_key"):
        condition = F.col(quote_identifier(table.column("entity_key").name)) == F.lit(arguments["entity_key"])
    else:
        given = dict(arguments["business_key"])
        condition = F.lit(True)
        for column in table.of_purpose("business_key"):
            value = F.lit(str(given[column.name]))
            condition = condition & (F.col(quote_identifier(column.name)).cast("string") == value)
    return frame.where(condition).orderBy(quote_identifier(table.column("started_at").name))


def _as_of(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Rows whose interval holds the instant, ``[started_at, ended_at)``."""
    at = F.lit(arguments["at"]).cast("timestamp")
    started = F.col(quote_identifier(table.column("started_at").name))
    ended = F.col(quote_identifier(table.column("ended_at").name))
    valid = frame.where((started <= at) & (ended.isNull() | (ended > at)))
    names = _business_key(table)
    if arguments.get("text"):
        valid = valid.where(
            F.startswith(F.lower(F.col(names[0]).cast("string")), F.lower(F.lit(str(arguments["text"]))))
        )
    return valid.orderBy(*names)
