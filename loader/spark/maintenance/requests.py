"""Maintenance runs as runner requests, reported with the same events as a load's datasets."""

import logging
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from loader.domain.queries.masking import without_values
from loader.domain.runs.maintenance import ACCEPT, COMPACT, PRUNE, REVERT
from loader.domain.runs.manifest import AcceptManifest, CompactManifest, PruneManifest, RevertManifest
from loader.domain.runs.refusals import Refusal
from loader.spark.maintenance.compaction import compact
from loader.spark.maintenance.pruning import prune
from loader.spark.maintenance.reverting import revert
from loader.spark.maintenance.run_context import House
from loader.spark.maintenance.table_acceptance import accept
from loader.spark.runtime.datasets import Canceled
from loader.spark.runtime.exceptions import accident
from loader.spark.runtime.load import CANCELED, FAILED, SUCCEEDED

log = logging.getLogger(__name__)

MANIFESTS = {REVERT: RevertManifest, PRUNE: PruneManifest, COMPACT: CompactManifest, ACCEPT: AcceptManifest}
_WORK = {REVERT: revert, PRUNE: prune, COMPACT: compact, ACCEPT: accept}

Manifest = RevertManifest | PruneManifest | CompactManifest | AcceptManifest


def govern(
    spark: SparkSession,
    warehouse: str,
    kind: str,
    manifest: Manifest,
    emit: Callable[..., None],
    canceled: threading.Event,
    job_group: str,
) -> dict:
    """Perform one maintenance run; return its ``finished`` event, whose answer has the tables' versions."""
    about = manifest if isinstance(manifest, CompactManifest) else manifest.load
    started = time.monotonic()

    def phase(name: str) -> None:
        if canceled.is_set():
            raise Canceled
        emit("dataset_phase", dataset=about.dataset, phase=name)

    emit("dataset_started", dataset=about.dataset)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "load")
    spark.sparkContext.setJobGroup(job_group, f"{manifest.run_id} {kind} {about.name}")
    house = House.of(spark, warehouse, manifest.run_id, phase)
    counts: dict[str, int] = {}
    error, status = None, SUCCEEDED
    try:
        counts = _WORK[kind](house, manifest)
    except Canceled:
        status = CANCELED
    except Refusal as refusal:
        error, status = refusal, FAILED
    except Exception as failure:  # the worker must hear of it, whatever it is
        if canceled.is_set():
            status = CANCELED
        else:
            log.exception("%s of %s failed", kind, about.name)
            error, status = accident(about.name, failure), FAILED
    leading = next(iter(house.tables.values()), {})
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
    return {"status": status, "answer": {"tables": house.tables}}
