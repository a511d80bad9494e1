"""Revert: removal of one run from a history, or from the rows of an upsert or append.

A history of rows with their own time is computed from its event log. The keys of the run's events are folded
again without these events, and the difference is written in one commit. Versions that the run opened are removed,
those it closed are opened again, and later runs remain correct. Without a history the same difference is written to
rawcore.

Other histories do not record the effect of a run. There the newest applied run can be reverted with Delta's
RESTORE, which resets the table to its state before the run's commit. Of appended rows those of the run are removed.

The leading table is written first, then the run's events are deleted, then rawcore is rebuilt from a history. An
interrupted revert is finished by repeating it, or by the next load (``loader.engine.historization.events.event_log``).
"""

from dataclasses import dataclass, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from loader.contract.manifest.maintenance import RevertManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD, PRUNE, REVERT
from loader.domain.sources.feeds import NOTE
from loader.domain.sources.marks import NOTE as MARKS
from loader.domain.sources.marks import lower_marks, marks_in, marks_note
from loader.engine.compared_texts import hash_parts, types_by_name
from loader.engine.hashing import digest
from loader.engine.historization import rawcore
from loader.engine.historization.events.event_batches import EventBatch
from loader.engine.historization.events.event_log import LOG, logs
from loader.engine.historization.events.log_guards import (
    VOID,
    forget_run,
    forget_unfinished,
    refuse_changed,
    refuse_missing,
)
from loader.engine.historization.policy_notes import kept_hashes, refuse_policy_changed
from loader.engine.historization.stage import typed_stage
from loader.engine.historization.targets import Stamp, Target
from loader.engine.historization.versions import KEY, PACKED
from loader.engine.maintenance.context import MaintenanceContext
from loader.engine.row_limits import REWRITE_UP_TO_ROWS
from loader.engine.session import forget
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.run_commits import RunCommit, run_metadata
from loader.engine.tables.table_files import PLACE
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier, quote_text

REVERTED = "reverted"
_EPOCH = "1970-01-01T00:00:00+00:00"
_MISSING_FILES_ERRORS = (
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_CANNOT_RESTORE",
    "DELTA_MISSING_FILES",
    "DELTA_FILE_NOT_FOUND",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
    "VersionNotFoundException",
    "FileNotFoundException",
    "Not all files from version",
)
# Operations in the log that change no rows, besides commits of runs.
_HARMLESS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "COMPUTE STATS", "SET TBLPROPERTIES")


def revert(context: MaintenanceContext, manifest: RevertManifest) -> dict[str, int]:
    """Revert a run, or finish an interrupted revert; return the counts. Raise Refusal before any write."""
    return _Revert(context, manifest).perform()


