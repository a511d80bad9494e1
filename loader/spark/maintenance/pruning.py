"""Pruning: removal of closed versions that ended before a date; open versions and open tombstones stay.

Only closed files are read. The versions are archived if requested, then removed in one commit that notes the
horizon: a late row before it is refused and counted (rule 11), because the version it would split is gone.

If the history is folded from an event log, a fold never writes unchanged versions, so pruned versions do not
return while their events exist. The event log is pruned as well: each key keeps its events from the start of
its newest pruned version on. That extra event is needed so that the next version still counts as a change,
and a late row of a deleted key is recognised as late.
"""

from dataclasses import dataclass
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.states.tables import CLOSED, DELETED
from loader.domain.fold.events import ABSENT
from loader.domain.fold.sql import last
from loader.domain.historization import history as rules
from loader.domain.runs.maintenance import PRUNE
from loader.domain.runs.manifest import PruneManifest
from loader.domain.runs.refusals import Refusal
from loader.spark.historization.event_log import forget_unfinished
from loader.spark.historization.event_logs import LOG, logs
from loader.spark.historization.events import EventBatch
from loader.spark.historization.history import Stamp
from loader.spark.historization.recorded_policy import refuse_policy_changed
from loader.spark.historization.target import Target
from loader.spark.historization.versions import KEY
from loader.spark.maintenance.run_context import House, carried
from loader.spark.runtime.exceptions import first_line
from loader.spark.sources.files import JAVA_ERRORS
from loader.spark.tables.commits import PLACE, TableFiles, commit
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import BIGINT, INTEGER, parse

FORGOTTEN = "forgotten"
ARCHIVED_BY = "archived_by_run_id"
_EPOCH = "1970-01-01T00:00:00+00:00"


def prune(house: House, manifest: PruneManifest) -> dict[str, int]:
    """Prune a history, or finish an interrupted prune; return the counts."""
    return _Prune(house, manifest).perform()


@dataclass
class _Prune:
    house: House
    manifest: PruneManifest

    @cached_property
    def _target(self) -> Target:
        return Target.of(self.house.session, self.house.warehouse, self.manifest.load)

    @property
    def _horizon(self) -> Column:
        return F.lit(self.manifest.ended_before).cast(self._target.versions.time_type)

    def perform(self) -> dict[str, int]:
        house, target, load = self.house, self._target, self.manifest.load
        history, memory = target.history, target.memory
        assert history is not None
        assert load.history is not None
        refuse_policy_changed(load, target.signed)
        house.before(load.history.qualified_name, history)
        if memory is not None and load.memory is not None:
            house.before(load.memory.qualified_name, memory)
            house.sign(carried(target.signed, run_id=house.run_id, what=PRUNE))
            committed = history.committed_sequence(history.key)
            forget_unfinished(house.session, memory, load.memory, committed, target.signed)
        done = any((one.run_id, one.what) == (house.run_id, PRUNE) for one in history.run_commits())
        counts = target.segments() | {"removed": 0} if done else self._history()
        house.after(load.history.qualified_name, history)
        if memory is not None and load.memory is not None:
            house.phase("bringing the memory down")
            counts["forgotten"] = self._memory()
            house.after(load.memory.qualified_name, memory)
        return counts

    # --- the history ------------------------------------------------------------------------------

    def _history(self) -> dict[str, int]:
        house, target, manifest = self.house, self._target, self.manifest
        assert target.history is not None
        house.phase("looking at closed versions")
        counts = target.segments()
        segments = (CLOSED,) if target.versions.tombstones else (CLOSED, DELETED)
        files = target.versions.files_of(*segments)
        ended = F.col(target.versions.name("ended_at"))
        rows = target.versions.files.frame(files, placed=True).where(ended < self._horizon)
        removed = rows.count() if files else 0
        if not removed:
            return counts | {"removed": 0}
        if manifest.archive:
            house.phase("archiving")
            self._archive(rows.drop(PLACE), manifest.archive, removed)
        house.phase("writing history")
        counts["versions"] -= removed
        notes = {FORGOTTEN: self._later(target.signed.notes.get(FORGOTTEN) if target.signed else None)}
        signature = carried(target.signed, run_id=house.run_id, what=PRUNE, counts=counts, notes=notes)
        house.sign(signature)
        commit(target.versions.files, None, gone=rows.select(PLACE), gone_from=files)
        return counts | {"removed": removed}

    def _later(self, before: str | None) -> str:
        """Return the later of the requested and the recorded horizon, since a horizon is never lowered."""
        asked = self.manifest.ended_before
        if before is None:
            return asked
        is_number = parse(self._target.versions.spec.column("ended_at").type).name in (BIGINT, INTEGER)
        place = int if is_number else rules.parse_instant
        return max(asked, before, key=place)

    def _archive(self, rows: DataFrame, place: str, expected: int) -> None:
        """Write the versions to a Delta table with the archives of all runs, replacing this run's rows."""
        run_id = self.house.run_id
        own = f"{quote_identifier(ARCHIVED_BY)} = {quote_text(run_id)}"
        reader = self.house.session.read.format("delta")
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
        self.house.tables["archive"] = {"location": place, "rows": written}

    # --- the memory -------------------------------------------------------------------------------

    def _memory(self) -> int:
        """Remove the events that produced only pruned versions; the event log alone determines them."""
        target, load = self._target, self.manifest.load
        assert target.memory is not None
        assert load.memory is not None
        files = TableFiles(self.house.session, target.memory)
        if not files.all:
            return 0
        spec, held = load.memory, files.frame(files.all, placed=True)
        key, at, sequence = (
            quote_identifier(spec.column(purpose).name) for purpose in ("entity_key", "event_at", "sequence")
        )
        bounds = self._bounds(files.frame(files.all))
        joined = held.join(bounds, F.col(key) == F.col("__bound"), "inner")
        # What an absence made void stays void when the absence goes.
        gone = joined.where((F.col(at) < F.col("__from")) | (F.col(sequence) < F.col("__void")))
        places = gone.select(PLACE).localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        try:
            count = places.count()
            if count:
                signed = target.history.newest_run_commit() if target.history else None
                self.house.sign(carried(signed, run_id=self.house.run_id, what=PRUNE))
                commit(files, None, gone=places, gone_from=files.all)
        finally:
            places._jdf.queryExecution().logical().rdd().unpersist(False)
        return count

    def _bounds(self, events: DataFrame) -> DataFrame:
        """Return for each key the time from which events stay, and the number of its newest dropped absence.

        Events of lower run numbers were void because of that absence, and must be removed with it.
        """
        target, load = self._target, self.manifest.load
        assert target.memory is not None
        stamp = Stamp(self.house.run_id, _EPOCH, _EPOCH)
        noted = target.signed.notes if target.signed else {}
        fold = EventBatch(self.house.session, load, target.versions, target.memory, stamp, noted).fold
        per_key = logs(events, load.memory, fold).select(KEY, LOG)
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
