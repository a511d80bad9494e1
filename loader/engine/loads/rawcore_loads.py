"""Load of stage, or of the files of a history batch, into history and rawcore."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.sql import Observation, SparkSession

from elevata.core.words import counted
from loader.contract.manifest.loads import RawcoreLoad
from loader.contract.refusals import Refusal
from loader.contract.run_states import REVERT
from loader.domain.historization.load_guards import (
    check_holds_applied,
    check_later,
    check_load_type,
    check_reads_changes,
)
from loader.engine.historization import rawcore
from loader.engine.historization.batches import PreparedBatch, dated_by_run, find_batch
from loader.engine.historization.detection import detection_of
from loader.engine.historization.history_batches.computed_rows import frames_of
from loader.engine.historization.history_batches.file_batches import FilesBatch
from loader.engine.historization.history_batches.history_files import read_history_files
from loader.engine.historization.policy_notes import refuse_policy_changed
from loader.engine.historization.ranking import OUTRANKED
from loader.engine.historization.stage import typed_stage
from loader.engine.historization.targets import Target
from loader.engine.loads.dataset_load import Outcome, Task, check_quality, guard_of
from loader.engine.loads.small_loads import small_batch
from loader.engine.loads.tries import retry
from loader.engine.quality.delivery_quarantine import lacking
from loader.engine.quality.quarantine import Quarantine
from loader.engine.session import USER_METADATA
from loader.engine.sources.feeds import feed_notes
from loader.engine.sources.kept_deliveries import delivered_rows
from loader.engine.sources.marks import DeliveredWindow, delivered_windows, next_marks
from loader.engine.tables.commits import open_files
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import HistoryPolicy


def check_before_load(task: Task, load: RawcoreLoad) -> None:
    """Raise Refusal for problems that do not depend on the delivery, before the run writes anything.

    They are a history policy that does not go with the load type, absent keys that count as deleted though a source is
    read incrementally, a table without the newest applied run, a run that breaks rule 3, and a history written under
    another history policy.
    """
    policy = HistoryPolicy.from_dict(load.policy)
    if any(source.incremental for source in load.inputs):
        check_reads_changes(load.name, policy)
    check_load_type(name=load.name, policy=policy, historized=load.history is not None)
    is_dated = dated_by_run(policy)
    table = DeltaTable(task.spark, task.warehouse, load.leading.key)
    last_run = table.newest_run_commit()
    newest_sequence = last_run.sequence if last_run else None
    check_holds_applied(name=load.name, applied=load.newest_applied, held=newest_sequence, run=load.sequence)
    if not is_dated and load.history is None and load.event_log is None:
        return
    # The sequence is compared, too: a RESTORE keeps the table's own id and the sequence of the run before.
    if last_run is not None and (last_run.run_id == task.manifest.run_id or last_run.sequence == load.sequence):
        return
    refuse_policy_changed(load, last_run)
    if not is_dated:
        return
    check_later(
        name=load.name,
        at=task.manifest.load_timestamp,
        newest=(load.newest_applied_at, last_run.at if last_run else None),
    )


def load_rawcore(task: Task, load: RawcoreLoad) -> Outcome:
    """Compute the batch's changes, commit the history, then update rawcore.

    Compare and commit again if another writer commits in between.
    """
    outcome = Outcome()
    retry(lambda: _load_rawcore(task, load, outcome), outcome)
    return outcome


def _load_rawcore(task: Task, load: RawcoreLoad, outcome: Outcome) -> None:
    session = task.session(load.sequence)
    target = Target.of(session, task.warehouse, load)
    if outcome.version_before is None:
        outcome.version_before = target.leading.version()
    committed = target.leading.committed_sequence(load.leading.key)
    if committed >= load.sequence:
        _require_commit_of_this_run(task, load, target.leading, committed)
        if not outcome.counts:  # an earlier attempt committed it, not an earlier try of this one
            outcome.warnings.append("The table already held this run: nothing was added.")
        if target.history:
            task.phase("writing rawcore")
            rawcore.rebuild(target)
            outcome.counts = outcome.counts or target.version_counts()
    else:
        _load_batch(task, session, load, target, outcome, committed)
    outcome.version_after = target.leading.version()


def _load_batch(
    task: Task, session: SparkSession, load: RawcoreLoad, target: Target, outcome: Outcome, committed: int
) -> None:
    # A revert by RESTORE has its sequence only in the commit metadata, not as a transaction number of the history.
    last_run = target.last_run
    followed = target.rawcore.newest_run_commit()
    foreign = (*(last_run.foreign if last_run else ()), *(followed.foreign if followed and target.history else ()))
    if foreign:
        outcome.warnings.append(
            f"Another writer changed {load.name} since its newest run: {', '.join(foreign)}. "
            "This run compared with the history as it is."
        )
    # If rawcore may differ from the history by more than this batch, it must be rebuilt.
    windows = delivered_windows(session, task.warehouse, load)
    behind = (followed.sequence if followed else -1) < (last_run.sequence if last_run else -1) or bool(foreign)
    with _prepared_batch(task, session, load, target, outcome, committed, windows) as batch:
        outcome.counts = batch.counts
        if outranked := batch.counts.get(OUTRANKED):
            outcome.warnings.append(f"{counted(outranked, 'row')} left out: a better source has the same key.")
        outcome.warnings += [warning for warning in batch.warnings if warning not in outcome.warnings]
        marks = next_marks(windows, last_run, task.manifest.run_id)
        task.phase("writing history" if target.history else "writing rawcore")
        historize(task, session, batch, target, marks)
        outcome.counts = batch.counts | batch.after
        if target.history:
            task.phase("writing rawcore")
        if behind and target.history:
            rawcore.rebuild(target)
        else:
            batch.write_rawcore()


@contextmanager
def _prepared_batch(
    task: Task,
    session: SparkSession,
    load: RawcoreLoad,
    target: Target,
    outcome: Outcome,
    committed: int,
    windows: list[DeliveredWindow],
) -> Iterator[PreparedBatch]:
    """Yield the prepared batch of the run, from stage or from the files of a history batch."""
    with ExitStack() as resources:
        if load.files is not None:
            task.phase("reading files")
            files = (
                frames_of(target, load.files.rows)
                if load.files.rows is not None
                else resources.enter_context(read_history_files(session, task.warehouse, load, task.manifest.run_id))
            )
            task.phase("comparing")
            by_files = FilesBatch(load, target, task.stamp)
            resources.callback(by_files.release)
            by_files.prepare(files)
            yield by_files
            return
        task.phase("comparing")
        quarantine = Quarantine(session, task.warehouse, load, task.stamp)
        # Released rows are added to the rows of stage, though the checks that set them aside may be gone.
        has_quarantine = quarantine.table.exists()
        small = None if has_quarantine else small_batch(task.small, target)
        if small is not None:
            small.check(guard_of(task.manifest))
            yield small
            return
        run = {"run_id": task.manifest.run_id, "load_timestamp": task.manifest.load_timestamp}
        outranked = Observation()
        stage = typed_stage(session, task.warehouse, load, **run, outranked=outranked)
        quarantined = 0
        if load.quality:
            checker, checked = check_quality(task, session, load, stage, outcome)
            stage, quarantined = quarantine.set_aside(checked, checker, target)
            task.phase("comparing")
        elif has_quarantine:
            stage = quarantine.with_released(stage, target)
        lacks, stored = lacking(session, task.warehouse, load) if quarantine.closes_absent else "", 0
        if lacks:
            stage, stored = quarantine.with_all_stored(stage, target)
            warning = f"{lacks}, so keys that the delivery lacks were not closed."
            outcome.warnings += [] if warning in outcome.warnings else [warning]
        detection = None if lacks else detection_of(session, load, windows, **run)
        batch = find_batch(session, load, target, task.stamp, committed, detection)
        resources.callback(batch.release)
        expected = _maximum_rows(task, session, load)
        expected = None if expected is None else expected + stored
        batch.prepare(stage, guard=guard_of(task.manifest), expected=expected)
        if stored:  # These rows were not delivered. Some may have been updated, since their parents are known now.
            batch.counts["rows"] -= stored
            batch.counts["unchanged"] = max(batch.counts["unchanged"] - stored, 0)
        if load.policy.get("rank"):
            batch.counts[OUTRANKED] = outranked.get[OUTRANKED]
        if quarantined:
            batch.counts["quarantined"] = quarantined
        yield batch


def _maximum_rows(task: Task, session: SparkSession, load: RawcoreLoad) -> int | None:
    """Return the maximum number of stage rows from file statistics, None if these are missing or it is a model's."""
    if load.query is not None:
        return None
    tables = [DeltaTable(session, task.warehouse, stage_input.table.key) for stage_input in load.inputs]
    counts = [delivered_rows(table) or open_files(session, table).rows() for table in tables]
    return None if None in counts else sum(count for count in counts if count is not None)


