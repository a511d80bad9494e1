"""First events of a history: versions by comparison of neighbouring rows, without a fold.

While the event log is empty, a key's versions depend on its delivered rows alone, and each of these on the row before
it. The rows are therefore sorted once by key and time and compared by window functions, which Spark compiles, instead
of being collected to arrays and folded. The result is the same as that of ``loader.domain.historization.fold``.
"""

from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.window import Window, WindowSpec

from loader.domain.historization import history as rules
from loader.domain.historization.fold import DELETE, LIVE, VALUE, EventFold
from loader.engine.compared_texts import types_by_name
from loader.engine.expressions import any_of
from loader.engine.historization.events.arrivals import Arrivals
from loader.engine.historization.targets import Stamp
from loader.engine.historization.versions import ACTION, KEY, PACKED, PUT, VERSION
from loader.engine.pyspark_types import row_of
from metadata.domain.history.history_policy import CDC

_COUNTS = (
    "deleted", "reappeared", "changed", "closing", "known", "closed", "removed", "touched", "late", "late_ignored",
    "beyond_horizon", "refused", "deep",
)  # fmt: skip


def compares_rows(fold: EventFold) -> bool:
    """Return True if a row's version depends on its neighbours only: one set of choices, nothing updated in place."""
    return len(fold.eras) == 1 and not fold.eras[0].choices.in_place


