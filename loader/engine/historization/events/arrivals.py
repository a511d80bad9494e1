"""Rows of a dated batch and their checks (rules 1, 5 and 6).

Every row has a key, a time and a known operation; identical rows of one key and time count once; rows that differ
refuse the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from loader.contract.manifest.loads import RawcoreLoad
from loader.contract.refusals import Refusal
from loader.domain.historization.fold import EventFold
from loader.engine.compared_texts import compared, hash_parts, types_by_name
from loader.engine.expressions import any_of
from loader.engine.hashing import digest
from loader.engine.historization.events.event_log import values_of
from loader.engine.historization.stage import flags_delete
from loader.engine.historization.versions import KEY, PACKED, HistoryTable, packed_key
from loader.engine.pyspark_types import row_of
from metadata.domain.history.history_policy import CDC, IGNORE, HistoryPolicy
from metadata.domain.sql import quote_identifier

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
        totals = row_of(
            per_time.agg(
                F.count_if(conflict).alias("conflicts"),
                F.coalesce(F.sum("n"), F.lit(0)).alias("kept"),
                F.coalesce(F.sum(F.col("contents") + outranks.cast("int")), F.lit(0)).alias("distinct"),
            ).first()
        )
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
