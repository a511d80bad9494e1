"""Compaction of tables, and the context that maintenance runs share.

Compaction takes two Delta statements: OPTIMIZE merges small files but never rewrites a large file, even if most of its
rows are deleted; REORG rewrites the files with deleted rows only.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain import compaction, run_states
from loader.domain.manifest.maintenance import CompactManifest
from loader.spark.session import USER_METADATA, dataset_session
from loader.spark.tables.direct_commits import DirectFiles, rows_in
from loader.spark.tables.tables import DeltaTable, RunCommit, run_metadata

# Shared context of a maintenance run: Spark session, progress callback, commit metadata.


@dataclass
class MaintenanceContext:
    """Context of one maintenance run; ``tables`` collects the Delta versions of its tables by name."""

    session: SparkSession
    warehouse: str
    run_id: str
    phase: Callable[[str], None]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, spark: SparkSession, warehouse: str, run_id: str, phase: Callable[[str], None]) -> "MaintenanceContext":
        return cls(dataset_session(spark, user_metadata=""), warehouse, run_id, phase)

    def set_metadata(self, metadata: str) -> None:
        """Set the commit metadata of the following commits."""
        self.session.conf.set(USER_METADATA, metadata)

    def before(self, name: str, table: DeltaTable, **more: Any) -> None:
        self.tables[name] = {"version_before": table.version(), **more}

    def after(self, name: str, table: DeltaTable, **more: Any) -> None:
        self.tables[name] |= {"version_after": table.version(), **more}


def carried(
    last_run: RunCommit | None,
    *,
    run_id: str,
    what: str,
    counts: dict[str, int] | None = None,
    notes: dict[str, str] | None = None,
) -> str:
    """Return commit metadata with the time, sequence and notes of the newest run."""
    return run_metadata(
        run_id=run_id,
        at=last_run.at if last_run else "",
        sequence=last_run.sequence if last_run else 0,
        counts=counts or {},
        notes=(last_run.notes if last_run else {}) | (notes or {}),
        what=what,
    )


def file_count(table: DeltaTable) -> int:
    """Return the number of files of a table."""
    checksum = table.snapshot().checksumOpt()
    return checksum.get().numFiles() if checksum.isDefined() else len(DirectFiles(table.spark, table).all)


_BOUNDS = "spark.databricks.delta.optimize."


def is_crowded(table: DeltaTable) -> bool:
    """Return True if a table needs compaction (``loader.domain.compaction``).

    Usually only its checksum file is read.
    """
    if not table.exists():
        return False
    return _has_small_files(table) or _has_many_deleted_rows(table)


def _has_many_deleted_rows(table: DeltaTable) -> bool:
    partitions: dict[str, list[Any]] = {}
    for file in DirectFiles(table.spark, table).all:
        partitions.setdefault(file.partitionValues().toString(), []).append(file)
    return any(_are_many_rows_deleted(files) for files in partitions.values())


def _are_many_rows_deleted(files: list[Any]) -> bool:
    marked = [file for file in files if file.deletionVector()]
    dead = sum(file.deletionVector().cardinality() for file in marked)
    live = rows_in(files) if marked else None
    return live is not None and dead > compaction.MOST_DEAD_ROWS * live


def _has_small_files(table: DeltaTable) -> bool:
    if file_count(table) <= compaction.MOST_SMALL_FILES:
        return False
    session: SparkSession = table.spark
    files = DataFrame(table.snapshot().allFiles().toDF(), session)
    small = files.where(F.col("size") < compaction.SMALL_FILE_BYTES)
    per_partition = small.groupBy(F.to_json("partitionValues")).count()
    return not per_partition.where(F.col("count") > compaction.MOST_SMALL_FILES).isEmpty()


def compact(context: MaintenanceContext, manifest: CompactManifest) -> dict[str, int]:
    """Compact every table of a dataset that needs it; return the number of files before and after."""
    from delta.tables import DeltaTable as Delta

    context.session.conf.set(_BOUNDS + "minFileSize", str(compaction.SMALL_FILE_BYTES))
    context.session.conf.set(_BOUNDS + "maxFileSize", str(compaction.COMPACTED_FILE_BYTES))
    counts = {"files_before": 0, "files_after": 0}
    for spec in manifest.tables:
        table = DeltaTable(context.session, context.warehouse, spec.key)
        if not is_crowded(table):
            continue
        context.phase(f"compacting {spec.qualified_name}")
        files = file_count(table)
        context.before(spec.qualified_name, table, files_before=files)
        last_run = table.newest_run_commit()
        run_counts = dict(last_run.counts) if last_run is not None and last_run.version == table.version() else {}
        context.set_metadata(carried(last_run, run_id=context.run_id, what=run_states.COMPACT, counts=run_counts))
        if _has_many_deleted_rows(table):
            context.session.sql(f"REORG TABLE {table.sql_name} APPLY (PURGE)")
        if _has_small_files(table):
            Delta.forPath(context.session, table.location).optimize().executeCompaction()
        context.after(spec.qualified_name, table, files_after=file_count(table))
        counts["files_before"] += files
        counts["files_after"] += file_count(table)
    return counts
