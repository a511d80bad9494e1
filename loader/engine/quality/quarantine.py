"""Quarantine of a dataset: rows that failed checks, kept aside in a Delta table of their own.

The table is at ``.quarantine/<stable key of the dataset's table>`` in the warehouse. It has the same columns for every
dataset, so that no change of a dataset changes it: values are texts by the stable key of their column. A row stays
until a maintenance run releases or drops it. A released row is not quarantined again; it is added to the next load
unless the dataset's deliveries are complete, since it is delivered again then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from architecture.domain.tables import TableSpec
from loader.contract.check_outcomes import QUARANTINED
from loader.contract.manifest.loads import RawcoreLoad
from loader.domain.quality.checks import CompiledCheck
from loader.engine.compared_texts import compared, types_by_name
from loader.engine.expressions import all_of
from loader.engine.historization.targets import Stamp, Target
from loader.engine.quality import row_conditions
from loader.engine.quality.frame_checks import CheckedRows, RowChecker
from loader.engine.tables.tables import DeltaTable
from metadata.domain.history.history_policy import CDC, EFFECTIVE, WINDOW, HistoryPolicy
from metadata.domain.quality import check_kinds
from metadata.domain.sql import quote_identifier, quote_text

FOLDER = ".quarantine"
WAITING, RELEASED, LOADED = "waiting", "released", "loaded"
# State of rows of a refused delivery (``loader.engine.quality.delivery_quarantine``).
REFUSED = "refused"
# Keys of values of a raw dataset's rows that are no columns; no stable key is like them.
FILE, ROW, RECORD_TEXT = "__file", "__row", "__record"
_REASONS, _ENTRY = "__reasons", "__entry"


def quarantine_table(session: SparkSession, warehouse: str, key: str) -> DeltaTable:
    """Return the quarantine of the dataset whose table has this stable key."""
    return DeltaTable(session, f"{warehouse.rstrip('/')}/{FOLDER}", key)


@dataclass(frozen=True)
class Quarantine:
    """Quarantine of one load's dataset."""

    session: SparkSession
    warehouse: str
    load: RawcoreLoad
    stamp: Stamp

    @property
    def table(self) -> DeltaTable:
        return quarantine_table(self.session, self.warehouse, self.load.table.key)

    @property
    def _is_complete(self) -> bool:
        """Return True if a delivery has all rows: what it lacks was deleted."""
        return HistoryPolicy.from_dict(self.load.policy).closes_absent

    @property
    def closes_absent(self) -> bool:
        """Return True if absent keys count as deleted, all or those of a window."""
        return self._is_complete or HistoryPolicy.from_dict(self.load.policy).delete_detection == WINDOW

    def set_aside(self, checked: CheckedRows, checker: RowChecker, target: Target) -> tuple[DataFrame, int]:
        """Write the failing rows to the quarantine; return the rows to load, and the number of rows set aside.

        Where absent keys count as deleted, all or those of a window, the stored row of a quarantined key takes its
        place, so that its version stays open.
        """
        frame = checked.frame
        results = [result for result in checked.results if result.outcome == QUARANTINED]
        if not results:
            return self.with_released(frame, target), 0
        released = self._released()
        flagged = self._flagged(frame, [checked.compiled[result.key] for result in results], checker)
        if released is not None:
            exempt = F.broadcast(released.select(F.col("entry_id").alias(_ENTRY), F.lit(True).alias("__exempt")))
            flagged = flagged.join(exempt.distinct(), _ENTRY, "left")
            no_reasons = F.array().cast("array<struct<check:string,reason:string>>")
            flagged = flagged.withColumn(_REASONS, F.when(F.col("__exempt"), no_reasons).otherwise(F.col(_REASONS)))
        bad = flagged.where(F.size(_REASONS) > 0)
        count = self._write(bad)
        good = flagged.where(F.size(_REASONS) == 0).select(*map(quote_identifier, frame.columns))
        if self.closes_absent:
            good = good.unionByName(self._stored(good, target, of=bad))
        return self._with_released(good, released, target), count

    def with_all_stored(self, frame: DataFrame, target: Target) -> tuple[DataFrame, int]:
        """Return the rows of a delivery that lacks some, with the stored rows of all keys that it does not have.

        Nothing says which keys the missing rows have, so no version may be closed. The second value is the number of
        stored rows. There are none where absent keys stay open without a detection of deletes.
        """
        if not self._is_complete:
            return frame, 0
        stored = self._stored(frame, target)
        return frame.unionByName(stored), stored.count()

    def with_released(self, frame: DataFrame, target: Target) -> DataFrame:
        """Return rows of which none is set aside, with those released since the last load.

        No row waits any longer if the delivery is complete.
        """
        if not self.table.exists():
            return frame
        if self._is_complete:
            self.session.sql(f"DELETE FROM {self.table.sql_name} WHERE state = '{WAITING}'")
        return self._with_released(frame, self._released(), target)

    # --- finding the rows -------------------------------------------------------------------------

    def _flagged(self, frame: DataFrame, checks: Sequence, checker: RowChecker) -> DataFrame:
        """Return the rows with their entry and the checks that they failed, with reasons."""
        rows, reasons = frame.withColumn(_ENTRY, self._entry(frame)), []
        for place, check in enumerate(checks):
            if check.error:
                reason = f"{check.spec.name}: could not be computed ({check.error})"
                reasons.append(F.when(row_conditions.is_incomputable(self.session, check), _reason(check, reason)))
            if check.fails:
                reasons.append(F.when(row_conditions.is_true(self.session, check), _reason(check, check.spec.name)))
                continue
            names = check.rule.columns
            values = (
                checker.repeated_keys(check, frame)
                if check.rule.kind == check_kinds.UNIQUE
                else checker.without_partner(check, frame)
            )
            wrong = values.select(
                *(checker.compared_value(name).alias(f"__wrong_{place}_{i}") for i, name in enumerate(names))
            ).distinct()
            own_values = (checker.compared_value(name) for name in names)
            equal = all_of(value == F.col(f"__wrong_{place}_{i}") for i, value in enumerate(own_values))
            rows = rows.join(wrong, equal, "left")
            is_wrong = row_conditions.is_true(self.session, check) & F.col(f"__wrong_{place}_0").isNotNull()
            reasons.append(F.when(is_wrong, _reason(check, check.spec.name)))
        return rows.withColumn(_REASONS, F.array_compact(F.array(*reasons)))

    def _columns(self, frame: DataFrame) -> list[tuple[str, str]]:
        """Return the frame's columns as pairs of stable key (or name) and name, in the order of the keys."""
        keys = {column.name: column.key or column.name for column in self.load.table.columns}
        return sorted((keys.get(name, name), name) for name in frame.columns)

    def _entry(self, frame: DataFrame) -> Column:
        """Return the identity of a row: a hash of all its values, so that an equal row is the same entry."""
        types = {field.name: field.dataType for field in frame.schema.fields}
        parts = [F.lit(self.load.table.key)]
        for key, name in self._columns(frame):
            parts += [F.lit(key), F.coalesce(F.concat(F.lit("="), _text(name, types[name])), F.lit(""))]
        return F.sha2(F.to_json(F.array(*parts)), 256)

    # --- writing ----------------------------------------------------------------------------------

    def _write(self, bad: DataFrame) -> int:
        """Write the rows in place of those of an earlier attempt of the run; return their number.

        A complete delivery replaces all waiting rows, since it has every row that still fails.
        """
        types = {field.name: field.dataType for field in bad.schema.fields}
        own = [(key, name) for key, name in self._columns(bad) if not name.startswith("__")]
        values = [item for key, name in own for item in (F.lit(key), _text(name, types[name]))]
        rows = bad.select(
            F.col(_ENTRY).alias("entry_id"),
            F.lit(self.stamp.run_id).alias("run_id"),
            self.stamp.loaded().alias("quarantined_at"),
            F.transform(_REASONS, lambda failed: failed["check"]).alias("checks"),
            F.transform(_REASONS, lambda failed: failed["reason"]).alias("reasons"),
            F.create_map(*values).alias("row_values"),
            F.lit(WAITING).alias("state"),
            F.lit(None).cast("string").alias("decided_by"),
            F.lit(None).cast("string").alias("loaded_by"),
        )
        replaced = f"state = '{WAITING}'"
        if not self._is_complete:
            replaced += f" AND run_id = {quote_text(self.stamp.run_id)}"
        rows.write.format("delta").mode("overwrite").option("replaceWhere", replaced).save(self.table.location)
        return self.table.frame().where(replaced).count()

    # --- rows in their place -----------------------------------------------------------------------

    def _key(self) -> list[str]:
        return [column.name for column in self.load.table.of_purpose("business_key")]

    def _stored(self, good: DataFrame, target: Target, of: DataFrame | None = None) -> DataFrame:
        """Return the stored rows of the keys that have no row in ``good``; of those in ``of``, or of all."""
        kept = target.current() if target.history else target.rawcore.frame()
        if of is not None:
            kept = self._join_keys(kept, of, "left_semi")
        return _shaped(self._join_keys(kept, good, "left_anti"), good.schema)

    def _join_keys(self, rows: DataFrame, others: DataFrame, how: str) -> DataFrame:
        """Return the rows joined with the distinct business keys of other rows."""
        pairs = [(f"__same{i}", self._compared_key(name)) for i, name in enumerate(self._key())]
        keys = others.select(*(value.alias(alias) for alias, value in pairs)).distinct()
        return rows.join(keys, all_of(value == F.col(alias) for alias, value in pairs), how)

    def _compared_key(self, name: str, column: Column | None = None) -> Column:
        """Return the values of a key column as they are compared."""
        types = types_by_name(self.load.table)
        return compared(F.col(quote_identifier(name)) if column is None else column, types.get(name, ""))

    # --- released rows -----------------------------------------------------------------------------

    def _released(self) -> DataFrame | None:
        """Return the entries that were released, loaded or not; None if there are none."""
        if not self.table.exists():
            return None
        rows = self.table.frame().where(F.col("state").isin(RELEASED, LOADED))
        return None if rows.isEmpty() else rows

    def _with_released(self, frame: DataFrame, released: DataFrame | None, target: Target) -> DataFrame:
        """Return the rows with those released since the last load.

        Unless rows of a key differ by their time, a delivered row wins over them, and the newest of them over others.
        """
        policy = HistoryPolicy.from_dict(self.load.policy)
        if released is None or self._is_complete:
            return frame
        committed = [commit.run_id for commit in target.leading.run_commits()]
        taken = F.col("loaded_by").isin(committed) if committed else F.lit(False)
        self.session.sql(
            f"UPDATE {self.table.sql_name} SET state = '{LOADED}' WHERE state = '{RELEASED}' AND loaded_by IN "
            f"({', '.join(map(quote_text, committed)) or 'NULL'})"
        )
        pending = released.where((F.col("state") == RELEASED) & ~F.coalesce(taken, F.lit(False)))
        if pending.isEmpty():
            return frame
        self.session.sql(
            f"UPDATE {self.table.sql_name} SET loaded_by = {quote_text(self.stamp.run_id)} WHERE state = '{RELEASED}'"
        )
        keys = {name: key for key, name in self._columns(frame)}
        newest = F.max_by(F.col("row_values"), F.struct("quarantined_at", "entry_id"))
        names = self._key() if policy.input not in (EFFECTIVE, CDC) else []
        alike = [self._compared_key(name, F.col("row_values")[keys[name]]) for name in names] or [F.col("entry_id")]
        rows = pending.groupBy(*(value.alias(f"__key{place}") for place, value in enumerate(alike))).agg(
            newest.alias("row_values")
        )
        rows = rows.select(
            *(
                _value(F.col("row_values")[keys[field.name]], field.dataType).alias(field.name)
                for field in frame.schema.fields
            )
        )
        if names:
            rows = self._join_keys(rows, frame, "left_anti")
        return frame.unionByName(rows)


