"""Event logs of dated rows: checks of delivered rows, removal of events, fold to versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from architecture.domain.tables import TableSpec
from loader.domain.historization import history as rules
from loader.domain.historization.fold import ABSENT, EventFold, struct
from loader.domain.manifest.loads import RawcoreLoad
from loader.domain.refusals import Refusal
from loader.domain.run_states import COMPACT, PRUNE
from loader.spark.compared_texts import compared, hash_parts, types_by_name
from loader.spark.expressions import any_of, digest
from loader.spark.historization.stage import flags_delete
from loader.spark.historization.versions import ACTION, KEY, PACKED, VERSION, HistoryTable, packed_key
from loader.spark.pyspark_types import row_of
from loader.spark.tables.table_files import TableFiles
from loader.spark.tables.tables import DeltaTable, RunCommit
from metadata.domain.history.history_policy import CDC, IGNORE, HistoryPolicy
from metadata.domain.sql import quote_identifier

LOG = "__log"


def with_columns(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Return the frame with columns added in order; each expression may use the columns before it.

    All are added by one SQL statement: Spark analyses a frame anew at every step, and the expressions are long.
    """
    query = "SELECT * FROM {frame}"
    for name, expression in columns.items():
        escaped = expression.replace("{", "{{").replace("}", "}}")
        query = f"SELECT *, {escaped} AS {name} FROM ({query})"
    return frame.sparkSession.sql(query, frame=frame)


def logs(frame: DataFrame, spec: TableSpec, fold: EventFold) -> DataFrame:
    """Return the valid events of an event log as one sorted array per key: key, business key, ``__log``.

    An event is void if a later run recorded the key as absent at or before the event's time. Of several
    events of one time, that of the newest run is used (a correction).
    """
    column = {purpose: quote_identifier(spec.column(purpose).name) for purpose in (
        "entity_key", "event_at", "event_own", "event_kind", "event_columns", "sequence", "run_id", "loaded_at"
    )}  # fmt: skip
    kind = column["event_kind"]
    events = frame.select(
        F.col(column["entity_key"]).alias(KEY),
        packed_key(spec),
        F.col(column["event_at"]).alias("at"),
        F.expr(f"CAST(CASE {kind} WHEN 'value' THEN 0 WHEN 'return' THEN 2 ELSE 1 END AS INT)").alias("rank"),
        F.col(column["event_own"]).alias("own"),
        F.col(kind).alias("kind"),
        F.col(column["sequence"]).alias("seq"),
        F.col(column["run_id"]).alias("run"),
        F.col(column["loaded_at"]).alias("loaded"),
        F.col(column["event_columns"]).alias("cols"),
        F.struct(*values_of(fold, [F.col(quote_identifier(c.name)) for c in fold.columns])).alias("v"),
    )
    is_absent = F.col("kind") == ABSENT
    until_now = Window.partitionBy(KEY).orderBy("at")
    of_time = Window.partitionBy(KEY, "at", "own", "is_absent").orderBy(F.desc("seq"))
    counting = (
        events.withColumn("is_absent", is_absent)
        .withColumn("absent_seq", F.max(F.when(is_absent, F.col("seq"))).over(until_now))
        .where("absent_seq IS NULL OR absent_seq <= seq")
        .withColumn("nth", F.row_number().over(of_time))
        .where("nth = 1")
    )
    names_in_order = ("at", "rank", "own", "kind", "seq", "run", "loaded", "cols", "v")
    event = struct(**{name: name for name in names_in_order})
    return counting.groupBy(KEY).agg(
        F.any_value(PACKED).alias(PACKED),
        F.expr(f"sort_array(collect_list({event}))").alias(LOG),
    )


def values_of(fold: EventFold, columns: Sequence[Column]) -> list[Column]:
    """Return the fields of the struct ``v``: the columns' values, and the texts by which some are compared."""
    values = [column.alias(f"c{i}") for i, column in enumerate(columns)]
    pairs = enumerate(zip(fold.columns, columns, strict=True))
    return values + [compared(column, c.compared).alias(f"n{i}") for i, (c, column) in pairs if c.compared]


