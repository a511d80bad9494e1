"""Databases as sources: JDBC addresses, SQL statements and partitions of PostgreSQL.

``loader.domain.database_kinds`` has those of other databases.

This module is pure: it builds text and opens no connection. Types that Spark or a driver would change are read as
numbers, with the text of values that have none (infinity), or cast to text by the database and converted like the text
of CSV (``loader.engine.conversions``). So a value either fits exactly or is refused: dates before 1582, infinity,
numerics without limits, ``24:00``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from loader.contract.refusals import Refusal
from loader.domain.sources.marks import DAY, INSTANT, LOCAL, NUMBER, Values, value_of
from loader.domain.sources.options import check_source_options
from metadata.domain import types as data_types
from metadata.domain.sources.database_locations import DatabasePlace
from metadata.domain.sources.formats import TABLE
from metadata.domain.sql import quote_standard_text

CONNECT_SECONDS = 10
# Added to the time limit of a statement; a connection without an answer for so long counts as lost.
GRACE_SECONDS = 30
PARTITION = "part"
NATIVE, _TEXT = "{column}", "CAST({column} AS {text})"
_INTEGERS = (data_types.INTEGER, data_types.BIGINT)
_MOMENTS = (data_types.DATE, data_types.TIMESTAMP)


@dataclass(frozen=True)
class DescribedColumn:
    """Column as the driver describes it; ``type`` is the database's name of its type, in lower case."""

    name: str
    type: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Transport:
    """SQL expressions that read a column.

    ``sql`` gives the value, ``unfit`` the text of a value that ``sql`` cannot give (NULL for all others).
    ``kind`` is the meaning of a number: days (``date``) or microseconds (``timestamp``, ``timestamp_ntz``) since
    1970 in UTC; empty for an unchanged value.
    """

    sql: str
    unfit: str = ""
    kind: str = ""


_DAYS = "{column} - DATE '1970-01-01'"
# Exact in every version: PostgreSQL before 14 has the epoch of a time as a double.
_MICROSECONDS = (
    "CAST(extract(epoch FROM date_trunc('second', {column})) AS bigint) * 1000000 "
    "+ CAST(extract(microseconds FROM {column}) AS bigint) % 1000000"
)
_YEARS = "BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'"


@dataclass(frozen=True)
class TableOptions:
    """Checked options of a table as source (``metadata.domain.sources.reading_options.OPTIONS``)."""

    query: str = ""
    filter: str = ""
    partition_column: str = ""
    partitions: int | None = None
    fetch_size: int = 10_000
    timeout: int = 3_600

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any]) -> "TableOptions":
        """Return the checked options, with their defaults, without those of all formats (``ReadingOptions``).

        Raise Refusal UNKNOWN_OPTION or BAD_OPTION.
        """
        check_source_options(name, TABLE, given)
        return cls(**{entry.name: given[entry.name] for entry in fields(cls) if entry.name in given})


