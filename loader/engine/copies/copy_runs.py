"""Copies of a dataset: all targets one after another, each with a result of its own."""

import logging
import time

from loader.contract.manifest.copies import CopyManifest, CopyTarget
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import without_values
from loader.engine.copies import postgres
from loader.engine.copies.copied_rows import CopiedRows
from loader.engine.copies.delta_folders import DeltaCopy
from loader.engine.copies.duckdb_files import DuckDbCopy
from loader.engine.copies.results import COPIED, FAILED, UNCHANGED, CopyResult
from loader.engine.java_errors import accident
from loader.engine.loads.dataset_load import Canceled
from loader.engine.maintenance.context import MaintenanceContext
from loader.engine.tables.tables import DeltaTable
from metadata.domain.copies import DUCKDB, JDBC

log = logging.getLogger(__name__)


def copy(context: MaintenanceContext, manifest: CopyManifest) -> dict[str, int]:
    """Make the copies of a dataset, or compare them; return the number of rows that were copied.

    Raise the Refusal of the first copy that failed, after all were tried. Findings of a comparison are no failure.
    """
    table = DeltaTable(context.session, context.warehouse, manifest.dataset)
    rows = CopiedRows(context.session, table, manifest.name, manifest.secret)
    failed: list[Refusal] = []
    copied = 0
    for target in manifest.targets:
        started = time.monotonic()
        try:
            result = _perform(context, manifest, target, rows)
        except Canceled:
            raise
        except Refusal as refusal:
            failed.append(without_values(refusal, manifest.sensitive))
            result = CopyResult.failed(failed[-1])
        except Exception as failure:  # the other copies are made nevertheless
            log.exception("the copy of %s to %s failed", manifest.name, target.system)
            problem = accident(f"{target.table} in {target.system}", failure)
            failed.append(without_values(problem, manifest.sensitive))
            result = CopyResult.failed(failed[-1])
        result.seconds = round(time.monotonic() - started, 3)
        copied += (result.row_count or 0) if result.status == COPIED else 0
        context.copies[target.key] = result.as_json()
    if failed:
        raise failed[0]
    return {"rows": copied}


def _perform(context: MaintenanceContext, manifest: CopyManifest, target: CopyTarget, rows: CopiedRows) -> CopyResult:
    context.phase(f"comparing with {target.system}")
    if target.kind == JDBC:
        with postgres.opened(context.session, target, rows, context.phase) as made:
            return _make(manifest, made, rows)
    made_beside = (DuckDbCopy if target.kind == DUCKDB else DeltaCopy)(context.session, target, rows, context.phase)
    return _make(manifest, made_beside, rows)


def _make(
    manifest: CopyManifest, copy_of: postgres.PostgresCopy | DuckDbCopy | DeltaCopy, rows: CopiedRows
) -> CopyResult:
    if not manifest.check:
        return copy_of.make(verify=manifest.verify, run_id=manifest.run_id)
    finding = copy_of.check()
    return CopyResult(FAILED if finding else UNCHANGED, rows.version, error=finding.as_json() if finding else None)
