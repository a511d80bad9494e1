"""Loading one dataset: a delivery into raw, or stage into history and rawcore."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN
from loader.domain import history as rules
from loader.domain.manifest import LoadManifest, RawcoreLoad, RawLoad
from loader.domain.refusals import Refusal
from loader.spark import history, rawcore
from loader.spark.difference import REWRITE_UP_TO_ROWS, Difference, compare
from loader.spark.session import USER_METADATA, dataset_session
from loader.spark.sources import read_delivery
from loader.spark.stage import one_row_per_key, stage_frame
from loader.spark.tables import DeltaTable, publish, run_signature
from metadata.domain.sql import quote_identifier


@dataclass
class Outcome:
    """What a dataset did. ``counts`` are described at ``loader.models.DatasetRun``."""

    counts: dict[str, int] = field(default_factory=dict)
    drift: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    version_before: int | None = None
    version_after: int | None = None


class Canceled(Exception):
    """Somebody asked for the run to stop; nothing is half-done."""


@dataclass
class Task:
    """What loading a dataset needs besides the dataset: the run, and a way to be told and to tell.

    ``phase`` reports what it is doing and raises Canceled when the run is to stop.
    """

    spark: SparkSession
    warehouse: str
    manifest: LoadManifest
    phase: Callable[[str], None]

    def session(self, sequence: int) -> SparkSession:
        return dataset_session(self.spark, user_metadata=self.signature(sequence))

    def signature(self, sequence: int, counts: dict[str, int] | None = None) -> str:
        """What this run's commits say of themselves."""
        return run_signature(
            run_id=self.manifest.run_id, at=self.manifest.load_timestamp, sequence=sequence, counts=counts or {}
        )

    @cached_property
    def stamp(self) -> history.Stamp:
        loaded_at = datetime.now(UTC).isoformat(timespec="microseconds")
        return history.Stamp(self.manifest.run_id, self.manifest.load_timestamp, loaded_at)


def load_raw(task: Task, load: RawLoad) -> Outcome:
    """Read and check the whole delivery, then overwrite the raw table with it."""
    session = task.session(0)
    raw = DeltaTable(session, task.warehouse, load.table.key)
    outcome = Outcome(version_before=raw.version())
    task.phase("reading and checking")
    delivery = read_delivery(session, load.source)
    try:
        task.phase("writing raw")
        delivered = [F.col(quote_identifier(there)).alias(here) for here, there in load.columns]
        (
            delivery.frame.select(
                *delivered,
                F.lit(task.manifest.run_id).alias(load.table.column("run_id").name),
                task.stamp.loaded().alias(load.table.column("loaded_at").name),
            )
            .write.format("delta")
            .mode("overwrite")
            .save(raw.location)
        )
    finally:
        delivery.release()
    publish(session, load.table, raw.location)
    outcome.counts = {"rows": delivery.rows, "duplicates": delivery.duplicates}
    outcome.drift = list(delivery.unknown)
    outcome.warnings = list(delivery.warnings)
    outcome.version_after = raw.version()
    return outcome


def check_before_load(task: Task, load: RawcoreLoad) -> None:
    """Refuse what no delivery could mend, before anything of the run is written."""
    rules.check_loadable(name=load.name, policy=load.policy)
    table = DeltaTable(task.spark, task.warehouse, load.leading.key)
    signed = table.newest_run_commit()
    if signed is not None and signed.run_id == task.manifest.run_id:
        return
    rules.check_later(
        name=load.name,
        at=task.manifest.load_timestamp,
        newest=(load.newest_applied_at, signed.at if signed else None),
    )


def load_rawcore(task: Task, load: RawcoreLoad) -> Outcome:
    """Compare stage with what is known, commit the history, then bring rawcore after it."""
    session = task.session(load.sequence)
    target = Target(
        rawcore=DeltaTable(session, task.warehouse, load.table.key),
        history=DeltaTable(session, task.warehouse, load.history.key) if load.history else None,
    )
    outcome = Outcome(version_before=target.leading.version())
    committed = target.leading.committed_sequence(load.leading.key)
    behind = target.rawcore.committed_sequence(load.table.key) < committed
    if committed >= load.sequence:
        _require_commit_of_this_run(task, load, target.leading, committed)
        outcome.warnings.append("The table already held this run: nothing was added.")
        if target.history:
            task.phase("writing rawcore")
            rawcore.rebuild(session, target.rawcore, load.table, target.history, load.history, load.sequence)
            outcome.counts = _segments(target.history, load)
    else:
        _load_difference(task, session, load, target, outcome, rebuild=behind)
    publish(session, load.table, target.rawcore.location)
    if target.history:
        publish(session, load.history, target.history.location)
    outcome.version_after = target.leading.version()
    return outcome


