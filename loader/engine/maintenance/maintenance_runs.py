"""Maintenance runs as requests to the runner."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from loader.contract.manifest.copies import CopyManifest
from loader.contract.manifest.maintenance import (
    AcceptManifest,
    CompactManifest,
    PruneManifest,
    QuarantineManifest,
    RevertManifest,
    VacuumManifest,
)
from loader.contract.refusals import Refusal
from loader.contract.run_states import ACCEPT, COMPACT, COPY, PRUNE, QUARANTINE_DECISION, REVERT, VACUUM
from loader.domain.queries.masking import without_values
from loader.engine.copies.copy_runs import copy
from loader.engine.java_errors import accident
from loader.engine.loads.dataset_load import Canceled
from loader.engine.loads.load import CANCELED, FAILED, SUCCEEDED
from loader.engine.maintenance.acceptance import accept
from loader.engine.maintenance.compaction import compact
from loader.engine.maintenance.context import MaintenanceContext
from loader.engine.maintenance.pruning import prune
from loader.engine.maintenance.quarantine_decisions import decide
from loader.engine.maintenance.reverts import revert
from loader.engine.maintenance.vacuum import vacuum

log = logging.getLogger(__name__)

MANIFESTS = {
    REVERT: RevertManifest,
    PRUNE: PruneManifest,
    COMPACT: CompactManifest,
    ACCEPT: AcceptManifest,
    VACUUM: VacuumManifest,
    QUARANTINE_DECISION: QuarantineManifest,
    COPY: CopyManifest,
}
_WORK: dict[str, Callable[[MaintenanceContext, Any], dict[str, int]]] = {
    REVERT: revert,
    PRUNE: prune,
    COMPACT: compact,
    ACCEPT: accept,
    VACUUM: vacuum,
    QUARANTINE_DECISION: decide,
    COPY: copy,
}

Manifest = (
    RevertManifest
    | PruneManifest
    | CompactManifest
    | AcceptManifest
    | VacuumManifest
    | QuarantineManifest
    | CopyManifest
)


def perform_run(
    spark: SparkSession,
    warehouse: str,
    kind: str,
    manifest: Manifest,
    emit: Callable[..., None],
    canceled: threading.Event,
    job_group: str,
) -> dict:
    """Perform one maintenance run; return its ``finished`` event, whose answer has the tables' versions."""
    about = manifest.load if isinstance(manifest, RevertManifest | PruneManifest | AcceptManifest) else manifest
    started = time.monotonic()

    def phase(name: str) -> None:
        if canceled.is_set():
            raise Canceled
        emit("dataset_phase", dataset=about.dataset, phase=name)

    emit("dataset_started", dataset=about.dataset)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "load")
    spark.sparkContext.setJobGroup(job_group, f"{manifest.run_id} {kind} {about.name}")
    context = MaintenanceContext.of(spark, warehouse, manifest.run_id, phase)
    counts: dict[str, int] = {}
    error, status = None, SUCCEEDED
    try:
        counts = _WORK[kind](context, manifest)
    except Canceled:
        status = CANCELED
    except Refusal as refusal:
        error, status = refusal, FAILED
    except Exception as failure:  # any error must reach the worker
        if canceled.is_set():
            status = CANCELED
        else:
            log.exception("%s of %s failed", kind, about.name)
            error, status = accident(about.name, failure), FAILED
    leading = next(iter(context.tables.values()), {})
    emit(
        "dataset_finished",
        dataset=about.dataset,
        status=status,
        counts=counts,
        error=without_values(error, getattr(about, "sensitive", ())).as_json() if error else None,
        version_before=leading.get("version_before"),
        version_after=leading.get("version_after"),
        seconds=round(time.monotonic() - started, 3),
    )
    return {"status": status, "answer": {"tables": context.tables, "copies": context.copies}}