@dataclass
class _Revert:
    context: MaintenanceContext
    manifest: RevertManifest

    def perform(self) -> dict[str, int]:
        context, manifest = self.context, self.manifest
        target = self._target()
        tables = {manifest.load.leading.qualified_name: target.leading, manifest.load.name: target.rawcore}
        if target.event_log is not None and manifest.load.event_log is not None:
            tables[manifest.load.event_log.qualified_name] = target.event_log
        for name, table in tables.items():
            context.before(name, table)
        context.phase("reading the history" if target.history else "reading the table")
        commits = target.leading.run_commits()
        done = next((commit for commit in commits if (commit.run_id, commit.what) == (manifest.run_id, REVERT)), None)
        if done is not None:
            context.set_metadata(_repeated_metadata(done))
        else:
            self._refuse(commits)
            refuse_policy_changed(manifest.load, target.last_run)
            if target.event_log is not None:
                self._refold(target, commits)
            elif target.history is None:
                self._remove_rows(target)
            else:
                self._restore(target, commits)
        if target.event_log is not None and manifest.load.event_log is not None:
            forget_run(context.session, target.event_log, manifest.load.event_log, manifest.reverted_sequence)
        now = self._target()
        if now.history:
            context.phase("writing rawcore")
            rawcore.rebuild(now)
        for name, table in tables.items():
            context.after(name, table)
        return now.version_counts() if now.history else {"rows": now.rawcore_rows()}

    def _target(self) -> Target:
        return Target.of(self.context.session, self.context.warehouse, self.manifest.load)

    def _refuse(self, commits: list[RunCommit]) -> None:
        manifest = self.manifest
        if any(commit.what == REVERT and commit.notes.get(REVERTED) == manifest.reverted_run for commit in commits):
            raise Refusal("ALREADY_REVERTED", f"run {manifest.reverted_run} was reverted on {manifest.load.name}")
        if manifest.refused is not None:
            raise Refusal.from_json(manifest.refused)

    def _set_metadata(
        self, at: str, counts: dict[str, int], before: dict[str, str], notes: dict[str, str] | None = None
    ) -> None:
        self.context.set_metadata(
            run_metadata(
                run_id=self.manifest.run_id,
                at=at,
                sequence=self.manifest.load.sequence,
                counts=counts,
                notes=before | {REVERTED: self.manifest.reverted_run} | (notes or {}),
                what=REVERT,
            )
        )

    # --- by the event log ---------------------------------------------------------------------------

    def _refold(self, target: Target, commits: list[RunCommit]) -> None:
        """Commit the leading table computed without the run's events."""
        manifest, load = self.manifest, self.manifest.load
        assert target.event_log is not None
        assert load.event_log is not None
        committed = self._committed(target)
        last_run = target.last_run
        self._set_metadata(last_run.at if last_run else "", {}, last_run.notes if last_run else {})
        refuse_changed(target.event_log, load.name)
        forget_unfinished(self.context.session, target.event_log, load.event_log, committed, last_run)
        stamp = Stamp(manifest.run_id, manifest.newest_applied_at or _EPOCH, _EPOCH)
        batch = EventBatch(
            self.context.session, load, target.versions, target.event_log, stamp, last_run.notes if last_run else {}
        )
        self._refuse_repeated_rows(target)
        before = target.version_counts() if target.history else {}
        rows = 0 if target.history else target.rawcore_rows()
        refuse_missing(batch.files, load.name, versions=before.get("versions", 0), rows=rows)
        self.context.phase("folding")
        batch.take(self._fold_without_run(batch, target.event_log))
        try:
            counts = {}
            if target.history:
                counts = {
                    "versions": before["versions"] + batch.versions_added,
                    "open": before["open"] + batch.open_added,
                }
            notes = {VOID: str(manifest.reverted_sequence)} | kept_hashes(load, last_run)
            self._set_metadata(
                manifest.newest_applied_at or "", counts, self._notes_without_run(last_run, commits), notes
            )
            self.context.phase("writing history" if target.history else "writing rawcore")
            if target.history:
                batch.write_history(small=before["versions"] <= REWRITE_UP_TO_ROWS // 4)
            else:
                rawcore.write_live_rows(target, batch.live_changes())
        finally:
            batch.release()

    def _notes_without_run(self, last_run: RunCommit | None, commits: list[RunCommit]) -> dict[str, str]:
        """Return the newest notes with the marks of the time before the run, so that its rows are read again."""
        notes = dict(last_run.notes) if last_run else {}
        marks = marks_in(notes)
        notes.pop(MARKS, None)
        own = [commit.version for commit in commits if commit.run_id == self.manifest.reverted_run]
        before = next((commit for commit in commits if commit.version < min(own)), None) if own else None
        return notes | marks_note(lower_marks(marks, marks_in(before.notes if before else None)))

    def _committed(self, target: Target) -> int:
        """Return the newest run sequence in the leading table. Raise Refusal unless this run has a greater one."""
        load = self.manifest.load
        committed = target.leading.committed_sequence(load.leading.key)
        if committed >= load.sequence:
            raise Refusal(
                "sequence_behind_table",
                f"{load.name}: the table has seen {committed} runs, this run has number {load.sequence}",
                hint="The control database is older than the warehouse: accept the table (manage.py accept_table), "
                "then revert again.",
            )
        return committed

    def _fold_without_run(self, batch: EventBatch, event_log: DeltaTable) -> DataFrame:
        """Return the keys of the run's events, each with its versions with and without these events."""
        spec, fold = self.manifest.load.event_log, batch.fold
        assert spec is not None
        key, sequence = (quote_identifier(spec.column(purpose).name) for purpose in ("entity_key", "sequence"))
        own = F.col(sequence) == self.manifest.reverted_sequence
        frame = event_log.frame()
        keys = frame.where(own).select(F.col(key).alias("__touched")).distinct()
        events = frame.join(keys, F.col(key) == F.col("__touched"), "left_semi")
        events = events.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        before = logs(events, spec, fold)
        after = logs(events.where(~own), spec, fold).select(F.col(KEY).alias("__kept"), F.col(LOG).alias("__left"))
        joined = before.join(after, F.col(KEY) == F.col("__kept"), "left")
        sides = joined.withColumn("__left", F.coalesce(F.col("__left"), F.expr(fold.no_events())))
        zero_counts = [F.lit(0).alias(name) for name in ("late", "ignored", "beyond")]
        folded = sides.select(
            KEY,
            PACKED,
            F.lit(True).alias("delivered"),
            F.expr(fold.no_events()).alias("events"),
            F.expr(fold.versions(LOG, "fo")).alias("old"),
            F.expr(fold.versions("__left", "fn")).alias("new"),
            *zero_counts,
            F.expr(f"CAST(array() AS ARRAY<{fold.time_type}>)").alias("refused"),
        )
        try:
            return folded.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        finally:
            forget(events)

    def _refuse_repeated_rows(self, target: Target) -> None:
        """Raise Refusal LATER_RUNS if later runs delivered rows of the reverted run again.

        The event log stores such a row only with the run that first delivered it; a revert would lose it.
        """
        manifest, load = self.manifest, self.manifest.load
        if not manifest.later_runs:
            return
        spec, policy = load.event_log, target.versions.policy
        assert spec is not None
        assert target.event_log is not None
        if not all(source.feed for source in load.inputs):
            raise Refusal(
                "LATER_RUNS",
                f"later runs were applied to {load.name}, and what they brought is not kept",
                hint="revert them first, the newest before the others",
                count=len(manifest.later_runs),
            )
        runs = ", ".join(quote_text(run) for run in manifest.later_runs)
        inputs = []
        for source in load.inputs:
            condition = f"{quote_identifier(source.table.column('run_id').name)} IN ({runs})"
            inputs.append(
                replace(source, feed=False, filter=f"({source.filter}) AND {condition}" if source.filter else condition)
            )
        delivered = typed_stage(
            self.context.session,
            self.context.warehouse,
            replace(load, inputs=tuple(inputs)),
            run_id=manifest.run_id,
            load_timestamp=manifest.newest_applied_at or _EPOCH,
        )
        types = {f.name: f.dataType for f in delivered.schema.fields}
        entity_key = digest(hash_parts(load.entity_key, types, types_by_name(load.table)))
        later = delivered.select(entity_key.alias("__again"), F.col(quote_identifier(policy.time)).alias("__own"))
        later = target.former_keys.kept(later, "__again", load.leading, load.event_log)
        key, own, sequence = (
            F.col(quote_identifier(spec.column(purpose).name)) for purpose in ("entity_key", "event_own", "sequence")
        )
        own_events = target.event_log.frame().where(sequence == manifest.reverted_sequence)
        repeated = own_events.join(later, (key == F.col("__again")) & (own == F.col("__own")), "left_semi")
        count = repeated.count()
        if count:
            names = [F.col(quote_identifier(c.name)).cast("string") for c in spec.of_purpose("business_key")]
            shown = repeated.select(*names, own.cast("string")).limit(5).collect()
            raise Refusal(
                "LATER_RUNS",
                f"{count} rows of run {manifest.reverted_run} came again with later runs, which rest upon it",
                count=count,
                samples=tuple(", ".join(str(value) for value in row) for row in shown),
                hint="revert those runs first, the newest before the others",
            )

    # --- of appended rows -------------------------------------------------------------------------

    def _remove_rows(self, target: Target) -> None:
        """Remove the run's rows from rawcore, in one commit; the rows of other runs stay."""
        manifest, load, last_run = self.manifest, self.manifest.load, target.last_run
        self._committed(target)
        self._set_metadata(manifest.newest_applied_at or "", {}, last_run.notes if last_run else {})
        run_id = load.table.column("run_id").name
        files = open_files(self.context.session, target.rawcore, (run_id,))
        rows = files.frame(files.all, placed=True).where(F.col(quote_identifier(run_id)) == manifest.reverted_run)
        self.context.phase("writing rawcore")
        commit(files, load.table.key, load.sequence, gone=rows.select(PLACE), gone_from=files.all)

    # --- by Delta's RESTORE -----------------------------------------------------------------------

    def _restore(self, target: Target, commits: list[RunCommit]) -> None:
        history = target.history
        assert history is not None
        load = self.manifest.load
        applied = [commit for commit in commits if (commit.run_id, commit.what) == (self.manifest.reverted_run, LOAD)]
        if not applied:
            raise self._beyond_retention("the table's log no longer holds its commit")
        version = min(commit.version for commit in applied) - 1
        self._refuse_later(commits, version + 1)
        try:
            columns = history.frame_as_of(version).schema
        except Exception as failure:
            raise self._as_refusal(failure) from None
        if [(f.name, f.dataType) for f in columns] != [(f.name, f.dataType) for f in history.schema()]:
            raise Refusal(
                "SCHEMA_CHANGED",
                f"{load.name}: the columns of the history changed since run {self.manifest.reverted_run}",
                hint="load a delivery that corrects it",
            )
        self._refuse_changes_by_hand(history, version)
        last_run = next((commit for commit in commits if commit.version <= version), None)
        at = last_run.at if last_run else ""
        notes = {NOTE: commits[0].notes[NOTE]} if NOTE in commits[0].notes else {}
        self._set_metadata(at, dict(last_run.counts) if last_run else {}, last_run.notes if last_run else {}, notes)
        self.context.phase("restoring the history")
        try:
            self.context.session.sql(f"RESTORE TABLE {history.sql_name} TO VERSION AS OF {version}")
        except Exception as failure:
            raise self._as_refusal(failure) from None

    def _refuse_later(self, commits: list[RunCommit], first: int) -> None:
        reverted = {commit.notes.get(REVERTED) for commit in commits if commit.what == REVERT}
        for run_commit in reversed(commits):
            if run_commit.version > first and run_commit.what in (LOAD, PRUNE) and run_commit.run_id not in reverted:
                if run_commit.run_id == self.manifest.reverted_run:
                    continue
                raise Refusal(
                    "LATER_RUNS",
                    f"run {run_commit.run_id} was applied to {self.manifest.load.name} later, and rests upon run "
                    f"{self.manifest.reverted_run}",
                    hint="revert the newest run first",
                )

    def _refuse_changes_by_hand(self, history: DeltaTable, version: int) -> None:
        log = history.spark.sql(f"DESCRIBE HISTORY {history.sql_name}")
        others = log.where(
            (F.col("version") > version) & F.coalesce(~F.contains("userMetadata", F.lit('"run_id"')), F.lit(True))
        )
        operations = [row.operation for row in others.select("operation").collect() if row.operation not in _HARMLESS]
        if operations:
            raise Refusal(
                "CHANGED_BY_HAND",
                f"{self.manifest.load.name}: the history was changed by {operations[0]} since, which no run did",
                hint="restoring would undo that, too: do it by hand, or load a delivery that corrects the run",
            )

    def _beyond_retention(self, why: str) -> Refusal:
        return Refusal(
            "BEYOND_RETENTION",
            f"run {self.manifest.reverted_run} cannot be taken out of {self.manifest.load.name}: {why}",
            hint="load a delivery that corrects it",
        )

    def _as_refusal(self, failure: Exception) -> Exception:
        if _reports_missing_files(failure):
            return self._beyond_retention("what the table held before is no longer kept")
        return failure


def _reports_missing_files(failure: Exception) -> bool:
    """Return True if Delta reports that a version's files or its log are missing."""
    return any(code in str(failure) for code in _MISSING_FILES_ERRORS)


def _repeated_metadata(done: RunCommit) -> str:
    return run_metadata(
        run_id=done.run_id, at=done.at, sequence=done.sequence, counts=done.counts, notes=done.notes, what=done.what
    )
