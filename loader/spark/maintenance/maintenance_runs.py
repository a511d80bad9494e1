"""Maintenance runs as runner requests, with pruning and table acceptance."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, DELETED
from loader.domain.historization import history as rules
from loader.domain.historization.fold import ABSENT, last
from loader.domain.manifest.maintenance import (
    AcceptManifest,
    CompactManifest,
    PruneManifest,
    QuarantineManifest,
    RevertManifest,
    VacuumManifest,
)
from loader.domain.queries.masking import without_values
from loader.domain.refusals import Refusal
from loader.domain.run_states import ACCEPT, COMPACT, PRUNE, QUARANTINE_DECISION, REVERT, VACUUM
from loader.spark.historization import rawcore
from loader.spark.historization.events.event_batches import EventBatch
from loader.spark.historization.events.event_log import LOG, forget_unfinished, logs, refuse_changed
from loader.spark.historization.policy_notes import refuse_policy_changed
from loader.spark.historization.targets import Stamp, Target
from loader.spark.historization.versions import KEY
from loader.spark.loads.datasets import Canceled
from loader.spark.loads.load import CANCELED, FAILED, SUCCEEDED
from loader.spark.maintenance.compaction import MaintenanceContext, carried, compact
from loader.spark.maintenance.reverts import revert
from loader.spark.maintenance.vacuum import vacuum
from loader.spark.quality.quarantine import decide
from loader.spark.session import accident, first_line, forget
from loader.spark.sources.files import JAVA_ERRORS
from loader.spark.tables.commits import commit, open_files
from loader.spark.tables.table_files import PLACE
from loader.spark.tables.tables import run_metadata
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import BIGINT, INTEGER, parse

# Pruning: removal of closed versions that ended before a date; open versions and open tombstones stay. Only closed
# files are read. The versions are archived if requested, then removed in one commit that records the date as the
# horizon: late rows before it are refused and counted (rule 11), because the versions they would split no longer
# exist. In a history with an event log, pruned versions do not return while their events exist, because a fold never
# writes unchanged versions. The event log is pruned as well: each key keeps its events from the start of its newest
# pruned version on. With that event, the next version still counts as a change, and a late row of a deleted key is
# recognised as late. Without a history, only the event log of an upsert is pruned, and rawcore records the horizon.


FORGOTTEN = "forgotten"
ARCHIVED_BY = "archived_by_run_id"
_EPOCH = "1970-01-01T00:00:00+00:00"


def prune(context: MaintenanceContext, manifest: PruneManifest) -> dict[str, int]:
    """Prune a history, or finish an interrupted prune; return the counts."""
    return _Prune(context, manifest).perform()


@dataclass
class _Prune:
    context: MaintenanceContext
    manifest: PruneManifest

    @cached_property
    def _target(self) -> Target:
        return Target.of(self.context.session, self.context.warehouse, self.manifest.load)

    @property
    def _horizon(self) -> Column:
        return F.lit(self.manifest.ended_before).cast(self._target.versions.time_type)

    def perform(self) -> dict[str, int]:
        context, target, load = self.context, self._target, self.manifest.load
        leading, event_log = target.leading, target.event_log
        refuse_policy_changed(load, target.last_run)
        context.before(load.leading.qualified_name, leading)
        if event_log is not None and load.event_log is not None:
            context.before(load.event_log.qualified_name, event_log)
            context.set_metadata(carried(target.last_run, run_id=context.run_id, what=PRUNE))
            committed = leading.committed_sequence(leading.key)
            refuse_changed(event_log, load.name)
            forget_unfinished(context.session, event_log, load.event_log, committed, target.last_run)
        done = any(
            (run_commit.run_id, run_commit.what) == (context.run_id, PRUNE) for run_commit in leading.run_commits()
        )
        if target.history is None:
            counts = self._horizon_of_rows(done)
        else:
            counts = target.version_counts() | {"removed": 0} if done else self._history()
        context.after(load.leading.qualified_name, leading)
        if event_log is not None and load.event_log is not None:
            context.phase("pruning the event log")
            counts["forgotten"] = self._event_log()
            context.after(load.event_log.qualified_name, event_log)
        return counts

    def _horizon_of_rows(self, done: bool) -> dict[str, int]:
        """Record the horizon in rawcore, whose rows stay; return the counts."""
        target = self._target
        if not done:
            notes = {FORGOTTEN: self._later(target.last_run.notes.get(FORGOTTEN) if target.last_run else None)}
            self.context.set_metadata(carried(target.last_run, run_id=self.context.run_id, what=PRUNE, notes=notes))
            commit(target.rawcore_files, None)
        return {"rows": target.rawcore_rows()}

    # --- the history ------------------------------------------------------------------------------

    def _history(self) -> dict[str, int]:
        context, target, manifest = self.context, self._target, self.manifest
        assert target.history is not None
        context.phase("reading closed versions")
        counts = target.version_counts()
        segments = (CLOSED,) if target.versions.tombstones else (CLOSED, DELETED)
        files = target.versions.files_of(*segments)
        ended = F.col(target.versions.name("ended_at"))
        rows = target.versions.files.frame(files, placed=True).where(ended < self._horizon)
        removed = rows.count() if files else 0
        if not removed:
            return counts | {"removed": 0}
        if manifest.archive:
            context.phase("archiving")
            self._archive(rows.drop(PLACE), manifest.archive, removed)
        context.phase("writing history")
        counts["versions"] -= removed
        notes = {FORGOTTEN: self._later(target.last_run.notes.get(FORGOTTEN) if target.last_run else None)}
        metadata = carried(target.last_run, run_id=context.run_id, what=PRUNE, counts=counts, notes=notes)
        context.set_metadata(metadata)
        commit(target.versions.files, None, gone=rows.select(PLACE), gone_from=files)
        return counts | {"removed": removed}

    def _later(self, before: str | None) -> str:
        """Return the later of the requested and the recorded horizon, since a horizon is never lowered."""
        requested = self.manifest.ended_before
        if before is None:
            return requested
        load = self.manifest.load
        dated = load.event_log.column("event_at") if load.event_log else load.leading.column("ended_at")
        is_number = parse(dated.type).name in (BIGINT, INTEGER)
        sort_key = int if is_number else rules.parse_instant
        return max(requested, before, key=sort_key)

    def _archive(self, rows: DataFrame, place: str, expected: int) -> None:
        """Write the versions to the archive, a Delta table; replace rows that this run has already written."""
        run_id = self.context.run_id
        own = f"{quote_identifier(ARCHIVED_BY)} = {quote_text(run_id)}"
        reader = self.context.session.read.format("delta")
        try:
            (
                rows.withColumn(ARCHIVED_BY, F.lit(run_id))
                .write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", own)
                .option("mergeSchema", "true")
                .option("delta.columnMapping.mode", "name")
                .save(place)
            )
            written = reader.load(place).where(own).count()
        except JAVA_ERRORS as error:
            raise Refusal(
                "NOT_ARCHIVED",
                f"{self.manifest.load.name}: the archive {place} cannot be written: {first_line(error)}",
                hint="choose a folder that is empty or holds an archive of this history; nothing was pruned",
            ) from error
        if written != expected:
            raise Refusal("NOT_ARCHIVED", f"{place} holds {written} of {expected} versions; nothing was pruned")
        self.context.tables["archive"] = {"location": place, "rows": written}

    # --- the event log ----------------------------------------------------------------------------

    def _event_log(self) -> int:
        """Remove the events that produced only pruned versions, as computed from the event log; return their number."""
        target, load = self._target, self.manifest.load
        assert target.event_log is not None
        assert load.event_log is not None
        spec = load.event_log
        purposes = ("entity_key", "event_at", "event_own", "event_kind", "sequence")
        identity = tuple(spec.column(purpose).name for purpose in purposes)
        files = open_files(self.context.session, target.event_log, identity)
        if not files.all:
            return 0
        events = files.frame(files.all, placed=True)
        key, at, sequence = (
            quote_identifier(spec.column(purpose).name) for purpose in ("entity_key", "event_at", "sequence")
        )
        bounds = self._bounds(files.frame(files.all))
        joined = events.join(bounds, F.col(key) == F.col("__bound"), "inner")
        # Events that an absence made void stay void when the absence is pruned.
        removed = joined.where((F.col(at) < F.col("__from")) | (F.col(sequence) < F.col("__void")))
        places = removed.select(PLACE).localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        try:
            count = places.count()
            if count:
                last_run = target.leading.newest_run_commit()
                self.context.set_metadata(carried(last_run, run_id=self.context.run_id, what=PRUNE))
                commit(files, None, gone=places, gone_from=files.all)
        finally:
            forget(places)
        return count

    def _bounds(self, events: DataFrame) -> DataFrame:
        """Return for each key the time from which events stay, and the run sequence of its newest removed absence.

        That absence made events of earlier runs void; they must be removed with it.
        """
        target, load = self._target, self.manifest.load
        assert target.event_log is not None
        assert load.event_log is not None
        stamp = Stamp(self.context.run_id, _EPOCH, _EPOCH)
        noted = target.last_run.notes if target.last_run else {}
        fold = EventBatch(self.context.session, load, target.versions, target.event_log, stamp, noted).fold
        per_key = logs(events, load.event_log, fold).select(KEY, LOG)
        horizon = f"CAST({quote_text(self.manifest.ended_before)} AS {fold.time_type})"
        pruned = f"filter({fold.versions(LOG, 'fp')}, p -> p.until IS NOT NULL AND p.until < {horizon})"
        bounds = per_key.withColumn("__pruned", F.expr(pruned)).where("size(__pruned) > 0")
        bounds = bounds.withColumn("__from", F.expr(f"{last('__pruned')}.start"))
        absences = f"filter({LOG}, e -> e.kind = '{ABSENT}' AND e.at < __from)"
        return bounds.select(
            F.col(KEY).alias("__bound"),
            "__from",
            F.expr(f"coalesce(array_max(transform({absences}, e -> e.seq)), -1L)").alias("__void"),
        )


# Acceptance of a restored or recreated table: a commit after which loads continue.


# Results for the accepted table: the sequence of the newest run in it (-1 for none), and that of this run.
HELD, SEQUENCE = "held", "sequence"


def accept(context: MaintenanceContext, manifest: AcceptManifest) -> dict[str, int]:
    """Commit this run to the leading table and update the other tables; return the counts.

    Events of missing runs are removed from the event log, so that they can be loaded again. The sequence of this run
    is greater than every sequence in the table, even if the control database is older than the table. Raise Refusal
    NO_TABLE, or EVENT_LOG_CHANGED if the event log lacks events of runs that the table has.
    """
    load = manifest.load
    target = Target.of(context.session, context.warehouse, load)
    table, last_run = target.leading, target.last_run
    if not table.exists():
        raise Refusal(
            "NO_TABLE",
            f"{load.name}: there is no table to accept",
            hint="Make a report of the dataset, execute it, and accept the new table.",
        )
    done = last_run is not None and (last_run.run_id, last_run.what) == (context.run_id, ACCEPT)
    newest_sequence = int(last_run.notes[HELD]) if last_run and done else last_run.sequence if last_run else -1
    committed = table.committed_sequence(load.leading.key)
    sequence = last_run.sequence if last_run and done else max(load.sequence, committed + 1)
    context.before(load.leading.qualified_name, table, **{HELD: newest_sequence, SEQUENCE: sequence})
    counts = target.version_counts() if target.history else {"rows": target.rawcore_rows()}
    notes = (last_run.notes if last_run else {}) | {HELD: str(newest_sequence)}
    metadata = run_metadata(
        run_id=context.run_id,
        at=last_run.at if last_run else "",
        sequence=sequence,
        counts=counts,
        notes=notes,
        what=ACCEPT,
    )
    context.set_metadata(metadata)
    if not done:
        if target.event_log is not None and load.event_log is not None:
            context.phase("removing events of missing runs")
            changed = refuse_changed(target.event_log, load.name, newest_run=newest_sequence)
            forget_unfinished(context.session, target.event_log, load.event_log, newest_sequence, last_run)
            if changed:
                commit(open_files(context.session, target.event_log), load.event_log.key, sequence)
        context.phase("accepting the table")
        commit(open_files(context.session, table), load.leading.key, sequence)
    if target.history:
        context.phase("writing rawcore")
        rawcore.rebuild(Target.of(context.session, context.warehouse, replace(load, sequence=sequence)))
    context.after(load.leading.qualified_name, table)
    return counts


log = logging.getLogger(__name__)

MANIFESTS = {
    REVERT: RevertManifest,
    PRUNE: PruneManifest,
    COMPACT: CompactManifest,
    ACCEPT: AcceptManifest,
    VACUUM: VacuumManifest,
    QUARANTINE_DECISION: QuarantineManifest,
}
_WORK: dict[str, Callable[[MaintenanceContext, Any], dict[str, int]]] = {
    REVERT: revert,
    PRUNE: prune,
    COMPACT: compact,
    ACCEPT: accept,
    VACUUM: vacuum,
    QUARANTINE_DECISION: decide,
}

Manifest = RevertManifest | PruneManifest | CompactManifest | AcceptManifest | VacuumManifest | QuarantineManifest


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
    return {"status": status, "answer": {"tables": context.tables}}
