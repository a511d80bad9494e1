"""Fragmentation of a table: many small files, or many deleted rows, which compaction removes."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.engine.tables.direct_commits import DirectFiles, rows_in
from loader.engine.tables.tables import DeltaTable

# A table is crowded if one of its partitions has more than MOST_SMALL_FILES files smaller than SMALL_FILE_BYTES, or if
# its deleted rows, which every load still reads, exceed MOST_DEAD_ROWS of the live ones. Compaction merges small files
# into files of at most COMPACTED_FILE_BYTES, and drops the deleted rows.
MOST_SMALL_FILES = 24
MOST_DEAD_ROWS = 0.5
SMALL_FILE_BYTES = 32 * 1024 * 1024


def file_count(table: DeltaTable) -> int:
    """Return the number of files of a table."""
    checksum = table.snapshot().checksumOpt()
    return checksum.get().numFiles() if checksum.isDefined() else len(DirectFiles(table.spark, table).all)


def is_crowded(table: DeltaTable) -> bool:
    """Return True if a table needs compaction.

    Usually only its checksum file is read.
    """
    if not table.exists():
        return False
    return has_small_files(table) or has_many_deleted_rows(table)


def has_many_deleted_rows(table: DeltaTable) -> bool:
    partitions: dict[str, list[Any]] = {}
    for file in DirectFiles(table.spark, table).all:
        partitions.setdefault(file.partitionValues().toString(), []).append(file)
    return any(_are_many_rows_deleted(files) for files in partitions.values())


def _are_many_rows_deleted(files: list[Any]) -> bool:
    marked = [file for file in files if file.deletionVector()]
    dead = sum(file.deletionVector().cardinality() for file in marked)
    live = rows_in(files) if marked else None
    return live is not None and dead > MOST_DEAD_ROWS * live


def has_small_files(table: DeltaTable) -> bool:
    if file_count(table) <= MOST_SMALL_FILES:
        return False
    session: SparkSession = table.spark
    files = DataFrame(table.snapshot().allFiles().toDF(), session)
    small = files.where(F.col("size") < SMALL_FILE_BYTES)
    per_partition = small.groupBy(F.to_json("partitionValues")).count()
    return not per_partition.where(F.col("count") > MOST_SMALL_FILES).isEmpty()
