"""Load of one dataset: a delivery into raw, or stage into history and rawcore."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from elevata.core.words import counted
from loader.domain.historization.load_guards import (
    DeleteGuard,
    check_holds_applied,
    check_later,
    check_load_type,
    check_reads_changes,
)
from loader.domain.manifest.loads import LoadManifest, ModelLoad, RawcoreLoad, RawLoad
from loader.domain.quality.checks import without_revealing_numbers, without_sensitive
from loader.domain.quality.results import refusal_of, warnings_of
from loader.domain.refusals import Refusal
from loader.domain.run_states import REVERT
from loader.domain.sources.mark_warnings import window_warnings
from loader.domain.sources.marks import AHEAD
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.spark.historization import rawcore
from loader.spark.historization.batches import Batch, dated_by_run, find_batch
from loader.spark.historization.detection import detection_of
from loader.spark.historization.history_batches.computed_rows import frames_of
from loader.spark.historization.history_batches.file_batches import FilesBatch
from loader.spark.historization.history_batches.history_files import read_history_files
from loader.spark.historization.policy_notes import refuse_policy_changed
from loader.spark.historization.ranking import OUTRANKED
from loader.spark.historization.stage import typed_stage
from loader.spark.historization.targets import Stamp, Target
from loader.spark.loads.small_loads import PreparedLoad, small_batch
from loader.spark.quality.delivery_quarantine import DeliveryQuarantine, lacking, notes_of
from loader.spark.quality.frame_checks import CheckedRows, RowChecker, check_of_run
from loader.spark.quality.quarantine import Quarantine
from loader.spark.session import USER_METADATA, dataset_session, lost_executor
from loader.spark.sources.deliveries import Delivery, Feed, feed_notes, read_delivery
from loader.spark.sources.endpoints import read_endpoint
from loader.spark.sources.files import JAVA_ERRORS
from loader.spark.sources.kept_deliveries import OwnDelivery, delivered_rows, stored_rows
from loader.spark.sources.key_lists import KeyList, remove_other_key_lists, write_key_list
from loader.spark.sources.marks import DeliveredWindow, delivered_windows, next_marks, reading_of
from loader.spark.sources.schemas import contract_schema
from loader.spark.tables.commits import commit, open_files
from loader.spark.tables.table_files import TableMoved
from loader.spark.tables.tables import DeltaTable, run_metadata
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sql import quote_identifier

# Attempts of a load to compare and commit while another writer changes its table.
_TRIES = 3


@dataclass
class Outcome:
    """Result of a dataset's load; ``loader.models.DatasetRun`` describes ``counts``, ``window`` and others."""

    counts: dict[str, int] = field(default_factory=dict)
    drift: list[dict] = field(default_factory=list)
    schema: tuple[dict, ...] = ()
    warnings: list[str] = field(default_factory=list)
    version_before: int | None = None
    version_after: int | None = None
    window: dict[str, Any] = field(default_factory=dict)
    unchanged_since: str = ""
    faults: Refusal | None = None


class Canceled(Exception):
    """Cancellation of a run by a user, raised only between complete writes."""


@dataclass
class Task:
    """Context of a dataset's load: the run, and its progress callback.

    ``phase`` reports the current phase and raises Canceled if the run was cancelled. ``small`` is the load that a
    task has prepared (``loader.spark.loads.small_loads``), None for the general way. ``report`` takes the
    ``results`` of quality checks.
    """

    spark: SparkSession
    warehouse: str
    manifest: LoadManifest
    phase: Callable[[str], None]
    small: PreparedLoad | None = None
    report: Callable[..., None] = lambda **results: None

    def session(self, sequence: int) -> SparkSession:
        return dataset_session(self.spark, user_metadata=self.commit_metadata(sequence))

    def commit_metadata(
        self, sequence: int, counts: dict[str, int] | None = None, notes: dict[str, str] | None = None
    ) -> str:
        """Return the commit metadata of this run."""
        return run_metadata(
            run_id=self.manifest.run_id,
            at=self.manifest.load_timestamp,
            sequence=sequence,
            counts=counts or {},
            notes=notes,
        )

    @cached_property
    def stamp(self) -> Stamp:
        if self.small is not None:
            return self.small.stamp
        loaded_at = datetime.now(UTC).isoformat(timespec="microseconds")
        return Stamp(self.manifest.run_id, self.manifest.load_timestamp, loaded_at)


