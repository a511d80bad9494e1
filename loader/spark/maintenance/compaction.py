"""Compaction of tables with many small files or many deleted rows.

Delta needs two statements: OPTIMIZE merges small files but leaves a large file as it is, however many of its
rows are deleted; REORG rewrites every file with deleted rows and no other.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain.runs import maintenance
from loader.domain.runs.manifest import CompactManifest
from loader.spark.maintenance.run_context import House, carried, file_count
from loader.spark.tables.commits import TableFiles, rows_in
from loader.spark.tables.tables import DeltaTable

_BOUNDS = "spark.databricks.delta.optimize."


def is_crowded(table: DeltaTable) -> bool:
    """Return True if a table needs compaction (``loader.domain.runs.maintenance``).

    Its checksum file usually suffices.
    """
    if not table.exists():
        return False
    return _has_small_files(table) or _has_dead_rows(table)


def _has_dead_rows(table: DeltaTable) -> bool:
    partitions: dict[str, list[Any]] = {}
    for file in TableFiles(table.spark, table).all:
        partitions.setdefault(file.partitionValues().toString(), []).append(file)
    return any(_is_half_dead(files) for files in partitions.values())


def _is_half_dead(files: list[Any]) -> bool:
    marked = [file for file in files if file.deletionVector()]
    dead = sum(file.deletionVector().cardinality() for file in marked)
    live = rows_in(files) if marked else None
    return live is not None and dead > maintenance.MOST_DEAD_ROWS * live


def _has_small_files(table: DeltaTable) -> bool:
    if file_count(table) <= maintenance.MOST_SMALL_FILES:
        return False
    session: SparkSession = table.spark
    files = DataFrame(table.snapshot().allFiles().toDF(), session)
    small = files.where(F.col("size") < maintenance.SMALL_FILE_BYTES)
    per_partition = small.groupBy(F.to_json("partitionValues")).count()
    return not per_partition.where(F.col("count") > maintenance.MOST_SMALL_FILES).isEmpty()


def compact(house: House, manifest: CompactManifest) -> dict[str, int]:
    """Compact every table of a dataset that needs it; return the number of files before and after."""
    from delta.tables import DeltaTable as Delta

    house.session.conf.set(_BOUNDS + "minFileSize", str(maintenance.SMALL_FILE_BYTES))
    house.session.conf.set(_BOUNDS + "maxFileSize", str(maintenance.COMPACTED_FILE_BYTES))
    counts = {"files_before": 0, "files_after": 0}
    for spec in manifest.tables:
        table = DeltaTable(house.session, house.warehouse, spec.key)
        if not is_crowded(table):
            continue
        house.phase(f"compacting {spec.qualified_name}")
        files = file_count(table)
        house.before(spec.qualified_name, table, files_before=files)
        signed = table.newest_run_commit()
        told = dict(signed.counts) if signed is not None and signed.version == table.version() else {}
        house.sign(carried(signed, run_id=house.run_id, what=maintenance.COMPACT, counts=told))
        if _has_dead_rows(table):
            house.session.sql(f"REORG TABLE {table.sql_name} APPLY (PURGE)")
        if _has_small_files(table):
            Delta.forPath(house.session, table.location).optimize().executeCompaction()
        house.after(spec.qualified_name, table, files_after=file_count(table))
        counts["files_before"] += files
        counts["files_after"] += file_count(table)
    return counts
