"""Tables of databases as deliveries, through Spark's JDBC reader.

The runner keeps a transaction open until the rows are written. In databases with snapshots it exports its own, and
each connection of a Spark task takes it by ``sessionInitStatement``, so that all partitions, the checks and the write
read the same rows. ``loader.domain.sources.databases`` has the statements.

Refusals beside those of every delivery (``loader.engine.sources.deliveries``):

=====================  =====================================================================
HOST_NOT_ALLOWED       the host is not in ELEVATA_SOURCE_HOSTS
SECRET_NOT_SET         the system names a password that the worker does not have
DRIVER_MISSING         the database's JDBC driver is not among Spark's jars
SQL_REFUSED,           the option query or filter is no SELECT or condition, or the database
SQL_INVALID            cannot read it
BAD_OPTION             the partition column is missing or cannot be divided
BAD_WATERMARK          a watermark column is no number, date or timestamp in the database
BAD_SINCE              the value from which a user wants to read does not fit the watermark column
WATERMARK_BACKWARDS    the highest watermark value is below the mark of the last load
NOT_REACHED,           no connection, no such database, or no sign-in
NO_SUCH_DATABASE,
SIGN_IN_REFUSED
MISSING_TABLE          the table does not exist
NOT_ALLOWED            the user may not read it
TOO_SLOW               a statement needed longer than the option timeout
SOURCE_GONE            the connection was lost while rows were read
SOURCE_FAILED          any other error of the database
=====================  =====================================================================
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from py4j.java_gateway import is_instance_of
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from elevata.core.errors import MetadataError
from loader.contract.manifest.sources import SourceSpec
from loader.domain.database_kinds import engine_of
from loader.domain.sources.database_errors import DatabaseError, refusal_of
from loader.domain.sources.databases import DescribedColumn, TableOptions, with_condition
from loader.domain.sources.hosts import check_host
from loader.domain.sources.mark_limits import Split, Value
from loader.domain.sources.marks import Reading, Window, text_of, values_of
from loader.domain.sources.options import bad_option
from loader.domain.spark_failures import DEEPEST
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.pyspark_types import gateway_of
from loader.engine.session import source_hosts
from loader.engine.sources.database_connections import DatabaseReader, close_quietly, connect, database_of, is_open
from loader.engine.sources.opened import MALFORMED, FileFormat, Opened
from metadata.domain.sources.formats import TABLE
from metadata.domain.sources.locations import Roots
from metadata.domain.sources.queries import checked_condition, checked_select
from metadata.domain.sources.reading_options import ReadingOptions


class _Table(FileFormat):
    """Reader of a table of a database."""

    is_text = False
    has_files = False


@dataclass(frozen=True)
class OpenedTable(Opened):
    """Table, view or query of a database, described and ready to be read in one snapshot."""

    rows: DataFrame
    has_unique_key: bool
    # Positions of the columns that may have values Spark cannot represent; column ``x0`` … has their text.
    partial: frozenset[int]
    database: DatabaseReader
    chosen: tuple[DescribedColumn, ...] = ()
    others: tuple[DescribedColumn, ...] = ()
    # The connection is another opened table's, which ends the snapshot.
    is_part: bool = False

    @property
    def shown(self) -> str:
        return self.location

    @property
    def first_shown(self) -> str:
        return self.location

    @property
    def key_is_unique(self) -> bool:
        return self.has_unique_key

    @property
    def is_read_again(self) -> bool:
        return self.database.engine.has_snapshots

    def frame(self, *, numbered: bool = False) -> DataFrame:
        """Return the rows; those of a table have no order, so they are never numbered."""
        return self.with_key_texts(self.rows)

    def own_provenance(self) -> tuple[Column, Column]:
        """Return the table, or the query of the source's options, and no number."""
        return F.lit(self.database.options.query or self.location), F.lit(None).cast("bigint")

    def text_of(self, name: str) -> Column:
        place, text = self.names.index(name), self.column(name).cast("string")
        return F.coalesce(F.col(f"x{place}"), text) if place in self.partial else text

    def unfit(self, name: str) -> Column:
        place = self.names.index(name)
        return F.col(f"x{place}").isNotNull() if place in self.partial else F.lit(False)

    def declared_type(self, name: str) -> str | None:
        return self.database.engine.type_of(self.chosen[self.names.index(name)])

    def unknown(self) -> list[dict]:
        """Return the columns outside the contract as the database describes them; no rows are read."""
        return [
            {"name": column.name, "type": self.database.engine.type_of(column), "nullable_seen": True}
            for column in self.others
        ]

    @contextmanager
    def reading(self, *, again: bool) -> Iterator[None]:
        try:
            yield
        except JAVA_ERRORS as failure:
            lost = not is_open(self.database.connection)
            timeout = self.database.options.timeout
            _raise_refusal(self.spark, self.database.source, failure, timeout=timeout, started=True, lost=lost)

    def release(self) -> None:
        """End the snapshot."""
        if self.is_part:
            return
        close_quietly(self.database.connection.close)