def guard_of(manifest: LoadManifest) -> DeleteGuard:
    """Return this run's limits on deletes by absent keys."""
    return DeleteGuard(manifest.allow_empty, manifest.allow_deletes, manifest.deletes_share, manifest.deletes_keys)


def load_raw(task: Task, load: RawLoad) -> Outcome:
    """Check the whole delivery, then write it to raw, in addition to other deliveries or in their place.

    Read and write again if another writer commits first.
    """
    outcome = Outcome()
    retry(lambda: _load_raw(task, load, outcome), outcome)
    return outcome


def _load_raw(task: Task, load: RawLoad, outcome: Outcome) -> None:
    session = task.session(0)
    raw = DeltaTable(session, task.warehouse, load.table.key)
    if outcome.version_before is None:
        outcome.version_before = raw.version()
    own = OwnDelivery.of(session, raw, load, task.manifest.run_id) if load.keeps_all and not load.feed else None
    is_first = own is None or not own.is_repeated
    if task.small is not None and is_first and task.small.fits(files := open_files(session, raw)):
        task.phase("writing raw")
        if own is not None:
            session.conf.set(USER_METADATA, task.commit_metadata(0, notes=own.notes(task.small.rows)))
        outcome.counts = task.small.write_raw(session, files, own.recorded if own is not None else None)
        DeliveryQuarantine(session, task.warehouse, load, task.stamp).clear()
        outcome.schema = contract_schema(load.source)
        outcome.version_after = raw.version()
        return
    task.phase("reading and checking")
    quarantine = DeliveryQuarantine(session, task.warehouse, load, task.stamp)
    feed = Feed.of(session, task.warehouse, load, task.manifest) if load.feed else None
    if feed is not None and not feed.part:
        outcome.counts = {"rows": feed.rows, "duplicates": 0} | feed.counts
        outcome.warnings += feed.warnings
        outcome.version_after = raw.version()
        return
    reading, pages = reading_of(session, task.warehouse, load, task.manifest), None
    if load.source.api is not None:
        delivery, pages = read_endpoint(session, load, task.manifest.run_id, task.phase, reading, quarantine.write)
    else:
        part, earlier = (feed.part, feed.earlier_rows()) if feed is not None else ((), None)
        stored = None if load.feed else partial(stored_rows, raw, load)
        delivery = read_delivery(
            session, load.source, part, reading, reject=quarantine.write, earlier=earlier, stored=stored
        )
        feed = feed.after_reading(delivery.opened) if feed is not None else None
    notes = own.notes(delivery.rows) if own is not None else {}
    notes |= notes_of(delivery.quarantined, delivery.doubt)
    key_list: KeyList | None = None
    try:
        if reading is not None and delivery.window is not None:
            window = replace(delivery.window, bounds=reading.bounds(delivery.window))
            notes |= window.as_note()
            outcome.window = {"from": window.bounds, "to": dict(window.end)}
            outcome.window |= {AHEAD: dict(window.ahead)} if window.ahead else {}
            is_empty = load.source.api is not None and not delivery.rows
            warnings = window_warnings(window, load.source.name, reading, is_empty=is_empty)
            outcome.warnings += [warning for warning in warnings if warning not in outcome.warnings]
        if load.key_list is not None:
            key_list = write_key_list(session, raw, load, delivery, task.manifest.run_id, task.phase)
            notes |= key_list.as_note()
        session.conf.set(USER_METADATA, task.commit_metadata(0, notes=notes))
        task.phase("writing raw")
        delivered = [F.col(quote_identifier(name)).alias(raw_name) for raw_name, name in load.columns]
        run_id = load.table.column("run_id").name
        rows = delivery.rows_with_provenance.select(
            *delivered,
            F.lit(task.manifest.run_id).alias(run_id),
            task.stamp.loaded().alias(load.table.column("loaded_at").name),
            F.col(SOURCE_FILE).alias(load.table.column("source_file").name),
            F.col(SOURCE_ROW).alias(load.table.column("source_row").name),
            task.stamp.timestamp().cast("date").alias(load.table.column("load_day").name),
        )
        with delivery.reading():
            if load.quality:
                check_quality(task, session, load, rows, outcome)
                task.phase("writing raw")
            _write_raw(session, raw, rows, feed or own, last=delivery.check_unchanged)
    finally:
        delivery.release()
    _record_delivery(outcome, delivery, feed)
    if not delivery.quarantined:
        quarantine.clear()
    if key_list is not None:
        remove_other_key_lists(session, raw, key_list)
        outcome.counts |= key_list.counts
        outcome.warnings += key_list.warnings(load.name)
    if pages is not None:
        outcome.counts |= {"files": pages.count}
        outcome.warnings += pages.warnings
    outcome.version_after = raw.version()


