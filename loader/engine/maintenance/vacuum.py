"""Vacuum: removal of unused data files and expired log files, of outdated deliveries, and the disk use of tables.

Delta's VACUUM removes the files to which no version within the retention refers. Its logging is off, so it makes no
commit, and the newest commit stays that of a run. In a raw table that keeps all deliveries, those that its retention no
longer keeps are removed before, in one commit; their files go with a later vacuum. Log files expire by the table's
``delta.logRetentionDuration``, but the newest commit of a run stays, because loads read its metadata. The quarantine of
a table is vacuumed with it, and is not counted.
"""

import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.contract.manifest.maintenance import VacuumManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import VACUUM
from loader.engine.maintenance.context import MaintenanceContext, carried
from loader.engine.pyspark_types import jvm_of, row_of
from loader.engine.quality.quarantine import quarantine_table
from loader.engine.sources.kept_deliveries import remove_deliveries, stored_deliveries
from loader.engine.sources.key_lists import KeyList, remove_other_key_lists
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sources.raw_keeping import Keeping

# Maximum number of removed or removable files of a table in a run's record.
MOST_LISTED = 200
_HOUR_MS = 3_600_000
_LOGGING = "spark.databricks.delta.vacuum.logging.enabled"
_LOG = "_delta_log"
DELIVERIES = "deliveries"


@dataclass(frozen=True)
class DiskUse:
    """Files and bytes of a table: of its current version, of former versions, and of its log."""

    current_files: int
    current_bytes: int
    former_files: int
    former_bytes: int
    log_files: int
    log_bytes: int


def vacuum(context: MaintenanceContext, manifest: VacuumManifest) -> dict[str, int]:
    """Vacuum every table of a dataset, or list the removable files; return counts, with the disk use afterwards.

    Raise Refusal RETENTION_TOO_SHORT before anything is removed if a table's own retention is longer.
    """
    context.session.conf.set(_LOGGING, "false")
    tables = [(spec, DeltaTable(context.session, context.warehouse, spec.key)) for spec in manifest.tables]
    tables = [(spec, table) for spec, table in tables if table.exists()]
    for spec, table in tables:
        _refuse_short(spec, table, manifest.retention_hours)
    outcome = "removable" if manifest.dry_run else "removed"
    counts = dict.fromkeys((f"files_{outcome}", f"bytes_{outcome}", *(field.name for field in fields(DiskUse))), 0)
    for spec, table in tables:
        context.phase(f"listing files of {spec.qualified_name}")
        context.before(spec.qualified_name, table)
        deliveries = _retain(context, spec, table, manifest) if spec.kind == "raw" else {}
        files = _removable(table, manifest.retention_hours) + _expired_log(table)
        if not manifest.dry_run:
            context.phase(f"removing files of {spec.qualified_name}")
            _statement(table, manifest.retention_hours)
            if spec.kind == "raw":
                commit = table.newest_run_commit()
                key_list = KeyList.of_note(commit.notes) if commit is not None else None
                remove_other_key_lists(context.session, table, key_list)
            _clean_log(table)
            _clean_quarantine(context, spec, manifest.retention_hours)
        use = disk_use(table)
        removed = {f"files_{outcome}": len(files), f"bytes_{outcome}": sum(size for _, size in files)}
        listed = [{"file": file, "bytes": size} for file, size in sorted(files)[:MOST_LISTED]]
        counts |= {name: deliveries[name] for name in (DELIVERIES, f"{DELIVERIES}_{outcome}") if name in deliveries}
        context.after(spec.qualified_name, table, **removed, **asdict(use), **deliveries, files=listed)
        for name, value in {**removed, **asdict(use)}.items():
            counts[name] += value
    return counts


def _retain(
    context: MaintenanceContext, spec: TableSpec, table: DeltaTable, manifest: VacuumManifest
) -> dict[str, Any]:
    """Remove the deliveries that the retention no longer keeps, or count them; return what is in the table."""
    context.phase(f"listing deliveries of {spec.qualified_name}")
    stored = stored_deliveries(table, spec)
    keeping, now = manifest.keeping or Keeping(), datetime.now(UTC)
    times = [(delivery.run_id, delivery.loaded_at) for delivery in stored]
    outdated = frozenset(keeping.outdated(times, now)) if keeping.has_retention else frozenset()
    if outdated and not manifest.dry_run:
        context.phase(f"removing deliveries of {spec.qualified_name}")
        context.set_metadata(carried(table.newest_run_commit(), run_id=context.run_id, what=VACUUM))
        remove_deliveries(table, spec, outdated)
    rest = stored if manifest.dry_run else [delivery for delivery in stored if delivery.run_id not in outdated]
    outcome = "removable" if manifest.dry_run else "removed"
    return {
        DELIVERIES: len(rest),
        f"{DELIVERIES}_{outcome}": len(outdated),
        f"{DELIVERIES}_listed": [
            {
                "run_id": delivery.run_id,
                "loaded_at": delivery.loaded_at.isoformat(),
                "rows": delivery.rows,
                "bytes": delivery.bytes,
                outcome: delivery.run_id in outdated,
            }
            for delivery in stored[-MOST_LISTED:]
        ],
    }


