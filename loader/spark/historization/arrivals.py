"""Checks on the rows of a dated batch: complete, and one row for each key and time.

Rules 1, 5 and 6: every row has a key, a time and a known operation; identical rows of one key and time count
once, rows that differ refuse the batch.
"""

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.domain.fold.events import EventFold
from loader.domain.runs.manifest import RawcoreLoad
from loader.domain.runs.refusals import Refusal
from loader.spark.historization.hashing import digest
from loader.spark.historization.versions import KEY, PACKED, HistoryTable, packed_key
from loader.spark.runtime.conditions import any_of
from metadata.domain.history_policy import CDC, IGNORE, HistoryPolicy
from metadata.domain.sql import quote_identifier

SAMPLES = 5


@dataclass
class Arrivals:
    """Rows of a dated batch; checking them adds rows, skipped_deletes and duplicates to ``counts``."""

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
        """Stable keys of the fold's columns that the batch contains."""
        return tuple(column.key for column in self.fold.columns if column.name in self._types)

    @property
    def _types(self) -> dict:
        return {field.name: field.dataType for field in self.stage.schema.fields}

    @property
    def _own(self) -> Column:
        return F.col(quote_identifier(self.policy.time))

    @property
    def _op(self) -> Column:
        named = self.policy.op and self.policy.input == CDC
        return F.col(quote_identifier(self.policy.op)) if named else F.lit("U")

    def check_rows(self) -> None:
        """Raise Refusal for rows without a key, a time or a known operation, and count the rows."""
        null_key = any_of(F.col(quote_identifier(column.name)).isNull() for column in self.history.business_key)
        null_time = self._own.isNull()
        bad_op = ~F.coalesce(self._op.isin("I", "U", "D"), F.lit(False))
        found = self.stage.agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(null_key).alias("keys"),
            F.count_if(null_time).alias("times"),
            F.count_if(bad_op).alias("ops"),
        ).first()
        self.counts["rows"] = found["rows"]
        policy = self.policy
        for count, code, said, bad, shown, hint in (
            (
                found["keys"], "NULL_KEY", "have no value in their business key", null_key, self._own,
                "Every business-key column needs a value.",
            ),
            (
                found["times"], "NULL_TIME", f"have no value in {policy.time}, which dates them", null_time, self._own,
                "Every row needs its time or sequence.",
            ),
            (
                found["ops"], "UNKNOWN_OP", f"have an operation in {policy.op} that is not I, U or D", bad_op, self._op,
                "Map the source's operations to I, U and D.",
            ),
        ):  # fmt: skip
            if count:
                self._refuse(code, count, said, bad, shown, hint)

    def _refuse(self, code: str, count: int, said: str, bad: Column, shown: Column, hint: str) -> None:
        names = [F.col(quote_identifier(c.name)).cast("string") for c in self.history.business_key]
        samples = self.stage.where(bad).select(*names, shown.cast("string")).limit(SAMPLES).collect()
        raise Refusal(
            code,
            f"{self.load.name}: {count} rows {said}",
            count=count,
            samples=tuple(", ".join(str(value) for value in row) for row in samples),
            hint=hint,
        )

    def per_time(self) -> DataFrame:
        """Return one row for each key and time: ``__key, own, __packed, is_delete, n, contents, v``."""
        types, fold = self._types, self.fold
        entity_key = digest([(p.key, F.col(quote_identifier(p.column)), types[p.column]) for p in self.load.entity_key])
        content = digest(
            [
                (c.key, F.col(quote_identifier(c.name)), types[c.name])
                for c in fold.columns
                if c.name in types and c.name != self.policy.op
            ]
        )
        is_delete = self._op == F.lit("D")
        values = [
            (F.col(quote_identifier(c.name)) if c.name in types else F.lit(None)).cast(c.type).alias(f"c{i}")
            for i, c in enumerate(fold.columns)
        ]
        rows = self.stage.select(
            entity_key.alias(KEY),
            packed_key(self.history.spec),
            self._own.alias("own"),
            is_delete.alias("is_delete"),
            F.when(~is_delete, content).alias("content"),
            F.struct(*values).alias("v") if values else F.expr("named_struct()").alias("v"),
        )
        if self.policy.deletes == IGNORE:
            rows = rows.where(~F.col("is_delete"))
        return rows.groupBy(KEY, "own").agg(
            F.any_value(PACKED).alias(PACKED),
            F.max("is_delete").alias("is_delete"),
            F.count(F.lit(1)).alias("n"),
            F.count_distinct("content").alias("contents"),
            F.any_value("v").alias("v"),
        )

    def check_per_time(self, per_time: DataFrame) -> None:
        """Raise Refusal if rows of one key and time differ; count identical rows as duplicates."""
        conflict = (F.col("contents") > 1) & ~F.col("is_delete")
        found = per_time.agg(
            F.count_if(conflict).alias("conflicts"),
            F.coalesce(F.sum("n"), F.lit(0)).alias("kept"),
            F.coalesce(F.sum(F.col("contents") + F.col("is_delete").cast("int")), F.lit(0)).alias("distinct"),
        ).first()
        self.counts["skipped_deletes"] = self.counts["rows"] - found["kept"]
        self.counts["duplicates"] = found["kept"] - found["distinct"]
        refuse_conflicting(self.load.name, found["conflicts"], per_time.where(conflict), "own", "time")


def refuse_conflicting(name: str, count: int, rows: DataFrame, at: str, said: str) -> None:
    """Raise Refusal CONFLICTING_ROWS if ``count``, the number of keys with conflicting ``rows``, is not 0.

    ``at`` is the column that dates a row, ``said`` its name in the message.
    """
    if not count:
        return
    shown = rows.select(f"{PACKED}.*", at).limit(SAMPLES).collect()
    raise Refusal(
        "CONFLICTING_ROWS",
        f"{name}: {count} keys have rows of one {said} that differ",
        count=count,
        samples=tuple(", ".join(str(value) for value in row) for row in shown),
        hint=f"A batch holds one row per business key and {said}.",
    )