def historize(
    task: Task, session: SparkSession, batch: PreparedBatch, target: Target, marks: Mapping[str, str] | None = None
) -> None:
    """Commit a prepared batch's changes to the history, if there is one; commits carry the notes for the next run."""
    notes = {**batch.notes, **(marks or {})}
    notes |= feed_notes(session, task.warehouse, batch.load, task.manifest.run_id, target.last_run)
    metadata = task.commit_metadata(batch.load.sequence, counts=batch.after, notes=notes)
    session.conf.set(USER_METADATA, metadata)
    batch.write_history()


def _require_commit_of_this_run(task: Task, load: RawcoreLoad, table: DeltaTable, committed: int) -> None:
    """Raise Refusal unless the table's log has a commit of this run, whose sequence is already used."""
    commits, run_id = table.run_commits(), task.manifest.run_id
    revert = next(
        (entry for entry in commits if entry.what == REVERT and entry.notes.get("reverted") == run_id),
        None,
    )
    if revert is not None:
        raise Refusal(
            "RUN_REVERTED",
            f"{load.name}: run {run_id} was reverted by run {revert.run_id}",
            hint="Load the delivery again with a run of its own.",
        )
    if not any(entry.run_id == run_id for entry in commits):
        raise Refusal(
            "sequence_behind_table",
            f"{load.name}: the table has seen {committed} runs, this run has number {load.sequence}, "
            "and the table holds no commit of it",
            hint="The control database is older than the warehouse: accept the table (manage.py accept_table), then "
            "load again.",
        )