def _record_delivery(outcome: Outcome, delivery: Delivery, feed: Feed | None) -> None:
    outcome.counts = {"rows": delivery.rows, "duplicates": delivery.duplicates}
    if delivery.superseded:
        outcome.counts["superseded"] = delivery.superseded
    if delivery.empty:
        outcome.counts["empty_records"] = delivery.empty
    if delivery.quarantined:
        outcome.counts["quarantined"], outcome.faults = delivery.quarantined, delivery.faults
    outcome.drift, outcome.schema = list(delivery.unknown), delivery.schema
    outcome.warnings += delivery.warnings
    if feed is not None:
        outcome.counts |= feed.counts
        outcome.warnings += feed.warnings


def _write_raw(
    session: SparkSession,
    raw: DeltaTable,
    rows: DataFrame,
    added: Feed | OwnDelivery | None,
    *,
    last: Callable[[], None],
) -> None:
    """Commit the rows: they are ``added`` to those of other runs, or replace them."""
    types = {field.name: field.dataType for field in raw.schema().fields}
    typed = rows.select(*(
        (F.col(quote_identifier(name)) if name in rows.columns else F.lit(None)).cast(type_).alias(name)
        for name, type_ in types.items()
    ))  # fmt: skip
    if added is None:
        files = open_files(session, raw)
        commit(files, None, add=typed, remove=files.all, last=last)
        return
    replaced = added.replaced_rows()
    commit(
        added.table,
        None,
        add=typed,
        gone=replaced,
        gone_from=added.table.all if replaced is not None else None,
        last=last,
        recorded=added.recorded,
    )


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


def retry(do: Callable[[], None], outcome: Outcome) -> None:
    """Call ``do`` again, with a warning, if another writer changed the table or an executor was lost.

    After the last try, raise the error. A repetition is safe: the table shows if a try has committed.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return do()
        except TableMoved as moved:
            if not tries_left:
                raise
            outcome.warnings.append(f"{moved.message}; this run read the table again.")
        except JAVA_ERRORS as failure:
            if not tries_left or not lost_executor(failure):
                raise
            outcome.warnings.append("An executor was lost with rows that only it held: the dataset was loaded again.")


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
) -> Iterator[Batch]:
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


def check_quality(
    task: Task,
    session: SparkSession,
    load: RawLoad | RawcoreLoad | ModelLoad,
    rows: DataFrame,
    outcome: Outcome,
    table: DataFrame | None = None,
) -> tuple[RowChecker, CheckedRows]:
    """Run the quality checks of a load on its rows. Raise Refusal QUALITY_STOPPED if one stops the load.

    ``table`` are all rows of the table after the load, for checks that concern the table.
    """
    task.phase("checking quality")
    checker = check_of_run(session, task.warehouse, load, task.manifest)
    checked = checker.check(rows, load.quality, table)
    stored = without_sensitive(checked.results, load.quality, load.sensitive, own=load.dataset)
    task.report(results=[result.as_json() for result in stored])
    shown = without_revealing_numbers(stored)
    refusal = refusal_of(load.name, shown)
    if refusal is not None:
        raise refusal
    outcome.warnings += [warning for warning in warnings_of(shown) if warning not in outcome.warnings]
    return checker, checked


def _maximum_rows(task: Task, session: SparkSession, load: RawcoreLoad) -> int | None:
    """Return the maximum number of stage rows from file statistics, None if these are missing or it is a model's."""
    if load.query is not None:
        return None
    tables = [DeltaTable(session, task.warehouse, stage_input.table.key) for stage_input in load.inputs]
    counts = [delivered_rows(table) or open_files(session, table).rows() for table in tables]
    return None if None in counts else sum(count for count in counts if count is not None)


def historize(
    task: Task, session: SparkSession, batch: Batch, target: Target, marks: Mapping[str, str] | None = None
) -> None:
    """Commit a prepared batch's changes to the history, if there is one; commits carry the notes for the next run."""
    notes = batch.notes | (marks or {})
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
            hint="The control database is older than the warehouse: manage.py accept_table, then load again.",
        )