def _reason(check: CompiledCheck, text: str) -> Column:
    return F.struct(F.lit(check.spec.key).alias("check"), F.lit(text).alias("reason"))


def _text(name: str, type_: T.DataType) -> Column:
    column = F.col(quote_identifier(name))
    return F.base64(column) if isinstance(type_, T.BinaryType) else column.cast("string")


def _value(text: Column, type_: T.DataType) -> Column:
    return F.unbase64(text) if isinstance(type_, T.BinaryType) else text.cast(type_)


def _shaped(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """Return the frame with the columns and types of a schema; columns that it lacks are NULL."""
    present = set(frame.columns)
    return frame.select(*(
        (F.col(quote_identifier(field.name)) if field.name in present else F.lit(None)).cast(field.dataType)
        .alias(field.name)
        for field in schema.fields
    ))  # fmt: skip


def entry_token(secret: str) -> Column:
    """Return the token of an entry that readers see and decisions name.

    The entry itself is a hash of all values of its row, which would confirm guessed values that are masked.
    """
    return F.sha2(F.concat_ws(" ", F.lit(secret), F.col("entry_id")), 256)


def waiting_rows(table: DeltaTable, version: int, spec: TableSpec, *, secret: str, run_id: str = "") -> DataFrame:
    """Return the waiting rows in a version of a dataset's quarantine, with the dataset's present columns as text.

    With ``run_id`` only those of this run, or of the delivery that it refused. Columns of the quarantine itself come
    first: token of the entry, computed with the secret, run, time and reasons; for a raw dataset also file, row and
    the text of a malformed record.
    """
    described = spec.of_purpose("business_key", "attribute")
    values = (F.col("row_values")[column.key or column.name].alias(column.name) for column in described)
    rows = table.frame_as_of(version)
    if run_id:
        rows = rows.where(F.col("state").isin(WAITING, REFUSED) & (F.col("run_id") == run_id))
    else:
        rows = rows.where(F.col("state") == WAITING)
    places = (FILE, ROW, RECORD_TEXT) if spec.kind == "raw" else ()
    in_order = (FILE, F.col(ROW).cast("bigint")) if places else ()
    return rows.select(
        entry_token(secret).alias("__entry"),
        F.col("run_id").alias("__run"),
        F.col("quarantined_at").cast("string").alias("__at"),
        F.concat_ws(", ", "reasons").alias("__reasons"),
        *(F.col("row_values")[place].alias(place) for place in places),
        *values,
    ).orderBy(F.col("__at").desc(), *in_order, "__entry")