@dataclass
class FirstEvents:
    """Rows of a first batch, one per key and time, each with the version that it opens.

    A row ``opens`` a version if its key is not live or a compared value differs, and ``ends`` one if it deletes a live
    key. ``next_at`` and ``next_ends`` are time and kind of the next row of the key that does either.
    """

    arrivals: Arrivals
    stamp: Stamp
    frame: DataFrame = field(init=False)
    _totals: Observation = field(default_factory=Observation)
    _repeats: Observation = field(default_factory=Observation)

    @property
    def fold(self) -> EventFold:
        return self.arrivals.fold

    def compare(self) -> DataFrame:
        """Compare the rows in one pass, and return them as a checkpoint; ``check`` must follow."""
        rows = self.arrivals.rows(self._totals)
        names = [f"k{i}" for i, _ in enumerate(self.arrivals.load.entity_key)]
        latest_first = Window.partitionBy(*names).orderBy(F.desc("own"), F.desc("is_delete"))
        rows = self._with_repeats(rows, latest_first)
        rows = rows.observe(
            self._repeats,
            F.count(F.lit(1)).alias("kept"),
            F.count_if("differs").alias("differing"),
            F.count_if("repeats").alias("duplicates"),
        )
        rows = self._with_versions(rows.where(~F.col("repeats_time")), names, latest_first)
        self.frame = rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        return self.frame

    def check(self) -> None:
        """Raise Refusal as ``Arrivals`` does, and add the same counts."""
        counts, totals, repeats = self.arrivals.counts, self._totals.get, self._repeats.get
        # Spark observes nothing in a plan that it cuts off because no row is left.
        is_cut = "rows" not in totals or "kept" not in repeats
        if is_cut or repeats["differing"] or any(totals[name] for name in ("keys", "times", "ops")):
            self.arrivals.check_rows()
            self.arrivals.check_per_time(self.arrivals.per_time())
            return
        counts["rows"] = totals["rows"]
        counts["skipped_deletes"] = totals["rows"] - repeats["kept"]
        counts["duplicates"] = repeats["duplicates"]

    def _with_repeats(self, rows: DataFrame, latest_first: WindowSpec) -> DataFrame:
        """Add the condition that a row repeats the time of the row before, its content, or differs from it."""
        before = {name: F.lag(name).over(latest_first) for name in ("own", "is_delete", *self._compared())}
        same_time = F.coalesce(before["own"] == F.col("own"), F.lit(False))
        both = before["is_delete"] == F.col("is_delete")
        differs = any_of(~before[name].eqNullSafe(F.col(name)) for name in self._compared())
        # In a feed a D outranks other rows of its time, and stands before them.
        conflict = ~F.col("is_delete") & both & differs if self._is_feed else ~both | differs
        return rows.withColumns(
            {"repeats_time": same_time, "repeats": same_time & both, "differs": same_time & conflict}
        )

    @property
    def _is_feed(self) -> bool:
        return self.arrivals.policy.input == CDC

    def _compared(self) -> list[str]:
        """Return the columns in which rows of one time must not differ."""
        delivered, op = set(self.arrivals.delivered), self.arrivals.policy.op
        return [self.fold.compared(i) for i, c in enumerate(self.fold.columns) if c.key in delivered and c.name != op]

    def _opening(self) -> list[str]:
        """Return the columns in which a difference opens a version."""
        delivered, choices = set(self.arrivals.delivered), self.fold.eras[0].choices
        columns = enumerate(self.fold.columns)
        return [self.fold.compared(i) for i, c in columns if c.key in delivered and choices.opens(c.key)]

    def _with_versions(self, rows: DataFrame, names: list[str], latest_first: WindowSpec) -> DataFrame:
        was_live = F.coalesce(~F.lead("is_delete").over(latest_first), F.lit(False))
        differs = any_of(~F.lead(name).over(latest_first).eqNullSafe(F.col(name)) for name in self._opening())
        is_first = F.lead("is_delete").over(latest_first).isNull()
        rows = rows.withColumns({"is_first": is_first, "was_live": was_live, "differs": differs})
        opens = ~F.col("is_delete") & (~F.col("was_live") | F.col("differs"))
        rows = rows.withColumns({"opens": opens, "ends": F.col("is_delete") & F.col("was_live")})
        turns, later = F.col("opens") | F.col("ends"), latest_first.rowsBetween(Window.unboundedPreceding, -1)
        columns = {
            "next_at": F.last(F.when(turns, F.col("own")), ignorenulls=True).over(later),
            "next_ends": F.last(F.when(turns, F.col("is_delete")), ignorenulls=True).over(later),
        }
        if types_by_name(self.arrivals.load.event_log).keys() & set(self._key_names()):
            all_rows = latest_first.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
            columns[PACKED] = F.last(PACKED).over(all_rows)  # the first text of a key stays
        if self.fold.tombstones:
            until_now = Window.partitionBy(*names).orderBy("own").rowsBetween(Window.unboundedPreceding, 0)
            # A tombstone has the values of the version that it ends.
            columns["ended"] = F.last(F.when(F.col("opens"), self._values()), ignorenulls=True).over(until_now)
        return rows.withColumns(columns).withColumn(KEY, self.arrivals.entity_key([F.col(name) for name in names]))

    def _key_names(self) -> list[str]:
        return [part.column for part in self.arrivals.load.entity_key]

    def _values(self) -> Column:
        values = [F.col(name) for name in self.fold.value_names]
        return F.struct(*values) if values else F.expr("named_struct()")

    # --- result -----------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Return the same numbers as a fold without stored events."""
        last_turn = F.col("next_at").isNull()
        sums = {
            "events": F.count(F.lit(1)),
            "keys": F.count_if(F.col("is_first")),
            "new": F.count_if((F.col("opens") | F.col("ends")) & last_turn),
            "gained": F.count_if(F.col("opens") & last_turn),
            "opened": F.count_if(self._has_version),
        }
        totals = row_of(self.frame.agg(*(total.alias(name) for name, total in sums.items())).first()).asDict()
        unchanged = totals.pop("keys") - totals["new"]
        return dict.fromkeys(_COUNTS, 0) | totals | {"altered": totals["new"], "unchanged": unchanged}

    @property
    def _has_version(self) -> Column:
        return F.col("opens") | F.col("ends") if self.fold.tombstones else F.col("opens")

    def events(self) -> DataFrame:
        """Return the events of the rows: the key, the business key, and the event as ``e``."""
        event = F.struct(
            F.col("own").alias("at"),
            "own",
            F.when(F.col("is_delete"), DELETE).otherwise(VALUE).alias("kind"),
            F.lit(self.arrivals.load.sequence).alias("seq"),
            F.lit(self.stamp.run_id).alias("run"),
            self.stamp.loaded().alias("loaded"),
            F.lit(self.fold.columns_text(self.arrivals.delivered)).alias("cols"),
            self._values().alias("v"),
        )
        return self.frame.select(KEY, PACKED, event.alias("e"))

    def versions(self) -> DataFrame:
        """Return the versions to put, as ``loader.engine.historization.versions.differing`` does."""
        rows = self.frame.where(self._has_version)
        return rows.select(KEY, PACKED, F.lit(PUT).alias(ACTION), self._version().alias(VERSION))

    def newest(self) -> DataFrame:
        """Return the versions, with ``__live`` for the newest one of a live key, and the version as ``__n``."""
        is_live = (F.col("opens") & F.col("next_at").isNull()).alias("__live")
        return self.frame.where(self._has_version).select(KEY, PACKED, is_live, self._version().alias("__n"))

    def _version(self) -> Column:
        is_open, run_id, loaded = F.col("next_at").isNull(), F.lit(self.stamp.run_id), self.stamp.loaded()
        return F.struct(
            F.col("own").alias("start"),
            F.col("next_at").alias("until"),
            self._state().alias("state"),
            run_id.alias("opened"),
            loaded.alias("loaded"),
            F.when(~is_open, run_id).alias("closed"),
            F.when(~is_open, loaded).alias("closed_at"),
            (F.col("ended") if self.fold.tombstones else self._values()).alias("v"),
        )

    def _state(self) -> Column:
        if self.fold.tombstones:
            return F.when(F.col("opens"), LIVE).otherwise(rules.DELETED)
        opened = F.when(F.col("was_live"), rules.CHANGED).otherwise(rules.NEW)
        closed = F.when(F.col("next_ends"), rules.DELETED).otherwise(rules.CHANGED)
        return F.when(F.col("next_at").isNull(), opened).otherwise(closed)
