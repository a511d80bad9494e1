"""Delta commits by public interfaces: an append, an overwrite (``replaceWhere``) or one MERGE for each.

The engine reads the table at one version (``versionAsOf``) and identifies the rows to remove by their key. The direct
path relies on Delta's transaction; here three checks refuse a table that another writer has changed (``TableMoved``):

* before the write, the newest version must be the one that was read;
* the rows to write contain a scalar subquery over the table's newest version, which raises an error unless its
  rows are in the same files as those that were read. Delta runs it in the write's transaction, so the write fails
  after a commit between the first check and the start of the transaction;
* the same subquery reads the whole table, so Delta detects a later commit of another writer as a conflict.

``txnAppId`` and ``txnVersion`` are options of a write, and settings of the session for MERGE. Delta silently skips a
write with a number that the table already has; therefore the commit after the version read is compared with this
session's ``userMetadata``.

A write can have one transaction id. Further ones (the files of a feed) are committed before it, each in an empty
commit. If a run dies in between, its files are recorded under a run number without a run, and are read again
(``loader.domain.sources.feeds``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

from delta.tables import DeltaTable as Delta
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from loader.engine.java_errors import JAVA_ERRORS, thrown_by
from loader.engine.pyspark_types import row_of
from loader.engine.session import USER_METADATA, forget
from loader.engine.tables.table_files import CONFLICTS, PLACE, Changes, TableFiles
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier, quote_text

_APP_ID = "spark.databricks.delta.write.txnAppId"
_NUMBER = "spark.databricks.delta.write.txnVersion"
# The check is off, because rows of a replaced partition also go to others: a closed version leaves the open segment.
_CHECKED = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
_ADDED = "__added"
_MOVED = "elevata: the table moved"
# Class names of Delta's exceptions, for those that are not converted to Python classes.
_CONFLICT_NAMES = tuple(conflict.__name__ for conflict in CONFLICTS)
# Application id of a transaction, with its version.
Number = tuple[str, int]
# Hashes of file names are reduced to numbers below this, so that their sum over a table's rows does not overflow.
_MODULUS = 2**31 - 1


@dataclass(frozen=True)
class Part:
    """Rows of a table with one value of its partition column, or all rows of an unpartitioned table."""

    rows: int
    column: str = ""
    value: str = ""

    @property
    def condition(self) -> Column:
        return F.col(quote_identifier(self.column)) == self.value if self.column else F.lit(True)


@dataclass(frozen=True)
class PublicFiles(TableFiles):
    """Content of a table at one version; a *file* is a ``Part``.

    ``key`` are the columns by which a commit identifies placed rows. Rows with equal values in them are removed
    together.
    """

    session: SparkSession
    table: DeltaTable
    key: tuple[str, ...] = ()

    @cached_property
    def version(self) -> int:
        return self.table.version()

    @property
    def _rows(self) -> DataFrame:
        return self.table.frame_as_of(self.version)

    @cached_property
    def all(self) -> list[Part]:
        """Return the parts with rows, counted without reading columns."""
        observed = self.table.observe()
        columns = observed.partition_by if observed else ()
        if not columns:
            rows = self._rows.count()
            return [Part(rows)] if rows else []
        (column,) = columns
        counted = self._rows.groupBy(quote_identifier(column)).count().collect()
        return sorted((Part(rows, column, str(value)) for value, rows in counted), key=lambda part: part.value)

    def where(self, column: str, *values: str) -> list[Part]:
        return [part for part in self.all if part.column == column and part.value in values]

    def frame(self, files: list[Part] | None = None, *, placed: bool = False) -> DataFrame:
        frame = self._rows
        if files is not None:
            frame = frame.where(_any_of(files))
        return frame.select("*", self._place().alias(PLACE)) if placed else frame

    def rows(self) -> int | None:
        return sum(part.rows for part in self.all)

    def _place(self, prefix: str = "") -> Column:
        """Return the key of a row as text."""
        columns = [F.col(f"{prefix}{quote_identifier(name)}").cast("string") for name in self.key]
        return columns[0] if len(columns) == 1 else F.to_json(F.array(*columns))

    # --- commits ------------------------------------------------------------------------------------

    def commit(self, changes: Changes) -> bool:
        if self.table.version() != self.version:
            raise self.moved()
        app_id, sequence = changes.app_id, changes.sequence
        if app_id is not None and self.table.committed_sequence(app_id) >= sequence:
            return False
        numbers = ({app_id: sequence} if app_id is not None else {}) | dict(changes.recorded)
        # The first number, that of the run, is committed with the rows.
        own, before = next(iter(numbers.items()), None), list(numbers.items())[1:]
        with self._rows_to_add(changes) as add, self._conflicts_as_moved():
            fence = self._fence()
            for number in before:
                self._record(number, fence)
            version = self.table.version()
            self._write(changes, add, fence, own)
        self._check_own_commit(version, numbered=own is not None)
        return True

    @contextmanager
    def _rows_to_add(self, changes: Changes) -> Iterator[DataFrame | None]:
        """Yield the rows to add. If there is ``last``, compute them first, then call it."""
        if changes.last is None or changes.add is None:
            yield changes.add
            return
        staged = changes.add.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        try:
            changes.last()
            yield staged
        finally:
            forget(staged)

    def _write(self, changes: Changes, add: DataFrame | None, fence: Column, number: Number | None) -> None:
        rows = self._no_rows(fence) if add is None else add.where(fence)
        if changes.gone is not None:
            with _settings_of(self.session, number):
                self._merge(changes.gone, changes.gone_from or [], None if add is None else rows, fence)
        elif changes.remove or (changes.remove is not None and not self.all):
            self._overwrite(_writer(rows, number), changes.remove)
        else:
            _writer(rows, number).mode("append").save(self.table.location)

    def _overwrite(self, writer: DataFrameWriter, remove: list[Part]) -> None:
        writer = writer.mode("overwrite")
        if remove != self.all:
            values = ", ".join(quote_text(part.value) for part in remove)
            writer = writer.option("replaceWhere", f"{quote_identifier(remove[0].column)} IN ({values})")
        self.session.conf.set(_CHECKED, "false")
        try:
            writer.save(self.table.location)
        finally:
            self.session.conf.unset(_CHECKED)

    def _merge(self, gone: DataFrame, parts: list[Part], add: DataFrame | None, fence: Column) -> None:
        """Delete the rows at the places ``gone`` in these parts, and insert the rows to add."""
        types = {field.name: field.dataType for field in self.table.schema().fields}
        source = gone.where(fence).select(
            PLACE,
            F.lit(False).alias(_ADDED),
            *(F.lit(None).cast(type_).alias(name) for name, type_ in types.items()),
        )
        if add is not None:
            # No stored row has this place. With NULL, one task would get all added rows.
            nowhere = F.concat(F.lit("+"), self._place()).alias(PLACE)
            names = (F.col(quote_identifier(name)) for name in types)
            source = source.unionByName(add.select(nowhere, F.lit(True).alias(_ADDED), *names))
        # The condition on the partition column lets Delta skip the files of other parts.
        values = ", ".join(quote_text(part.value) for part in parts)
        within = f"t.{quote_identifier(parts[0].column)} IN ({values}) AND " if parts and parts[0].column else ""
        merge = (
            Delta.forPath(self.session, self.table.location)
            .alias("t")
            .merge(source.alias("s"), F.expr(f"{within}true") & (self._place("t.") == F.col(f"s.{PLACE}")))
            .whenMatchedDelete()
        )
        if add is not None:
            quoted = map(quote_identifier, types)
            values_of: dict[str, str | Column] = {name: F.col(f"s.{name}") for name in quoted}
            merge = merge.whenNotMatchedInsert(F.col(f"s.{_ADDED}"), values_of)
        merge.execute()

    def _record(self, number: Number, fence: Column) -> None:
        """Commit a transaction number without rows."""
        version = self.table.version()
        _writer(self._no_rows(fence), number).mode("append").save(self.table.location)
        # Without a new version, Delta skipped the number, which a run that died had committed.
        if self.table.version() != version:
            self._check_own_commit(version, numbered=True)

    def _no_rows(self, fence: Column) -> DataFrame:
        """Return an empty frame with the table's columns, which evaluates the fence."""
        fields = self.table.schema().fields
        row = self.session.range(1).select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in fields))
        return row.where(~fence)

    # --- the table as it was read -------------------------------------------------------------------

    def _fence(self) -> Column:
        """Return a subquery over the newest version that is true, or raises an error if the table was changed."""
        read = row_of(_fingerprint(self._rows).first())
        same = (F.col("rows") == read["rows"]) & (F.col("files") == read["files"])
        now = _fingerprint(self.table.frame())
        return now.select(F.when(same, True).otherwise(F.raise_error(F.lit(_MOVED)).cast("boolean"))).scalar()

    @contextmanager
    def _conflicts_as_moved(self) -> Iterator[None]:
        """Convert a failed fence and Delta's conflicts into TableMoved."""
        try:
            yield
        except JAVA_ERRORS as error:
            messages = " ".join(f"{thrown.name} {thrown.message}" for thrown in thrown_by(error))
            if isinstance(error, CONFLICTS) or any(name in messages for name in (_MOVED, *_CONFLICT_NAMES)):
                raise self.moved() from error
            raise

    def _check_own_commit(self, before: int, *, numbered: bool) -> None:
        """Raise TableMoved unless the version after ``before`` is this session's commit.

        Delta makes no commit without rows and without a number.
        """
        actions = self.table.commit(before + 1)
        if actions is None and not numbered and self.table.version() == before:
            return
        info: dict[str, Any] = next((action["commitInfo"] for action in actions or () if "commitInfo" in action), {})
        if info.get("userMetadata", "") != self.session.conf.get(USER_METADATA):
            raise self.moved()


def _any_of(parts: list[Part]) -> Column:
    return reduce(or_, (part.condition for part in parts), F.lit(False))


def _fingerprint(frame: DataFrame) -> DataFrame:
    """Return the number of rows, and a number that depends on their files. No column is read."""
    file = F.pmod(F.xxhash64(F.col("_metadata.file_path")), F.lit(_MODULUS))
    return frame.agg(F.count(F.lit(1)).alias("rows"), F.coalesce(F.sum(file), F.lit(0)).alias("files"))


def _writer(rows: DataFrame, number: Number | None) -> DataFrameWriter:
    writer = rows.write.format("delta")
    return writer if number is None else writer.options(txnAppId=number[0], txnVersion=number[1])


@contextmanager
def _settings_of(session: SparkSession, number: Number | None) -> Iterator[None]:
    """Set the transaction id and version for a MERGE of the session."""
    if number is None:
        yield
        return
    session.conf.set(_APP_ID, number[0])
    session.conf.set(_NUMBER, str(number[1]))
    try:
        yield
    finally:
        session.conf.unset(_APP_ID)
        session.conf.unset(_NUMBER)