class Engine:
    """SQL and settings of PostgreSQL, and base class of the other databases."""

    title = "PostgreSQL"
    driver = "org.postgresql.Driver"
    package = "org.postgresql:postgresql"
    quotes = ('"', '"')
    text = "text"
    # All connections of a run read the state of one exported snapshot.
    has_snapshots = True
    default_schema = "public"
    # SQL expressions by the name of the column's type; columns of all other types are cast to text.
    as_delivered: Mapping[str, str] = {
        **dict.fromkeys(("int2", "int4", "int8", "smallserial", "serial", "bigserial"), NATIVE),
        **dict.fromkeys(("float4", "float8", "bool", "bytea"), NATIVE),
        "money": "CAST(CAST({column} AS numeric) AS text)",
    }
    # Data types by the database's name of a type; all others are text.
    types: Mapping[str, str] = {
        **dict.fromkeys(("int2", "int4", "smallserial", "serial"), data_types.INTEGER),
        **dict.fromkeys(("int8", "bigserial"), data_types.BIGINT),
        **dict.fromkeys(("float4", "float8"), data_types.FLOAT),
        **dict.fromkeys(("json", "jsonb"), data_types.JSON),
        **dict.fromkeys(("timestamp", "timestamptz"), data_types.TIMESTAMP),
        "bool": data_types.BOOLEAN,
        "bytea": data_types.BINARY,
        "date": data_types.DATE,
        "time": data_types.TIME,
        "uuid": data_types.UUID,
        "money": "decimal(19,2)",
    }
    decimals: Collection[str] = ("numeric",)
    # Types of timestamps with a zone; their texts are in UTC or name their offset.
    with_zone: Collection[str] = ("timestamptz",)

    def url(self, place: DatabasePlace) -> str:
        return f"jdbc:postgresql://{host_of(place)}:{place.port}/{escaped(place.name)}"

    def properties(self, options: TableOptions) -> dict[str, str]:
        """Return the driver's settings: time limits, a read-only session and the product's name."""
        return {
            "ApplicationName": "elevata",
            "connectTimeout": str(CONNECT_SECONDS),
            "loginTimeout": str(CONNECT_SECONDS),
            "socketTimeout": str(options.timeout + GRACE_SECONDS),
            "tcpKeepAlive": "true",
            "readOnly": "true",
            "readOnlyMode": "always",
        }

    def session(self, options: TableOptions, snapshot: str = "") -> str:
        """Return the statement that begins each connection's transaction, which reads the snapshot if one is given."""
        use_snapshot = f"SET TRANSACTION SNAPSHOT {quote_standard_text(snapshot)}; " if snapshot else ""
        return (
            f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; {use_snapshot}"
            f"SET LOCAL statement_timeout = '{options.timeout}s'; "
            "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL TIME ZONE 'UTC'"
        )

    def snapshot(self) -> str:
        """Return the query for the name of the transaction's snapshot."""
        return "SELECT pg_export_snapshot()"

    def quoted(self, name: str) -> str:
        left, right = self.quotes
        return left + name.replace(right, right * 2) + right

    def names(self, location: str, place: DatabasePlace) -> tuple[str, str]:
        """Return schema and table; ``location`` is ``schema.table``, or a table of the default schema."""
        schema, dot, table = location.strip().partition(".")
        return (schema, table) if dot else (self.default_schema or place.name, schema)

    def table(self, location: str, place: DatabasePlace) -> str:
        """Return the quoted name of a table."""
        return ".".join(self.quoted(name) for name in self.names(location, place))

    def primary_key(self, location: str, place: DatabasePlace) -> str:
        """Return the query for the names in a table's primary key as JSON; empty if there is no such query.

        The key of a table with children by inheritance does not cover their rows.
        """
        schema, table = (quote_standard_text(name) for name in self.names(location, place))
        return (
            "SELECT CAST(json_agg(a.attname) AS text) FROM pg_catalog.pg_index i "
            "JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey) "
            "WHERE i.indisprimary AND i.indisvalid AND NOT (c.relkind = 'r' AND c.relhassubclass) "
            f"AND n.nspname = {schema} AND c.relname = {table}"
        )

    def relation(self, location: str, place: DatabasePlace, options: TableOptions) -> str:
        """Return the operand of FROM: the quoted table, or the query in parentheses."""
        return f"(\n{options.query}\n)" if options.query else self.table(location, place)

    def description(self, relation: str) -> str:
        """Return a query that gives the relation's columns and no rows."""
        return f"SELECT * FROM {relation} t WHERE 1 = 0"

    def transport(self, column: DescribedColumn) -> Transport:
        """Return the SQL that reads a column.

        Numbers and times that Spark can represent are read as such, which is much faster than as text.
        """
        name = f"t.{self.quoted(column.name)}"
        if column.type.startswith("_"):
            return Transport(f"CAST(array_to_json({name}) AS text)")
        if column.type in _AS_NUMBERS:
            number, kind = _AS_NUMBERS[column.type]
            number = number.format(column=name)
            unfit = f"CASE WHEN {name} NOT {_YEARS} THEN CAST({name} AS text) END"
            return Transport(f"CASE WHEN {name} {_YEARS} THEN {number} END", unfit, kind)
        if column.type == "numeric" and _has_limits(column):
            return Transport(f"NULLIF({name}, 'NaN')", f"CASE WHEN {name} = 'NaN' THEN 'NaN' END")
        return self.as_text(column)

    def as_text(self, column: DescribedColumn) -> Transport:
        """Return the SQL that reads a column by ``as_delivered``, or as text."""
        return Transport(self.delivered(column, f"t.{self.quoted(column.name)}"))

    def delivered(self, column: DescribedColumn, sql: str) -> str:
        """Return the SQL that reads an expression of the column's type."""
        return self.as_delivered.get(column.type, _TEXT).format(column=sql, text=self.text)

    def type_of(self, column: DescribedColumn) -> str:
        """Return the data type for a column that the contract does not have."""
        if column.type.startswith("_"):
            return data_types.JSON
        if column.type in self.decimals:
            return f"decimal({column.precision},{column.scale})" if _has_limits(column) else "decimal(38,10)"
        return self.types.get(column.type, data_types.STRING)

    def statement(self, relation: str, columns: Sequence[DescribedColumn], options: TableOptions) -> str:
        """Return the SELECT of the columns as ``d0`` …, of their unfit values as ``x0`` …, and of ``part``."""
        transports = [self.transport(column) for column in columns]
        expressions = [f"{read.sql} AS {self.quoted(f'd{place}')}" for place, read in enumerate(transports)]
        expressions += [f"{read.unfit} AS {self.quoted(f'x{n}')}" for n, read in enumerate(transports) if read.unfit]
        if options.partition_column:
            expressions.append(f"t.{self.quoted(options.partition_column)} AS {self.quoted(PARTITION)}")
        return f"SELECT {', '.join(expressions)} FROM {relation} t{_where(options)}"

    def bounds(self, relation: str, options: TableOptions) -> str:
        """Return the query for the least and the greatest value of the partition column."""
        column = f"t.{self.quoted(options.partition_column)}"
        return f"SELECT MIN({column}), MAX({column}) FROM {relation} t{_where(options)}"

    def watermark_kind(self, column: DescribedColumn) -> str:
        """Return the kind of a watermark column (``loader.domain.sources.marks``). Raise Refusal BAD_WATERMARK."""
        kind = self.type_of(column)
        if kind in _INTEGERS or column.type in self.decimals:
            return NUMBER
        if kind not in _MOMENTS:
            raise Refusal(
                "BAD_WATERMARK",
                f"the column {column.name} cannot be a watermark: its type is {column.type}",
                column=column.name,
                hint="Name columns of whole numbers, numerics, dates or timestamps.",
            )
        return DAY if kind == data_types.DATE else INSTANT if column.type in self.with_zone else LOCAL

    def highest(self, relation: str, columns: Sequence[DescribedColumn], options: TableOptions) -> str:
        """Return the query for the highest value of each column, as text."""
        values = ", ".join(self.delivered(c, f"MAX(t.{self.quoted(c.name)})") for c in columns)
        return f"SELECT {values} FROM {relation} t{_where(options)}"

    def lowest(self, relation: str, column: DescribedColumn, options: TableOptions) -> str:
        """Return the query for the lowest value of a column, as text."""
        value = self.delivered(column, f"MIN(t.{self.quoted(column.name)})")
        return f"SELECT {value} FROM {relation} t{_where(options)}"

    def counted_above(self, relation: str, column: DescribedColumn, limit: str, options: TableOptions) -> str:
        """Return the query for the numbers of values above a limit, and of all values."""
        name = f"t.{self.quoted(column.name)}"
        above = f"COUNT(CASE WHEN {name} > {self.literal(limit, self.watermark_kind(column))} THEN 1 END)"
        return f"SELECT {above}, COUNT({name}) FROM {relation} t{_where(options)}"

    def up_to(self, column: DescribedColumn, limit: str) -> str:
        """Return the condition for rows whose value is at most a limit."""
        return f"t.{self.quoted(column.name)} <= {self.literal(limit, self.watermark_kind(column))}"

    def from_values(self, columns: Sequence[DescribedColumn], values: Values) -> str:
        """Return the condition for rows of which one column has at least its value, or all columns are NULL.

        Rows with the value of a mark are read again, because others may have been written beside them.
        """
        names = {column.name: f"t.{self.quoted(column.name)}" for column in columns}
        conditions = [f"({' AND '.join(f'{name} IS NULL' for name in names.values())})"]
        for column in columns:
            if column.name in values:
                literal = self.literal(values[column.name], self.watermark_kind(column))
                conditions.append(f"{names[column.name]} >= {literal}")
            else:
                conditions.append(f"{names[column.name]} IS NOT NULL")
        return " OR ".join(conditions)

    def literal(self, text: str, kind: str) -> str:
        """Return the literal of a watermark value."""
        value = value_of(text, kind)
        return self.moment(value) if isinstance(value, date) else text

    def moment(self, value: date) -> str:
        """Return the literal of a date or timestamp."""
        return quote_standard_text(value.isoformat(" ") if isinstance(value, datetime) else value.isoformat())

    def predicates(self, column: DescribedColumn, low: str | None, high: str | None, count: int) -> list[str]:
        """Return a condition for each partition: equal ranges between the bounds; NULL is in the first one.

        Raise Refusal BAD_OPTION for a column that is neither a number nor a date or timestamp.
        """
        name = self.quoted(PARTITION)
        steps = sorted(set(self._steps(column, low, high, count)))
        if not steps:
            return ["1 = 1"]
        texts = [self.moment(step) if isinstance(step, date) else str(step) for step in steps]
        middle = [f"{name} >= {start} AND {name} < {end}" for start, end in pairwise(texts)]
        return [f"{name} < {texts[0]} OR {name} IS NULL", *middle, f"{name} >= {texts[-1]}"]

    def _steps(self, column: DescribedColumn, low: str | None, high: str | None, count: int) -> list[Any]:
        if low is None or high is None or count < 2:
            return []
        kind = self.type_of(column)
        is_moment = kind in _MOMENTS
        if not is_moment and kind not in _INTEGERS and column.type not in self.decimals:
            raise self.not_divisible(column.name, f"its type is {column.type}")
        try:
            if is_moment:
                first, last = (datetime.fromisoformat(text) for text in (low, high))
                between = [first + (last - first) * n / count for n in range(1, count)]
                return [step.date() for step in between] if kind == data_types.DATE else between
            least, most = Decimal(low), Decimal(high)
            return [int(least + (most - least) * n / count) for n in range(1, count)]
        except (ValueError, InvalidOperation, OverflowError):
            raise self.not_divisible(column.name, f"its values are between {low} and {high}") from None

    def not_divisible(self, name: str, reason: str) -> Refusal:
        return Refusal(
            "BAD_OPTION",
            f"the option partition_column cannot be {name}: {reason}",
            hint="Name a column of whole numbers, numerics, dates or timestamps.",
        )


_AS_NUMBERS = {
    "date": (_DAYS, "date"),
    "timestamp": (_MICROSECONDS, "timestamp_ntz"),
    "timestamptz": (_MICROSECONDS, "timestamp"),
}


def _where(options: TableOptions) -> str:
    return f" WHERE (\n{options.filter}\n)" if options.filter else ""


def with_condition(options: TableOptions, condition: str) -> TableOptions:
    """Return the options with a further condition; the line ends close comments of the filter."""
    own = f"(\n{options.filter}\n) AND " if options.filter else ""
    return replace(options, filter=f"{own}({condition})")


def _has_limits(column: DescribedColumn) -> bool:
    return 0 < column.precision <= data_types.MAX_PRECISION and 0 <= column.scale <= column.precision


def host_of(place: DatabasePlace) -> str:
    return f"[{place.host}]" if ":" in place.host else place.host


def escaped(name: str) -> str:
    """Return a name as a part of a URL, where no character can add a parameter."""
    return quote(name, safe="")
