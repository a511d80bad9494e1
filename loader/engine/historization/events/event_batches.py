"""Historization of rows with their own time: effective rows, CDC feeds, dated snapshots (rules 8 to 13).

The rows of a batch become events in the logs of their keys. The logs of these keys are folded without and with the new
events (``loader.domain.historization.fold``). The new events are written to the event log, then the difference between
the two results is written to the history in one commit.

Each event has the sequence of its run. Events with a sequence above the history's belong to a run that died between
the two commits; the next run removes them before it reads the log. So the tables agree after every run, without a
transaction over both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, DELETED, OPEN
from loader.contract.manifest.loads import RawcoreLoad
from loader.contract.refusals import Refusal
from loader.domain.historization import history as rules
from loader.domain.historization.fold import ABSENT, EventFold
from loader.domain.historization.fold import Column as FoldColumn
from loader.domain.historization.history import Choices, eras_with, noted_eras
from loader.domain.historization.load_guards import DeleteGuard
from loader.domain.historization.sql_arrays import struct
from loader.engine.historization.events.arrivals import SAMPLES, Arrivals
from loader.engine.historization.events.event_log import LOG, difference, logs, with_columns
from loader.engine.historization.events.first_events import FirstEvents, compares_rows
from loader.engine.historization.events.folded_keys import FoldedKeys
from loader.engine.historization.policy_notes import by_value
from loader.engine.historization.targets import Stamp
from loader.engine.historization.versions import KEY, PACKED, HistoryTable
from loader.engine.row_limits import ONE_TASK_UP_TO_ROWS
from loader.engine.session import forget
from loader.engine.tables.commits import commit, open_files
from loader.engine.tables.table_files import TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.types import BIGINT, DATE, INTEGER, parse, spark_type

_KEY, _ROWS, _LOG = KEY, "__rows", LOG


@dataclass
class EventBatch:
    """Batch of dated rows, and the history and event log that it is written to.

    ``begins``: the history is new and its event log is not, so the versions of all keys are written.
    ``noted`` are the notes of the history's newest commit. They record the policy under which each event is folded:
    the present policy might not result in the versions of the table.
    """

    session: SparkSession
    load: RawcoreLoad
    history: HistoryTable
    event_log: DeltaTable
    stamp: Stamp
    noted: Mapping[str, str] = field(default_factory=dict)
    forgotten: str | None = None
    begins: bool = False
    open_before: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    _result: FoldedKeys | FirstEvents = field(init=False)
    _checkpoints: list[DataFrame] = field(default_factory=list)

    @property
    def policy(self) -> HistoryPolicy:
        return self.history.policy

    @property
    def sequence(self) -> int:
        return self.load.sequence

    @cached_property
    def files(self) -> TableFiles:
        """Return the files of the event log, as of the first access."""
        return open_files(self.session, self.event_log)

    @cached_property
    def fold(self) -> EventFold:
        """Return the fold over all attributes that the event log ever had, including retired ones."""
        assert self.load.event_log is not None
        observed = self.event_log.observe()
        assert observed is not None
        spec = self.load.event_log
        skipped = {column.name for column in spec.columns if column.purpose != "attribute"}
        now = by_value(self.load)
        types = dict(pair for era in noted_eras(self.noted) for pair in era.choices.by_value) | now
        columns = []
        for column in observed.columns:
            if column.name not in skipped:
                key = column.key or column.name
                columns.append(FoldColumn(key, column.name, spark_type(parse(column.type)), types.get(key, "")))
        pairs = [(column.key, column.name) for column in columns]
        choices = Choices.of(self.policy, pairs, [(key, now[key]) for key, _ in pairs if key in now])
        eras = eras_with(self.noted, self.sequence, choices)
        return EventFold(self.policy, tuple(columns), self.history.time_type, eras)

    def run_time(self) -> str:
        """Return the run's ``at`` as SQL in the type of version starts (rule 8). Raise Refusal for numbers."""
        return run_time(self.load, self.stamp, self.history)

    # --- the batch --------------------------------------------------------------------------------

    def prepare(self, stage: DataFrame, *, guard: DeleteGuard, expected: int | None) -> None:
        """Check the batch and compute its changes without writing; raise Refusal if the batch is invalid."""
        stored = self.files.rows()
        is_known = expected is not None and stored is not None
        self._one_task = is_known and max(expected or 0, stored or 0) <= ONE_TASK_UP_TO_ROWS
        if self._one_task:
            stage = stage.coalesce(1)
        arrivals = Arrivals(self.load, self.history, self.fold, stage, self.counts)
        if not self.files.all and compares_rows(self.fold):
            self._result = self._first_events(arrivals)
        else:
            self._result = FoldedKeys(self._checkpoint(self._fold_rows(self._checked_rows(arrivals))), self.fold)
        self.counts |= self._result.counts()
        if self.policy.closes_absent:
            guard.check(
                name=self.load.name,
                rows=self.counts["rows"],
                would_close=self.counts["closing"],
                open_keys=self.open_before,
            )
        self._refuse_late()

    def take(self, result: DataFrame) -> None:
        """Use the result of another fold, a checkpoint in the form of ``_fold_rows``; ``release`` frees it."""
        self._checkpoints.append(result)
        self._result = FoldedKeys(result, self.fold)
        self.counts |= self._result.counts()

    def _checkpoint(self, frame: DataFrame) -> DataFrame:
        """Return the frame as a checkpoint that lasts until ``release``."""
        checkpoint = frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        self._checkpoints.append(checkpoint)
        return checkpoint

    def _first_events(self, arrivals: Arrivals) -> FirstEvents:
        if self.policy.closes_absent:
            self.run_time()  # raises Refusal in the first load already, though no key can be absent
        events = FirstEvents(arrivals, self.stamp)
        self._checkpoints.append(events.compare())
        events.check()
        return events

    def _checked_rows(self, arrivals: Arrivals) -> DataFrame:
        """Return one row per key and time, or raise Refusal (``loader.engine.historization.events.event_log``)."""
        arrivals.check_rows()
        per_time = self._checkpoint(arrivals.per_time())
        arrivals.check_per_time(per_time)
        self._delivered = self.fold.columns_text(arrivals.delivered)
        return per_time

    # --- the fold ---------------------------------------------------------------------------------

    def _fold_rows(self, rows: DataFrame) -> DataFrame:
        """Return for each key the new events, and its versions without and with them."""
        fold = self.fold
        stamp = struct(
            own="own", is_delete="is_delete", seq=f"{self.sequence}L", run=quote_text(self.stamp.run_id),
            loaded=f"TIMESTAMP {quote_text(self.stamp.loaded_at)}", cols=quote_text(self._delivered), v="v",
        )  # fmt: skip
        delivered = rows.groupBy(_KEY).agg(
            F.min_by(PACKED, "own").alias(PACKED),
            F.expr(f"sort_array(collect_list({stamp}))").alias(_ROWS),
        )
        joined = self._with_logs(delivered)
        absent = self.policy.closes_absent
        run_at = self.run_time() if absent else f"CAST(NULL AS {fold.time_type})"
        forgotten = self._time_literal(self.forgotten) if self.forgotten else None
        columns = {
            "__back": fold.came_back(_LOG, _ROWS),
            "__returns": fold.returns(_LOG, _ROWS, "__back", run_at),
            "__found": fold.candidates(_LOG, _ROWS, "__returns"),
            "__adm": fold.admitted(_LOG, "__found", "__back", forgotten),
            "__was": fold.versions(_LOG, "fo"),
            "old": "filter(__was, w -> false)" if self.begins else "__was",
        }
        events, log = "__adm.admitted", "__adm.log"
        if absent:
            is_absent = f"(size({_ROWS}) = 0 AND {fold.is_live('__was')})"
            columns["__gone"] = self._absence(run_at)
            events = f"IF({is_absent}, array(__gone), {events})"
            log = f"IF({is_absent}, {fold.absent(_LOG, '__gone')}, {log})"
        columns |= {"events": events, "__after": log, "new": fold.versions("__after", "fn")}
        return with_columns(joined, columns).select(
            _KEY,
            PACKED,
            F.expr(f"size({_ROWS}) > 0").alias("delivered"),
            "events",
            "old",
            "new",
            *(F.col(f"__adm.{name}") for name in ("late", "ignored", "beyond", "refused")),
        )

    @property
    def _reads_all_logs(self) -> bool:
        return self.policy.closes_absent or self.begins

    def _absence(self, run_at: str) -> str:
        fold = self.fold
        event = struct(
            at=run_at, rank="1", own=run_at, kind=f"'{ABSENT}'", seq=f"{self.sequence}L",
            run=quote_text(self.stamp.run_id), loaded=f"TIMESTAMP {quote_text(self.stamp.loaded_at)}", cols="','",
            v=f"CAST(NULL AS {fold.values_type})",
        )  # fmt: skip
        return f"CAST({event} AS {fold.event_type})"

    def _with_logs(self, delivered: DataFrame) -> DataFrame:
        """Return the keys of the batch with their logs, and all other stored keys if these are needed, too."""
        rows_type = delivered.schema[_ROWS].dataType.simpleString()
        logs = self._logs(delivered)
        if logs is None:
            return delivered.withColumn(_LOG, F.expr(self.fold.no_events()))
        how = "full_outer" if self._reads_all_logs else "left"
        joined = delivered.alias("a").join(logs.alias("l"), F.col(f"a.{_KEY}") == F.col(f"l.{_KEY}"), how)
        return joined.select(
            F.coalesce(f"a.{_KEY}", f"l.{_KEY}").alias(_KEY),
            F.coalesce(f"l.{PACKED}", f"a.{PACKED}").alias(PACKED),  # the first text of a key stays
            F.coalesce(F.col(f"a.{_ROWS}"), F.expr(f"CAST(array() AS {rows_type})")).alias(_ROWS),
            F.coalesce(F.col(f"l.{_LOG}"), F.expr(self.fold.no_events())).alias(_LOG),
        )

    def _logs(self, delivered: DataFrame) -> DataFrame | None:
        """Return the logs of the batch's keys as sorted arrays, or of all keys if absent ones are closed.

        Return None if the event log is empty.
        """
        spec = self.load.event_log
        assert spec is not None
        if not self.files.all:
            return None
        frame = self.files.frame(self.files.all)
        if self._one_task:
            frame = frame.coalesce(1)
        key = quote_identifier(spec.column("entity_key").name)
        if not self._reads_all_logs:
            wanted = delivered.select(F.col(_KEY).alias("__wanted"))
            frame = frame.join(wanted, F.col(key) == F.col("__wanted"), "left_semi")
        return logs(frame, spec, self.fold)

    def _time_literal(self, text: str) -> str:
        return f"CAST({quote_text(text)} AS {self.fold.time_type})"

    def _refuse_late(self) -> None:
        if not self.counts["refused"]:
            return
        shown = self._result.frame.where("size(refused) > 0").select(f"{PACKED}.*", F.explode("refused"))
        raise Refusal(
            "LATE_ROWS",
            f"{self.load.name}: {self.counts['refused']} rows are late: not after the newest known time of their key",
            count=self.counts["refused"],
            samples=tuple(", ".join(str(value) for value in row) for row in shown.limit(SAMPLES).collect()),
            hint="Let the history policy split history at late rows, or leave them out of the delivery.",
        )

    @property
    def public_counts(self) -> dict[str, int]:
        """Return the counts that the load reports."""
        versions = ("opened", "closed", "removed") if self.load.history else ()
        names = (
            "rows", "duplicates", "new", "reappeared", "changed", "deleted", "unchanged", *versions,
            "late", "late_ignored", "beyond_horizon", "skipped_deletes",
        )  # fmt: skip
        counts = {name: self.counts[name] for name in names}
        return counts if self.policy.closes_absent else counts | {"missing": self.open_before - self.counts["known"]}

    @property
    def versions_added(self) -> int:
        return self.counts["opened"] - self.counts["removed"]

    @property
    def open_added(self) -> int:
        return self.counts["gained"]

    # --- writing ----------------------------------------------------------------------------------

    def write_event_log(self) -> None:
        """Append the events of this run to the event log. Must be called before ``write_history``."""
        if not self.counts["events"]:
            return
        spec = self.load.event_log
        assert spec is not None
        events = self._result.events()
        by_purpose = {
            "entity_key": F.col(_KEY),
            "event_at": F.col("e.at"),
            "event_own": F.col("e.own"),
            "event_kind": F.col("e.kind"),
            "event_columns": F.col("e.cols"),
            "sequence": F.col("e.seq"),
            "run_id": F.col("e.run"),
            "loaded_at": F.col("e.loaded"),
        }
        columns = [value.alias(spec.column(purpose).name) for purpose, value in by_purpose.items()]
        columns += self.history.unpacked_key()
        columns += [F.col(f"e.v.c{i}").alias(c.name) for i, c in enumerate(self.fold.columns)]
        few = events.coalesce(1) if self.counts["events"] <= 100_000 else events
        types = {f.name: f.dataType for f in self.event_log.schema().fields}
        rows = few.select(*columns)
        ordered = [F.col(quote_identifier(name)).cast(type_).alias(name) for name, type_ in types.items()]
        commit(self.files, None, add=rows.select(*ordered))

    def write_history(self, *, small: bool) -> None:
        """Write the difference between the versions before and after to the history, in one commit."""
        rows = self._difference()
        segments = {OPEN, DELETED, CLOSED} if self.counts["deep"] else {OPEN, DELETED}
        self.history.write(rows, self.sequence, touches=bool(self.counts["touched"]), small=small, segments=segments)

    def _difference(self) -> DataFrame:
        return difference(self._result.versions(), self.history, self.fold)

    def live_changes(self) -> DataFrame:
        """Return the keys whose current row differs: entity key, ``__live``, and the values of live keys."""
        key = F.col(_KEY).alias(self.history.spec.column("entity_key").name)
        rows = self._result.newest().select(key, *self.history.unpacked_key(), "__live", "__n")
        own = [c for c in self.fold.columns if any(a.name == c.name for a in self.load.table.of_purpose("attribute"))]
        position = {c.name: i for i, c in enumerate(self.fold.columns)}
        return rows.select(
            "*",
            *(F.col(f"__n.v.c{position[c.name]}").alias(c.name) for c in own),
            F.col("__n.opened").alias("__opened"),
            F.col("__n.loaded").alias("__loaded"),
        ).drop("__n")

    def release(self) -> None:
        for frame in self._checkpoints:
            forget(frame)


def run_time(load: RawcoreLoad, stamp: Stamp, history: HistoryTable) -> str:
    type_ = parse(history.time_column.type).name
    if type_ in (BIGINT, INTEGER):
        raise Refusal(
            "NO_RUN_TIME",
            f"{load.name}: versions are dated by a {type_}, and the run's time has no place among its values",
            hint="Absent keys can be closed only where versions are dated by a timestamp or a date.",
        )
    if type_ == DATE:
        return f"DATE {quote_text(rules.parse_instant(stamp.at).date().isoformat())}"
    return f"TIMESTAMP {quote_text(stamp.at)}"