def open_table(spark: SparkSession, source: SourceSpec, reading: Reading | None = None) -> OpenedTable:
    """Connect, describe the relation and prepare its rows, all or from the marks; the caller releases the result.

    Columns of the contract that are missing are not selected; ``missing_columns`` refuses them.
    """
    database = database_of(source)
    engine, options = engine_of(database.place), TableOptions.of(source.name, source.options)
    options = _check_queries(options, source)
    check_host(database.place.host, database.place.port, source_hosts(spark))
    source.check_password()
    location = "the query" if options.query else source.location
    try:
        reader = connect(spark, source, database, engine, options)
        try:
            opened = _open(reader, location, reading)
            if not engine.has_snapshots:  # an open transaction would keep others from altering the table
                reader.connection.rollback()
            return opened
        except BaseException:
            close_quietly(reader.connection.close)
            raise
    except JAVA_ERRORS as failure:
        _raise_refusal(spark, source, failure, timeout=options.timeout, started=False)


def open_keys(opened: OpenedTable, source: SourceSpec) -> OpenedTable:
    """Return the keys of all rows of an opened table, in its snapshot if the database has one.

    ``source`` is that of the key list. Raise Refusal.
    """
    reader = opened.database
    options = _check_queries(TableOptions.of(source.name, source.options), source)
    try:
        return replace(_open(replace(reader, source=source, options=options), opened.location, None), is_part=True)
    except JAVA_ERRORS as failure:
        _raise_refusal(reader.spark, source, failure, timeout=options.timeout, started=True)
    finally:
        if not reader.engine.has_snapshots:  # as after the first description
            reader.connection.rollback()


def _check_queries(options: TableOptions, source: SourceSpec) -> TableOptions:
    kind = database_of(source).place.kind
    try:
        if options.query:
            options = replace(options, query=checked_select(options.query, kind))
        if options.filter:
            options = replace(options, filter=checked_condition(options.filter, kind))
    except MetadataError as problem:
        raise bad_option(source.name, problem, problem.code.upper()) from None
    return options


def _open(reader: DatabaseReader, location: str, reading: Reading | None) -> OpenedTable:
    source, options = reader.source, reader.options
    read_options = ReadingOptions.of(TABLE, source.options)
    relation = reader.engine.relation(source.location, database_of(source).place, options)
    described = reader.describe(relation)
    window = None
    if reading is not None:
        window, options = _window(reader, relation, described, reading)
        reader = replace(reader, options=options)
    wanted = {column.name for column in source.columns}
    chosen = [column for column in described if column.name in wanted]
    statement = reader.engine.statement(relation, chosen, options)
    transports = [reader.engine.transport(column) for column in chosen]
    partial = [place for place, read in enumerate(transports) if read.unfit]
    rows = reader.frame(statement, reader.predicates(relation, described)).select(
        *(_decode(place, read.kind) for place, read in enumerate(transports)),
        *(f"x{place}" for place in partial),
        F.lit(None).cast("string").alias(MALFORMED),
    )
    return OpenedTable(
        spark=reader.spark,
        name=source.name,
        location=location,
        roots=Roots(()),
        format=TABLE,
        options=read_options,
        files=(),
        reader=_Table(),
        names=tuple(column.name for column in chosen),
        types=tuple(field.dataType for field in rows.schema.fields[: len(chosen)]),
        missing={},
        header_lines={},
        groups=(),
        rows=rows,
        keys=tuple(column.name for column in source.columns if column.business_key),
        # Keys that are written in one way may then be the same.
        has_unique_key=not (read_options.trim_keys or read_options.fold_keys) and _key_is_unique(reader, chosen),
        partial=frozenset(partial),
        database=reader,
        chosen=tuple(chosen),
        others=tuple(column for column in described if column.name not in wanted),
        window=window,
    )


