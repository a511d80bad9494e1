"""Compaction of tables.

It takes two Delta statements: OPTIMIZE merges small files but never rewrites a large file, even if most of its
rows are deleted; REORG rewrites the files with deleted rows only.
"""

from loader.contract import run_states
from loader.contract.manifest.maintenance import CompactManifest
from loader.engine.maintenance.context import MaintenanceContext, carried
from loader.engine.tables.fragmentation import (
    SMALL_FILE_BYTES,
    file_count,
    has_many_deleted_rows,
    has_small_files,
    is_crowded,
)
from loader.engine.tables.tables import DeltaTable

COMPACTED_FILE_BYTES = 128 * 1024 * 1024


_BOUNDS = "spark.databricks.delta.optimize."


def compact(context: MaintenanceContext, manifest: CompactManifest) -> dict[str, int]:
    """Compact every table of a dataset that needs it; return the number of files before and after."""
    from delta.tables import DeltaTable as Delta

    context.session.conf.set(_BOUNDS + "minFileSize", str(SMALL_FILE_BYTES))
    context.session.conf.set(_BOUNDS + "maxFileSize", str(COMPACTED_FILE_BYTES))
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
        if has_many_deleted_rows(table):
            context.session.sql(f"REORG TABLE {table.sql_name} APPLY (PURGE)")
        if has_small_files(table):
            Delta.forPath(context.session, table.location).optimize().executeCompaction()
        context.after(spec.qualified_name, table, files_after=file_count(table))
        counts["files_before"] += files
        counts["files_after"] += file_count(table)
    return counts
