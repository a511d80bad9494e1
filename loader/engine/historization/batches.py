"""Batches of a load: one interface, and one class for each kind of input.

* ``SnapshotBatch``: rows dated by the load, compared once with the open versions.
* ``DatedBatch``: rows with a time of their own, folded key by key (``loader.engine.historization.events``).
* ``AppendBatch``: rows that are added to those of the runs before.
* ``FilesBatch``: the four files of a history batch (``loader.engine.historization.history_batches.file_batches``).
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import DELETED, OPEN
from loader.contract.manifest.loads import RawcoreLoad
from loader.domain.historization import history as rules
from loader.domain.historization.hash_coverage import HASHED, only_compared_otherwise
from loader.domain.historization.history import eras_note, form_note
from loader.domain.historization.load_guards import DeleteGuard
from loader.engine.expressions import any_of
from loader.engine.historization import history, rawcore
from loader.engine.historization.detection import Detection
from loader.engine.historization.difference import IS_TOMBSTONE, KNOWN_HASH, UPDATED, Comparison, Difference, compare
from loader.engine.historization.events.event_batches import EventBatch
from loader.engine.historization.events.log_guards import forget_unfinished, refuse_changed, refuse_missing
from loader.engine.historization.parents import NULLED, UnknownParents
from loader.engine.historization.policy_notes import (
    column_keys,
    columns_hashed,
    kept_hashes,
    policy_notes,
    refuse_policy_changed,
)
from loader.engine.historization.stage import IS_DELETE, one_row_per_key, with_hashes
from loader.engine.historization.targets import Stamp, Target
from loader.engine.row_limits import ONE_TASK_UP_TO_ROWS, REWRITE_UP_TO_ROWS
from loader.engine.session import forget, persisted
from metadata.domain.history.history_policy import APPEND, IGNORE, LOAD_TIME, HistoryPolicy
from metadata.domain.sql import quote_identifier


class PreparedBatch(Protocol):
    """Checked batch and the tables that it is written to. ``loader.models.DatasetRun`` describes ``counts``."""

    @property
    def load(self) -> RawcoreLoad: ...

    @property
    def counts(self) -> dict[str, int]: ...

    @property
    def after(self) -> dict[str, int]: ...

    @property
    def notes(self) -> dict[str, str]: ...

    @property
    def warnings(self) -> Sequence[str]: ...

    def write_history(self) -> None: ...

    def write_rawcore(self) -> None: ...

    def release(self) -> None: ...


class Batch(PreparedBatch, Protocol):
    """Batch of the rows of stage."""

    def prepare(self, stage: DataFrame, *, guard: DeleteGuard, expected: int | None = None) -> None:
        """Check the batch and compute its changes without writing; raise Refusal if the batch is invalid.

        ``expected`` is the maximum number of stage rows, None if unknown.
        """


def find_batch(
    session: SparkSession,
    load: RawcoreLoad,
    target: Target,
    stamp: Stamp,
    committed: int,
    detection: Detection | None = None,
) -> Batch:
    """Return the batch object for the dataset's history policy.

    ``committed`` is the sequence of the newest run in the history, ``detection`` the evidence of deleted keys.
    """
    refuse_policy_changed(load, target.last_run)
    if load.event_log is not None:
        return DatedBatch(session, load, target, stamp, committed)
    if HistoryPolicy.from_dict(load.policy).input == APPEND:
        return AppendBatch(load, target, stamp)
    return SnapshotBatch(session, load, target, stamp, detection)


def dated_by_run(policy: HistoryPolicy) -> bool:
    """Return True if a run must be later than the newest applied one (rule 3); the order of appends has no effect."""
    return (policy.time == LOAD_TIME and policy.input != APPEND) or policy.closes_absent


class SnapshotBatch:
    """Snapshot or delta whose rows are dated by the load."""

    def __init__(
        self,
        session: SparkSession,
        load: RawcoreLoad,
        target: Target,
        stamp: Stamp,
        detection: Detection | None = None,
    ):
        self.session, self.load, self.target, self.stamp, self.detection = session, load, target, stamp, detection
        self._detected: DataFrame | None = None
        self._detected_count = 0
        self.parents = UnknownParents(target, stamp)
        self.policy = HistoryPolicy.from_dict(load.policy)
        self._skipped_deletes = 0
        self.counts: dict[str, int] = {}
        self.after: dict[str, int] = {}

    @property
    def notes(self) -> dict[str, str]:
        """Return the notes of the commit.

        They are the columns that row hashes cover (rule 16), the prune horizon, the history policy, and the foreign
        keys that are NULL for unknown parents.
        """
        nulled = " ".join(self.parents.nulled)
        return snapshot_notes(self.load, self.target) | ({NULLED: nulled} if nulled else {})

    @property
    def warnings(self) -> Sequence[str]:
        return self.parents.warnings

    def prepare(self, stage: DataFrame, *, guard: DeleteGuard, expected: int | None = None) -> None:
        hashed = with_hashes(self.parents.with_ghosts(stage), self.load)
        stage = self.target.former_keys.kept_in(hashed, self.load)
        if self.detection is not None:
            self._detected = self.detection.keys(self.target, stage, self.parents)
            self._detected = self._detected.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK)
            self._detected_count = self._detected.count()
        stage = self.parents.resolved(stage, self._detected)
        self.take(stage, guard=guard, expected=None if expected is None else expected + self.parents.added)

    def take(self, stage: DataFrame, *, guard: DeleteGuard, expected: int | None = None) -> None:
        """Prepare the batch from rows that already have their hashes."""
        before = self.target.version_counts() if self.target.history else {}
        stored = before["open"] if self.target.history else self.target.rawcore_rows()
        self._size = max(stored, expected if expected is not None else REWRITE_UP_TO_ROWS)
        self._difference, rows, duplicates = self._compare(stage)
        difference = self._difference
        delivered = rows - self.parents.added
        if self._absent_is_deleted:
            would_close = difference[rules.DELETED] + self.parents.emptied(difference)
            guard.check(name=self.load.name, rows=delivered, would_close=would_close, open_keys=stored)
        if self.detection is not None:
            size = delivered if self.detection.rows is None else self.detection.rows
            closing = {"rows": size, "would_close": self._detected_count, "open_keys": stored}
            guard.check(name=self.load.name, what=self.detection.what, **closing)
        flagged = difference[rules.DELETED] - self._detected_count if self.policy.delete_flag is not None else 0
        reappeared = difference[rules.REAPPEARED]
        if self.target.history:
            reappeared += history.count_reappeared(difference, self.target.versions)
        self.counts = {
            "rows": delivered,
            "duplicates": duplicates,
            "new": difference[rules.NEW] + difference[rules.REAPPEARED] - reappeared,
            "reappeared": reappeared,
            "changed": difference[rules.CHANGED] + difference[UPDATED],
            "deleted": difference[rules.DELETED],
            "unchanged": rows - difference.opens - difference[UPDATED] - flagged - self._skipped_deletes,
        }
        if self._skipped_deletes:
            self.counts["skipped_deletes"] = self._skipped_deletes
        if not self._absent_is_deleted:
            known = difference[rules.UNCHANGED] + self.counts["changed"] + flagged
            self.counts["missing"] = stored - known - self._detected_count + self.parents.stale
        if self.detection is not None:
            self.counts["absent"] = self._detected_count
        self.counts |= self.parents.counts
        if self.target.history:
            tombstones = difference[rules.DELETED] if self.target.versions.tombstones else 0
            opened = difference[rules.NEW] + difference[rules.REAPPEARED] - difference[rules.DELETED]
            self.after = {
                "versions": before["versions"] + difference.opens + tombstones,
                "open": before["open"] + opened,
            }

    @property
    def _absent_is_deleted(self) -> bool:
        return self.policy.closes_absent

    def _compare(self, stage: DataFrame) -> tuple[Difference, int, int]:
        """Return the difference, the number of stage rows without duplicates, and the number of duplicates."""
        small = self._size <= REWRITE_UP_TO_ROWS
        known, refreshed = self._stored_rows(placed=not small)
        comparison = Comparison(
            whole=small or refreshed,
            one_task=self._size <= ONE_TASK_UP_TO_ROWS,
            absent_is_deleted=self._absent_is_deleted,
            untracked=self._untracked_columns(stage),
            refreshed=refreshed,
        )
        if self.load.delivery_checked and self.policy.delete_flag is None:
            return self._compared(stage, known, comparison, 0)
        if comparison.one_task:
            stage = stage.coalesce(1)
        stage = persisted(stage, StorageLevel.MEMORY_AND_DISK)
        try:
            checked, duplicates = stage, 0
            if not self.load.delivery_checked:
                checked, _, duplicates = one_row_per_key(stage, self.load)
            return self._compared(checked, known, comparison, duplicates)
        finally:
            stage.unpersist()

    def _compared(
        self, stage: DataFrame, known: DataFrame | None, comparison: Comparison, duplicates: int
    ) -> tuple[Difference, int, int]:
        deleted, flagged = self._detected, 0
        if self.policy.delete_flag is not None:
            flags = stage.where(IS_DELETE).select(quote_identifier(self.load.leading.column("entity_key").name))
            stage, flagged = stage.where(f"NOT {IS_DELETE}").drop(IS_DELETE), flags.count()
            if self.policy.deletes == IGNORE:
                self._skipped_deletes = flagged
            else:
                deleted = flags if deleted is None else flags.unionByName(deleted)
        difference = compare(stage, known, self.load.leading, comparison, deleted)
        rows = difference[rules.UNCHANGED] + difference.opens + difference[UPDATED] + flagged
        return difference, rows, duplicates

    def _untracked_columns(self, stage: DataFrame) -> tuple[str, ...]:
        if self.policy.track is None or self.policy.untracked == "keep":
            return self.parents.in_place
        names = [column.name for column in self.load.leading.of_purpose("attribute")]
        settled = (*self.policy.uncompared, *self.policy.track)
        untracked = tuple(name for name in names if name in stage.columns and name not in settled)
        return (*untracked, *self.parents.in_place)

    # --- rule 16: columns that stored hashes cover -----------------------------------------------

    @cached_property
    def _hashed(self) -> str:
        return columns_hashed(self.load)

    def _stored_rows(self, *, placed: bool) -> tuple[DataFrame | None, bool]:
        """Return the stored rows to compare stage with (None if there are none).

        The second value is True if their row hashes were recomputed.
        """
        table = self.target.versions
        if self.target.history is None:
            return self._stored_current_rows(placed=placed)
        segments = (OPEN, DELETED) if table.tombstones else (OPEN,)
        if not table.files_of(*segments):
            return None, False
        frame = table.frame(*segments, placed=placed)
        refreshed = self._covers_other_columns(frame)
        if refreshed:
            frame = frame.withColumn(KNOWN_HASH, table.hashed(self.load.row_hash, frame))
        if table.tombstones:
            frame = frame.withColumn(IS_TOMBSTONE, F.col(table.name("segment")) == DELETED)
        return frame, refreshed

    def _stored_current_rows(self, *, placed: bool) -> tuple[DataFrame | None, bool]:
        """Return the rows of rawcore without a history, their row hashes recomputed if they are of v1."""
        files, last_run = self.target.rawcore_files, self.target.last_run
        if not files.all:
            return None, False
        frame = files.frame(files.all, placed=placed)
        if last_run is None or not only_compared_otherwise(last_run.notes, self._hashed):
            return frame, False
        return frame.withColumn(KNOWN_HASH, self.target.versions.hashed(self.load.row_hash, frame)), True

    def _covers_other_columns(self, stored: DataFrame) -> bool:
        """Return True if the stored row hashes cover other columns than those of this batch.

        NULL contributes nothing to a hash, so an added column matters only if stored rows have values in it.
        """
        last_run = self.target.last_run
        if last_run is None or not self._hashed or last_run.notes.get(HASHED) == self._hashed:
            return False
        before, now = set(last_run.notes.get(HASHED, "").split()), set(self._hashed.split())
        if before <= now:
            names = [part.column for part in self.load.row_hash if not any(p.startswith(part.key) for p in before)]
            has_values = any_of(F.col(quote_identifier(name)).isNotNull() for name in names)
            return not stored.where(has_values).isEmpty()
        return True

    # --- writing ----------------------------------------------------------------------------------

    def write_history(self) -> None:
        if self.target.history is None:
            return
        history.write_history(self.target.versions, self._difference, self.stamp, self.load.sequence)

    def write_rawcore(self) -> None:
        rawcore.write_rawcore(self.target, self._difference, self.stamp)

    def release(self) -> None:
        self.parents.release()
        self.target.former_keys.release()
        if self._detected is not None:
            forget(self._detected)
        if hasattr(self, "_difference"):
            self._difference.release()


def snapshot_notes(load: RawcoreLoad, target: Target) -> dict[str, str]:
    """Return the notes of a commit of rows that are dated by the load."""
    notes = {HASHED: columns_hashed(load)} | target.former_keys.note(load)
    return notes | kept_notes(target) | policy_notes(load, target.last_run)


def kept_notes(target: Target) -> dict[str, str]:
    """Return the note with the prune horizon (``forgotten``), which every later commit repeats."""
    last_run = target.last_run
    return {"forgotten": last_run.notes["forgotten"]} if last_run and "forgotten" in last_run.notes else {}


class DatedBatch:
    """Batch of rows with their own time, for a history or, without one, for the current rows alone.

    The current rows are those of the open live versions in either case. A history that starts on an event log of
    earlier runs gets the versions of all its events.
    """

    warnings: Sequence[str] = ()

    def __init__(self, session: SparkSession, load: RawcoreLoad, target: Target, stamp: Stamp, committed: int):
        assert target.event_log is not None
        self.load, self.target, self.stamp = load, target, stamp
        self._last_run = target.last_run or target.rawcore.newest_run_commit()
        begins = target.last_run is None and self._last_run is not None
        if begins:
            refuse_policy_changed(replace(load, history=None), self._last_run)
            committed = max(committed, self._last_run.sequence if self._last_run is not None else 0)
        self._remove_unfinished_events(committed)
        noted = self._last_run.notes if self._last_run else {}
        self._events = EventBatch(
            session, load, target.versions, target.event_log, stamp, noted, self._forgotten_before(), begins
        )
        self.counts: dict[str, int] = {}
        self.after: dict[str, int] = {}

    @property
    def notes(self) -> dict[str, str]:
        forgotten = self._forgotten_after()
        notes = form_note(self._events.policy, column_keys(self.load)) | eras_note(self._events.fold.eras)
        notes |= kept_hashes(self.load, self.target.last_run) | self.target.former_keys.note(self.load)
        return notes | ({"forgotten": forgotten} if forgotten else {})

    def _remove_unfinished_events(self, committed: int) -> None:
        """Remove the events of a load that ended before its history commit, and of an unfinished revert.

        Raise Refusal EVENT_LOG_CHANGED.
        """
        event_log, spec = self.target.event_log, self.load.event_log
        assert event_log is not None
        assert spec is not None
        refuse_changed(event_log, self.load.name)
        forget_unfinished(self.target.session, event_log, spec, committed, self.target.last_run)

    def _forgotten_before(self) -> str | None:
        """Return the time before which late rows are rejected, since older events may have been pruned (rule 11)."""
        return self._last_run.notes.get("forgotten") if self._last_run else None

    def _forgotten_after(self) -> str | None:
        policy, before = self._events.policy, self._forgotten_before()
        if policy.late_horizon is None:
            return before
        horizon = rules.parse_instant(self.stamp.at) - timedelta(days=policy.late_horizon)
        text = horizon.isoformat()
        return text if before is None or rules.parse_instant(before) < horizon else before

    def prepare(self, stage: DataFrame, *, guard: DeleteGuard, expected: int | None = None) -> None:
        if self.target.history is None:
            self._small, rows = False, self.target.rawcore_rows()
            refuse_missing(self._events.files, self.load.name, rows=rows)
            self._events.open_before = rows
            self._events.prepare(stage, guard=guard, expected=expected)
            self.counts = self._events.public_counts
            return
        before = self.target.version_counts()
        refuse_missing(self._events.files, self.load.name, versions=before["versions"])
        self._events.open_before = before["open"]
        self._events.prepare(stage, guard=guard, expected=expected)
        self.counts = self._events.public_counts
        self._small = before["versions"] + self._events.counts["opened"] <= REWRITE_UP_TO_ROWS // 4
        self.after = {
            "versions": before["versions"] + self._events.versions_added,
            "open": before["open"] + self._events.open_added,
        }

    def write_history(self) -> None:
        self._events.write_event_log()
        if self.target.history:
            self._events.write_history(small=self._small)

    def write_rawcore(self) -> None:
        if self._small:
            rawcore.rebuild(self.target)
        else:
            rawcore.write_live_rows(self.target, self._events.live_changes())

    def release(self) -> None:
        self._events.release()
        self.target.former_keys.release()


class AppendBatch:
    """Batch of rows that are added to rawcore, which leads: it has no history.

    Without a business key identical rows stay, since facts may repeat. With one, a batch has one row per key (rule 1);
    rows of other runs are not compared.
    """

    warnings: Sequence[str] = ()

    def __init__(self, load: RawcoreLoad, target: Target, stamp: Stamp):
        self.load, self.target, self.stamp = load, target, stamp
        self.counts: dict[str, int] = {}
        self.after: dict[str, int] = {}
        self._cached: DataFrame | None = None

    @property
    def notes(self) -> dict[str, str]:
        return self.target.former_keys.note(self.load)

    def prepare(self, stage: DataFrame, *, guard: DeleteGuard, expected: int | None = None) -> None:
        rows = self.target.former_keys.kept_in(with_hashes(stage, self.load), self.load)
        if expected is not None and expected <= REWRITE_UP_TO_ROWS:
            rows = rows.coalesce(1)
        self._rows = self._cached = persisted(rows, StorageLevel.MEMORY_AND_DISK)
        if self.load.entity_key and not self.load.delivery_checked:
            self._rows, count, duplicates = one_row_per_key(self._rows, self.load)
        else:
            count, duplicates = self._rows.count(), 0
        self.counts = {"rows": count, "duplicates": duplicates, "new": count - duplicates}

    def write_history(self) -> None:
        """Do nothing: added rows have no versions."""

    def write_rawcore(self) -> None:
        rawcore.add_rows(self.target, self._rows, self.stamp)

    def release(self) -> None:
        self.target.former_keys.release()
        if self._cached is not None:
            self._cached.unpersist()