def difference(versions: DataFrame, history: HistoryTable, fold: EventFold) -> DataFrame:
    """Return the versions to put and to remove (``differing``) as rows of the table."""
    versions = history.with_values(versions, fold.columns)
    entity_key = history.name("entity_key")
    state, is_open = F.col(f"{VERSION}.state"), F.col(f"{VERSION}.until").isNull()
    values = {
        "history_key": history.history_key(F.col(entity_key), F.col(f"{VERSION}.start")),
        "started_at": F.col(f"{VERSION}.start"),
        "updated_at": F.col(f"{VERSION}.start"),
        "ended_at": F.coalesce(F.col(f"{VERSION}.until"), history.open_until),
        "state": history.label(state),
        "active": is_open if not history.tombstones else is_open & (state != rules.DELETED),
        "run_id": F.col(f"{VERSION}.opened"),
        "loaded_at": F.col(f"{VERSION}.loaded"),
        "closed_by": F.col(f"{VERSION}.closed"),
        "closed_at": F.col(f"{VERSION}.closed_at"),
        "segment": history.segment(state, is_open),
    }
    return history.rows(versions, values, (ACTION,))


# Guards of a history's event log against foreign changes and interrupted runs. Events of a load that died before its
# history commit have a run sequence above the history's. If a revert died before it removed the events, the commit
# metadata of the history name the sequence of the reverted run (``void``).


EVENT_LOG_CHANGED, EVENT_LOG_MISSING = "EVENT_LOG_CHANGED", "EVENT_LOG_MISSING"
VOID = "void"


def refuse_changed(event_log: DeltaTable, name: str, *, newest_run: int | None = None) -> bool:
    """Raise Refusal EVENT_LOG_CHANGED if another writer changed or restored the event log since its newest run.

    The history's versions are computed from these events; from other events, a load could open a key twice. With
    ``newest_run``, the newest run sequence in the history, changes are permitted unless they removed events of runs
    in the history. Return True if there are foreign changes.
    """
    foreign = event_log.foreign_changes()
    if not foreign or (newest_run is not None and not _lost_events(event_log, newest_run)):
        return bool(foreign)
    changes = ", ".join(change.described for change in foreign)
    raise Refusal(
        EVENT_LOG_CHANGED,
        f"{name}: another writer changed the event log of the history: {changes}",
        hint=f"Bring it back (RESTORE TABLE {event_log.sql_name} TO VERSION AS OF {foreign[-1].version - 1}), then run "
        "again. If it is right together with the history: manage.py accept_table.",
    )


def refuse_missing(event_log: TableFiles, name: str, *, versions: int = 0, rows: int = 0) -> None:
    """Raise Refusal EVENT_LOG_MISSING if the event log is empty, lost or new, but the leading table is not.

    ``versions`` are those of a history, ``rows`` those of rawcore without one.
    """
    if event_log.all or not (versions or rows):
        return
    leading = f"the history has {versions} versions" if versions else f"the table has {rows} rows"
    raise Refusal(
        EVENT_LOG_MISSING,
        f"{name}: {leading}, and its event log is empty",
        hint=f"Bring the event log back from a backup ({event_log.table.location}), then run again. If it is gone for "
        "good, give the data a dataset of its own and load its deliveries again.",
        count=versions or rows,
    )


def _lost_events(event_log: DeltaTable, newest_run: int) -> bool:
    """Return True if a RESTORE removed events of runs up to sequence ``newest_run``."""
    newest = event_log.newest_run_commit()
    current = newest.version if newest else -1
    runs = (run_commit for run_commit in event_log.run_commits() if run_commit.what not in (PRUNE, COMPACT))
    return any(run.version > current and run.sequence <= newest_run for run in runs)


def forget_unfinished(
    session: SparkSession, event_log: DeltaTable, spec: TableSpec, committed: int, last_run: RunCommit | None
) -> None:
    """Remove the events of a load or revert that died between its commits.

    ``committed`` is the newest run sequence in the history, ``last_run`` the newest history commit of a run.
    """
    newest = event_log.newest_run_commit()
    if newest is None:
        return
    sequence = quote_identifier(spec.column("sequence").name)
    conditions = [f"{sequence} > {int(committed)}"] if newest.sequence > committed else []
    if last_run is not None and VOID in last_run.notes and newest.run_id != last_run.run_id:
        conditions.append(f"{sequence} = {int(last_run.notes[VOID])}")
    if conditions:
        session.sql(f"DELETE FROM {event_log.sql_name} WHERE {' OR '.join(conditions)}")