@dataclass(frozen=True)
class Target:
    """The tables a rawcore load writes. The leading one is committed first and decides what is new."""

    rawcore: DeltaTable
    history: DeltaTable | None

    @property
    def leading(self) -> DeltaTable:
        return self.history or self.rawcore


def _load_difference(
    task: Task, session: SparkSession, load: RawcoreLoad, target: Target, outcome: Outcome, *, rebuild: bool
) -> None:
    task.phase("comparing")
    before = _segments(target.history, load) if target.history else {}
    small = (before["open"] if target.history else target.rawcore.rows()) <= REWRITE_UP_TO_ROWS
    difference, rows, duplicates = _compare(task, session, load, target, whole=small)
    try:
        _check_empty(task, load, difference, rows=rows)
        returned = history.reappeared(difference, target.history, load.history) if target.history else 0
        outcome.counts = _counts(difference, rows=rows, duplicates=duplicates, returned=returned)
        if target.history:
            after = {
                "versions": before["versions"] + difference.opens,
                "open": before["open"] + difference[rules.NEW] - difference[rules.DELETED],
            }
            outcome.counts |= after
            task.phase("writing history")
            session.conf.set(USER_METADATA, task.signature(load.sequence, counts=after))
            history.write_history(session, target.history, load.history, difference, task.stamp, load.sequence)
        task.phase("writing rawcore")
        if rebuild and target.history:
            rawcore.rebuild(session, target.rawcore, load.table, target.history, load.history, load.sequence)
        else:
            rawcore.follow(session, target.rawcore, load.table, difference, task.stamp, load.sequence)
    finally:
        difference.release()


def _compare(
    task: Task, session: SparkSession, load: RawcoreLoad, target: Target, *, whole: bool
) -> tuple[Difference, int, int]:
    """The difference, the rows of stage after duplicates went, and how many of those there were."""
    known = history.open_versions(target.history, load.history) if target.history else target.rawcore.frame()
    stage = stage_frame(
        session,
        task.warehouse,
        load,
        run_id=task.manifest.run_id,
        load_timestamp=task.manifest.load_timestamp,
    )
    if load.delivery_checked:
        difference = compare(stage, known, load.leading, whole=whole)
        return difference, _stage_rows(difference, stage), 0
    stage = stage.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        checked, rows, duplicates = one_row_per_key(stage, load)
        return compare(checked, known, load.leading, whole=whole), rows - duplicates, duplicates
    finally:
        stage.unpersist()


def _stage_rows(difference: Difference, stage: DataFrame) -> int:
    if difference.whole:
        return difference[rules.UNCHANGED] + difference.opens
    return stage.count()


def _check_empty(task: Task, load: RawcoreLoad, difference: Difference, *, rows: int) -> None:
    rules.check_empty(
        name=load.name, rows=rows, would_close=difference[rules.DELETED], allowed=task.manifest.allow_empty
    )


def _counts(difference: Difference, *, rows: int, duplicates: int, returned: int) -> dict[str, int]:
    return {
        "rows": rows,
        "duplicates": duplicates,
        "new": difference[rules.NEW] - returned,
        "reappeared": returned,
        "changed": difference[rules.CHANGED],
        "deleted": difference[rules.DELETED],
        "unchanged": rows - difference.opens,
    }


def _segments(table: DeltaTable, load: RawcoreLoad) -> dict[str, int]:
    """Versions in all and open ones: as the newest run's commit says if it is the table's newest, else counted."""
    signed = table.newest_run_commit()
    if signed is not None and signed.version == table.version() and signed.counts:
        return dict(signed.counts)
    counted = history.segment_counts(table, load.history)
    return {"versions": sum(counted.values()), "open": counted.get(OPEN, 0)}


def _require_commit_of_this_run(task: Task, load: RawcoreLoad, table: DeltaTable, committed: int) -> None:
    """A number already used is this run's own only if the log holds this run's commit."""
    if not table.has_commit_of(task.manifest.run_id):
        raise Refusal(
            "sequence_behind_table",
            f"{load.name}: the table has seen {committed} runs, this run has number {load.sequence}, "
            "and the table holds no commit of it",
            hint="The control database is older than the warehouse: set its sequence past the table's, load again.",
        )
