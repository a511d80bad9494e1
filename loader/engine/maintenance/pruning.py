"""Pruning: removal of closed versions that ended before a date; open versions and open tombstones stay.

Only closed files are read. The versions are archived if requested, then removed in one commit that records the date as
the horizon: late rows before it are refused and counted (rule 11), because the versions they would split no longer
exist. In a history with an event log, pruned versions do not return while their events exist, because a fold never
writes unchanged versions. The event log is pruned as well: each key keeps its events from the start of its newest
pruned version on. With that event, the next version still counts as a change, and a late row of a deleted key is
recognised as late. Without a history, only the event log of an upsert is pruned, and rawcore records the horizon.
"""

from dataclasses import dataclass
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, DELETED
from loader.contract.manifest.maintenance import PruneManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import PRUNE
from loader.domain.historization import history as rules
from loader.domain.historization.fold import ABSENT
from loader.domain.historization.sql_arrays import last
from loader.engine.historization.events.event_batches import EventBatch
from loader.engine.historization.events.event_log import LOG, logs
from loader.engine.historization.events.log_guards import forget_unfinished, refuse_changed
from loader.engine.historization.policy_notes import refuse_policy_changed
from loader.engine.historization.targets import Stamp, Target
from loader.engine.historization.versions import KEY
from loader.engine.java_errors import JAVA_ERRORS, first_line
from loader.engine.maintenance.context import MaintenanceContext, carried
from loader.engine.session import forget
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.table_files import PLACE
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import BIGINT, INTEGER, parse

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