def forget_run(session: SparkSession, event_log: DeltaTable, spec: TableSpec, sequence: int) -> None:
    """Remove the events of one run."""
    column = quote_identifier(spec.column("sequence").name)
    session.sql(f"DELETE FROM {event_log.sql_name} WHERE {column} = {int(sequence)}")


# Checks of the rows of a dated batch (rules 1, 5 and 6): every row has a key, a time and a known operation; identical
# rows of one key and time count once; rows that differ refuse the batch.


SAMPLES = 5


@dataclass
class Arrivals:
    """Rows of a dated batch. Their checks add rows, skipped_deletes and duplicates to ``counts``."""

    load: RawcoreLoad
    history: HistoryTable
    fold: EventFold
    stage: DataFrame
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def policy(self) -> HistoryPolicy:
        return self.history.policy

    @property
    def delivered(self) -> tuple[str, ...]:
        """Return stable keys of the fold's columns that the batch contains."""
        return tuple(column.key for column in self.fold.columns if column.name in self._types)

    @property
    def _types(self) -> dict:
        return {field.name: field.dataType for field in self.stage.schema.fields}

    @property
    def _own(self) -> Column:
        return F.col(quote_identifier(self.policy.time))

    @property
    def _op(self) -> Column:
        name = self.policy.op if self.policy.input == CDC else None
        return F.col(quote_identifier(name)) if name else F.lit("U")

    @property
    def _is_delete(self) -> Column:
        return flags_delete(self.policy) if self.policy.delete_flag is not None else self._op == F.lit("D")

    def _faults(self) -> tuple[Column, Column, Column]:
        """Return the conditions of a row without a key, without a time, and without a known operation."""
        null_key = any_of(F.col(quote_identifier(column.name)).isNull() for column in self.history.business_key)
        return null_key, self._own.isNull(), ~F.coalesce(self._op.isin("I", "U", "D"), F.lit(False))

    def _totals(self) -> list[Column]:
        counts = dict(zip(("keys", "times", "ops"), self._faults(), strict=True))
        return [F.count(F.lit(1)).alias("rows"), *(F.count_if(fault).alias(name) for name, fault in counts.items())]

    def entity_key(self, columns: Sequence[Column]) -> Column:
        """Return the digest of the entity key's values."""
        own = {part.column: column for part, column in zip(self.load.entity_key, columns, strict=True)}
        return digest(hash_parts(self.load.entity_key, self._types, types_by_name(self.load.table), own))

    def _compared_keys(self) -> list[Column]:
        types, names = types_by_name(self.load.table), [part.column for part in self.load.entity_key]
        return [compared(column, types.get(name, "")) for name, column in zip(names, self.key_columns, strict=True)]

    @property
    def key_columns(self) -> list[Column]:
        return [F.col(quote_identifier(part.column)) for part in self.load.entity_key]

    def _values(self) -> list[Column]:
        """Return the fields of ``v``; NULL for columns that the batch does not contain."""
        columns = [
            (F.col(quote_identifier(c.name)) if c.name in self._types else F.lit(None)).cast(c.type)
            for c in self.fold.columns
        ]
        return values_of(self.fold, columns)

    def rows(self, totals: Observation) -> DataFrame:
        """Return the unchecked rows: entity key ``k0, …``, ``__packed``, ``own``, ``is_delete``, values ``c0, …``.

        ``totals`` receives the numbers of rows, and of those without a key, a time or a known operation.
        """
        rows = self.stage.observe(totals, *self._totals()).select(
            *(column.alias(f"k{i}") for i, column in enumerate(self._compared_keys())),
            packed_key(self.history.spec),
            self._own.cast(self.fold.time_type).alias("own"),
            F.coalesce(self._is_delete, F.lit(False)).alias("is_delete"),
            *self._values(),
        )
        return rows.where(~F.col("is_delete")) if self.policy.deletes == IGNORE else rows

    def check_rows(self) -> None:
        """Raise Refusal for rows without a key, a time or a known operation, and count the rows."""
        null_key, null_time, bad_op = self._faults()
        sums = row_of(self.stage.agg(*self._totals()).first())
        self.counts["rows"] = sums["rows"]
        policy = self.policy
        for count, code, message, bad, shown, hint in (
            (
                sums["keys"], "NULL_KEY", "have no value in their business key", null_key, self._own,
                "Every business-key column needs a value.",
            ),
            (
                sums["times"], "NULL_TIME", f"have no value in {policy.time}, which dates them", null_time, self._own,
                "Every row needs its time or sequence.",
            ),
            (
                sums["ops"], "UNKNOWN_OP", f"have an operation in {policy.op} that is not I, U or D", bad_op, self._op,
                "Map the source's operations to I, U and D.",
            ),
        ):  # fmt: skip
            if count:
                self._refuse(code, count, message, bad, shown, hint)

    def _refuse(self, code: str, count: int, problem: str, bad: Column, shown: Column, hint: str) -> None:
        names = [F.col(quote_identifier(c.name)).cast("string") for c in self.history.business_key]
        samples = self.stage.where(bad).select(*names, shown.cast("string")).limit(SAMPLES).collect()
        raise Refusal(
            code,
            f"{self.load.name}: {count} rows {problem}",
            count=count,
            samples=tuple(", ".join(str(value) for value in row) for row in samples),
            hint=hint,
        )

    def per_time(self) -> DataFrame:
        """Return one row for each key and time: ``__key, own, __packed, is_delete, n, contents, v``."""
        types, fold = self._types, self.fold
        content = digest(
            [
                (c.key, compared(F.col(quote_identifier(c.name)), c.compared), types[c.name])
                for c in fold.columns
                if c.name in types and c.name != self.policy.op
            ]
        )
        is_delete = self._is_delete
        # In a feed a D outranks other rows of its time; a flagged row is compared with them.
        ranked = F.when(~is_delete, content) if self.policy.input == CDC else F.concat(is_delete, content)
        values = self._values()
        rows = self.stage.select(
            self.entity_key(self.key_columns).alias(KEY),
            packed_key(self.history.spec),
            self._own.alias("own"),
            is_delete.alias("is_delete"),
            ranked.alias("content"),
            F.struct(*values).alias("v") if values else F.expr("named_struct()").alias("v"),
        )
        if self.policy.deletes == IGNORE:
            rows = rows.where(~F.col("is_delete"))
        rows = self.history.former_keys.kept(rows, KEY, self.load.leading, self.load.event_log)
        return rows.groupBy(KEY, "own").agg(
            F.any_value(PACKED).alias(PACKED),
            F.max("is_delete").alias("is_delete"),
            F.count(F.lit(1)).alias("n"),
            F.count_distinct("content").alias("contents"),
            F.any_value("v").alias("v"),
        )

    def check_per_time(self, per_time: DataFrame) -> None:
        """Raise Refusal if rows of one key and time differ; count identical rows as duplicates."""
        outranks = F.col("is_delete") & F.lit(self.policy.input == CDC)
        conflict = (F.col("contents") > 1) & ~outranks
        totals = row_of(per_time.agg(
            F.count_if(conflict).alias("conflicts"),
            F.coalesce(F.sum("n"), F.lit(0)).alias("kept"),
            F.coalesce(F.sum(F.col("contents") + outranks.cast("int")), F.lit(0)).alias("distinct"),
        ).first())
        self.counts["skipped_deletes"] = self.counts["rows"] - totals["kept"]
        self.counts["duplicates"] = totals["kept"] - totals["distinct"]
        refuse_conflicting(self.load.name, totals["conflicts"], per_time.where(conflict), "own", "time")


def refuse_conflicting(name: str, count: int, rows: DataFrame, at: str, time_name: str) -> None:
    """Raise Refusal CONFLICTING_ROWS if ``count``, the number of keys with conflicting ``rows``, is not 0.

    ``at`` is the column with the time of a row, ``time_name`` its name in the message.
    """
    if not count:
        return
    shown = rows.select(f"{PACKED}.*", at).limit(SAMPLES).collect()
    raise Refusal(
        "CONFLICTING_ROWS",
        f"{name}: {count} keys have rows of one {time_name} that differ",
        count=count,
        samples=tuple(", ".join(str(value) for value in row) for row in shown),
        hint=f"A batch holds one row per business key and {time_name}.",
    )