def _window(
    reader: DatabaseReader, relation: str, described: list[DescribedColumn], reading: Reading
) -> tuple[Window | None, TableOptions]:
    """Return the window of the run, and the options that read its rows; none if a watermark column is missing.

    The highest values are read before the rows, so a row that another transaction adds meanwhile is read again.
    """
    engine, options, by_name = reader.engine, reader.options, {column.name: column for column in described}
    columns = [by_name[name] for name in reading.intake.watermark if name in by_name]
    if len(columns) < len(reading.intake.watermark):
        return None, options
    kinds = {column.name: engine.watermark_kind(column) for column in columns}
    highest = dict(zip(kinds, reader.first(engine.highest(relation, columns, options)), strict=True))
    measure = _TableMeasure(reader, relation, {column.name: column for column in columns})
    window = reading.window(reader.source, kinds, highest, reader.source.options.get("timezone", "UTC"), measure)
    bounds = reading.bounds(window)
    if bounds is None:
        return window, options
    return window, with_condition(options, engine.from_values(columns, bounds))


@dataclass(frozen=True)
class _TableMeasure:
    """Measure of the watermark columns of a table, by queries in the run's snapshot."""

    reader: DatabaseReader
    relation: str
    columns: Mapping[str, DescribedColumn]

    def lowest(self, name: str) -> Value | None:
        query = self.reader.engine.lowest(self.relation, self.columns[name], self.reader.options)
        return self._value(name, self.reader.first(query)[0])

    def split(self, name: str, limit: Value) -> Split:
        engine, column, options = self.reader.engine, self.columns[name], self.reader.options
        below = with_condition(options, engine.up_to(column, text_of(limit)))
        (highest,) = self.reader.first(engine.highest(self.relation, [column], below))
        counts = self.reader.first(engine.counted_above(self.relation, column, text_of(limit), options))
        return Split(self._value(name, highest), *(int(count or 0) for count in counts))

    def _value(self, name: str, text: str | None) -> Value | None:
        kind = self.reader.engine.watermark_kind(self.columns[name])
        return values_of(self.reader.source.name, {name: text}, {name: kind}).get(name)


def _decode(place: int, kind: str) -> Column:
    """Return a column by position; numbers of days or microseconds become dates or timestamps."""
    value, name = F.col(f"d{place}"), f"d{place}"
    match kind:
        case "date":
            return F.date_from_unix_date(value).alias(name)
        case "timestamp":
            return F.timestamp_micros(value).alias(name)
        case "timestamp_ntz":
            return F.timestamp_micros(value).cast(kind).alias(name)
    return value.alias(name)


def _key_is_unique(reader: DatabaseReader, columns: list[DescribedColumn]) -> bool:
    """Return True if the business key contains the table's primary key, in columns of unchanged types."""
    source = reader.source
    query = reader.engine.primary_key(source.location, database_of(source).place)
    if not query or reader.options.query:
        return False
    primary = json.loads(reader.first(query)[0] or "[]")
    keys = {(column.name, _without_length(column.type)) for column in source.columns if column.business_key}
    key_columns = {c.name for c in columns if (c.name, _without_length(reader.engine.type_of(c))) in keys}
    return bool(primary) and key_columns.issuperset(primary)


def _without_length(type_text: str) -> str:
    return type_text.partition("(")[0]


def _raise_refusal(spark: SparkSession, source: SourceSpec, failure: BaseException, **facts: Any) -> NoReturn:
    """Raise the refusal for an error of the database, or the failure itself if the database is not its cause."""
    error = database_error(spark, failure)
    if error is None:
        raise failure
    raise refusal_of(error, source, **facts) from None


def database_error(spark: SparkSession, failure: BaseException) -> DatabaseError | None:
    """Return the innermost SQL error in the chain of causes, None if the database is not the cause."""
    exception = getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)
    error, depth = None, 0
    while exception is not None and depth < DEEPEST:
        if is_instance_of(gateway_of(spark), exception, "java.sql.SQLException"):
            number = exception.getErrorCode()
            error = DatabaseError(
                f"{exception.getSQLState() or ''}{f'-{number}' if number else ''}", exception.getMessage() or ""
            )
        elif exception.getClass().getName() in (
            "java.lang.ClassNotFoundException",
            "java.lang.NoClassDefFoundError",
        ):
            error = DatabaseError("", exception.getMessage() or "", no_driver=True)
        exception, depth = exception.getCause(), depth + 1
    return error