def disk_use(table: DeltaTable) -> DiskUse:
    """Return the disk use of a table, from its folder and its newest snapshot."""
    snapshot = table.snapshot()
    files = DataFrame(snapshot.allFiles().toDF(), table.spark)
    # Deletion vectors may share a file, so their files are counted once and their bytes each.
    stored = F.col("deletionVector.storageType").isin("u", "p")
    current = row_of(
        files.agg(
            F.count("*").alias("files"),
            F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
            F.countDistinct(F.when(stored, F.col("deletionVector.pathOrInlineDv"))).alias("vectors"),
            F.coalesce(F.sum(F.when(stored, F.col("deletionVector.sizeInBytes"))), F.lit(0)).alias("vector_bytes"),
        ).first()
    )
    current_files, current_bytes = current.files + current.vectors, current.bytes + current.vector_bytes
    all_files, all_bytes = _content(table, "")
    log_files, log_bytes = _content(table, f"/{_LOG}")
    return DiskUse(
        current_files=current_files,
        current_bytes=current_bytes,
        former_files=max(0, all_files - log_files - current_files),
        former_bytes=max(0, all_bytes - log_bytes - current_bytes),
        log_files=log_files,
        log_bytes=log_bytes,
    )


def _content(table: DeltaTable, below: str) -> tuple[int, int]:
    """Return number and bytes of the files in the table's folder, or in its subfolder ``below``."""
    path = _path(table, table.location + below)
    summary = _file_system(table, path).getContentSummary(path)
    return summary.getFileCount(), summary.getLength()


def _refuse_short(spec: TableSpec, table: DeltaTable, hours: int) -> None:
    needed = _own_retention(table)
    if hours < needed:
        raise Refusal(
            "RETENTION_TOO_SHORT",
            f"{spec.qualified_name} keeps its former files for {needed} hours (delta.deletedFileRetentionDuration)",
            hint=f"keep {needed} hours or more; reads of earlier states and reverts rest on it",
        )


def _own_retention(table: DeltaTable) -> int:
    """Return the hours for which a table keeps its former files."""
    retention = jvm_of(table.spark).org.apache.spark.sql.delta.DeltaLog.tombstoneRetentionMillis(
        table.snapshot().metadata()
    )
    return -(-retention // _HOUR_MS)


def _clean_quarantine(context: MaintenanceContext, spec: TableSpec, hours: int) -> None:
    """Remove the former files of the table's quarantine, which hold rows that were dropped or replaced."""
    quarantine = quarantine_table(context.session, context.warehouse, spec.key)
    if quarantine.exists():
        _statement(quarantine, max(hours, _own_retention(quarantine)))
        _clean_log(quarantine)


def _statement(table: DeltaTable, hours: int, ending: str = "") -> DataFrame:
    return table.spark.sql(f"VACUUM {table.sql_name} RETAIN {int(hours)} HOURS{ending}")


def _removable(table: DeltaTable, hours: int) -> list[tuple[str, int]]:
    """Return name and size of each data file that a vacuum would remove, without folders."""
    files = []
    for row in _statement(table, hours, " DRY RUN").collect():
        path = _path(table, row.path)
        status = _file_system(table, path).getFileStatus(path)
        if status.isFile():
            files.append((path.getName(), status.getLen()))
    return files


def _expired_log(table: DeltaTable) -> list[tuple[str, int]]:
    """Return name and size of the expired log files.

    The others begin with a checkpoint, so that every version that has not expired can be read, as well as the newest
    commit of a run.
    """
    path = _path(table, f"{table.location}/{_LOG}")
    listed = [
        (version, status.getPath().getName(), status.getLen(), status.getModificationTime())
        for status in _file_system(table, path).listStatus(path)
        if (version := status.getPath().getName().split(".", 1)[0]).isdigit()
    ]
    limit = time.time() * 1000 - table._log.deltaRetentionMillis(table.snapshot().metadata())
    newest = table.newest_run_commit()
    needed = [int(version) for version, name, _, written in listed if name == f"{version}.json" and written >= limit]
    needed.append(newest.version if newest is not None else table.version())
    checkpoints = [int(version) for version, name, *_ in listed if ".checkpoint" in name]
    first = max((version for version in checkpoints if version <= min(needed)), default=0)
    return [
        (f"{_LOG}/{name}", size) for version, name, size, written in listed if int(version) < first and written < limit
    ]


def _clean_log(table: DeltaTable) -> None:
    for name, _ in _expired_log(table):
        path = _path(table, f"{table.location}/{name}")
        _file_system(table, path).delete(path, False)


def _path(table: DeltaTable, text: str) -> Any:
    return jvm_of(table.spark).org.apache.hadoop.fs.Path(text)


def _file_system(table: DeltaTable, path: Any) -> Any:
    return path.getFileSystem(table.spark._jsparkSession.sessionState().newHadoopConf())
