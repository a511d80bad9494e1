"""PostgreSQL client of the pages: connection test, list of tables, sample of a table, count of rows.

Every connection is read-only, short, and goes to an allowed host only. Errors never include the password.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from loader.contract.refusals import Refusal
from loader.domain.database_kinds import engine_of
from loader.domain.sources.database_errors import sign_in_refused
from loader.domain.sources.databases import TableOptions
from loader.domain.sources.sampling import SampledColumn
from loader.sources.database_samples import check_columns, connection_result, sample_of_table
from loader.sources.page_limits import CONNECT_SECONDS, LONGEST_VALUE, STATEMENT_SECONDS, database_of, password_of
from loader.sources.results import ConnectionResult, ListedItem, Listing, Sample
from loader.sources.text_files import ROWS
from metadata.domain import types as data_types
from metadata.domain.sources.database_locations import DatabasePlace
from metadata.domain.sources.queries import checked_condition, checked_select
from metadata.domain.types import DataType, TypeProblem, parse
from metadata.models import SourceDataset, System

# Tables, partitioned tables, views, materialized views and foreign tables that may be read.
_TABLES = """
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
   AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
   AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
   AND (%(search)s::text = '' OR strpos(lower(n.nspname || '.' || c.relname), lower(%(search)s::text)) > 0)"""
_LIST = (
    """SELECT n.nspname, c.relname, c.relkind, c.reltuples::bigint,
       CASE WHEN c.relkind IN ('r', 'm', 'p') THEN pg_total_relation_size(c.oid) END,
       coalesce(obj_description(c.oid, 'pg_class'), '')"""
    + _TABLES
    + " ORDER BY 1, 2 LIMIT %(count)s OFFSET %(start)s"
)
_COUNT = "SELECT count(*)" + _TABLES
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, col_description(c.oid, a.attnum), t.typtype
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
 WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND has_table_privilege(c.oid, 'SELECT')
 ORDER BY a.attnum"""
_PRIMARY_KEY = """
SELECT a.attname
  FROM pg_catalog.pg_index i
  JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN unnest(i.indkey) WITH ORDINALITY AS k(attnum, place) ON true
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
 WHERE i.indisprimary AND n.nspname = %(schema)s AND c.relname = %(table)s
 ORDER BY k.place"""
_KINDS = {"v": "view", "m": "materialized view", "f": "foreign table", "p": "partitioned table"}


def reach_postgresql(system: System) -> ConnectionResult:
    """Return the result of a connection test: server, user, encryption, and the number of tables that may be read."""
    with connected(system) as connection:
        version, user, secure = _row_of(
            connection.execute(
                "SELECT current_setting('server_version'), current_user, "
                "coalesce((SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()), false)"
            )
        )
        (tables,) = _row_of(connection.execute(_COUNT, {"search": ""}))
    return connection_result(
        database_of(system), server=f"PostgreSQL {version}", user=user, tables=tables, is_encrypted=secure
    )


def _row_of(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the row of a query that has exactly one."""
    row = cursor.fetchone()
    assert row is not None
    return row


def list_postgresql(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the readable tables and views, sorted by name. Row counts are the database's estimates."""
    parameters = {"search": search.strip(), "start": start, "count": count}
    with connected(system) as connection:
        (total,) = _row_of(connection.execute(_COUNT, parameters))
        rows = connection.execute(_LIST, parameters).fetchall()
    return Listing(
        tuple(
            ListedItem(
                name=table,
                location=f"{schema}.{table}",
                format="table",
                size=size,
                rows=estimate if estimate >= 0 and kind not in ("v", "f") else None,
                note=_KINDS.get(kind, ""),
                description=description,
            )
            for schema, table, kind, estimate, size, description in rows
        ),
        total,
    )


def sample_postgresql(system: System, location: str, rows: int = ROWS) -> Sample:
    """Return the columns of ``schema.table`` from the catalog, and its first rows. Raise Refusal MISSING_TABLE."""
    schema, dot, table = location.strip().partition(".")
    names = {"schema": schema, "table": table} if dot else {"schema": "public", "table": schema}
    with connected(system) as connection:
        catalog = connection.execute(_COLUMNS, names).fetchall()
        check_columns(location, len(catalog), hint="Names are case-sensitive. Search the system's tables.")
        key = tuple(name for (name,) in connection.execute(_PRIMARY_KEY, names).fetchall())
        columns = [_column(*each) for each in catalog]
        records, notes = _first_rows(connection, names, [column.name for column in columns], rows)
    return sample_of_table(location, columns, records, wanted=rows, key=key, notes=notes)


def count_rows(source: SourceDataset, *, at_most: int, newer: str = "", since: datetime | None = None) -> int:
    """Return the number of rows of a table or query, counted up to ``at_most``.

    With ``newer`` and ``since`` only rows count whose value in that column is later; times without a zone are UTC.
    Raise Refusal MISSING_TABLE, or one of ``connected``.
    """
    place, options = database_of(source.system), TableOptions.of(str(source), source.options)
    query = checked_select(options.query, place.kind) if options.query else ""
    relation = engine_of(place).relation(source.location, place, replace(options, query=query))
    conditions: list[sql.Composable] = [sql.SQL("true")]
    if options.filter:
        conditions.append(sql.SQL("(\n{}\n)").format(sql.SQL(checked_condition(options.filter, place.kind))))
    if newer and since is not None:
        conditions.append(sql.SQL("t.{} > {}").format(sql.Identifier(newer), sql.Literal(since)))
    count = sql.SQL("SELECT count(*) FROM (SELECT 1 FROM {} t WHERE {} LIMIT {}) AS counted").format(
        sql.SQL(relation), sql.SQL(" AND ").join(conditions), sql.Literal(at_most)
    )
    with connected(source.system) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        try:
            (rows,) = _row_of(connection.execute(count))
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            raise Refusal("MISSING_TABLE", f"{source}: {_first_line(error)}", hint="Correct the source.") from error
    return rows


def type_of(text: str, typtype: str = "b") -> tuple[DataType, str]:
    """Return the data type for a type as PostgreSQL's ``format_type`` writes it, and the evidence for the choice."""
    evidence = f"the database says {text}"
    plain = re.sub(r"^((?:timestamp|time))(?:\(\d\))? with(?:out)? time zone$", r"\1", text)
    if text.endswith("[]"):
        return DataType(data_types.JSON), f"{evidence}: a list is kept as JSON"
    if plain == "numeric":
        return DataType(
            data_types.DECIMAL, precision=38, scale=10
        ), f"{evidence} without limits: up to 38 digits are kept"
    if plain == "money":
        return DataType(data_types.DECIMAL, precision=19, scale=2), evidence
    if typtype == "e":
        return DataType(data_types.STRING), f"{evidence}, one of a list of words"
    try:
        return parse(plain), evidence
    except TypeProblem:
        return DataType(data_types.STRING), f"{evidence}, which is kept as text"


@contextmanager
def connected(system: System) -> Iterator[psycopg.Connection]:
    """Yield a read-only connection. Raise Refusal if the connection or a statement fails."""
    place, password = database_of(system), password_of(system)
    user: dict[str, Any] = {"user": place.user} if place.user else {}
    try:
        with psycopg.connect(
            host=place.host,
            port=place.port,
            dbname=place.name,
            password=password or None,
            connect_timeout=CONNECT_SECONDS,
            application_name="elevata",
            options=f"-c statement_timeout={STATEMENT_SECONDS}s -c default_transaction_read_only=on",
            **user,
        ) as connection:
            yield connection
    except psycopg.errors.QueryCanceled as error:
        raise Refusal(
            "TOO_SLOW",
            f"{place} needed longer than {STATEMENT_SECONDS} seconds for an answer",
            hint="Try again when the database is less busy.",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Refusal(
            "NOT_ALLOWED", f"{place} refuses: {_first_line(error)}", hint="The user needs SELECT on it."
        ) from error
    except psycopg.Error as error:
        raise _connection_refusal(system, place, error) from None


def _connection_refusal(system: System, place: DatabasePlace, error: psycopg.Error) -> Refusal:
    text = str(error)
    if "authentication failed" in text or "no password supplied" in text or re.search('role ".*" does not exist', text):
        code, message, hint = sign_in_refused(place, system.secret)
        return Refusal(code, message, hint=hint)
    if re.search('database ".*" does not exist', text):
        return Refusal(
            "NO_SUCH_DATABASE",
            f"{place.host} answers, but has no database {place.name}",
            hint="Correct the system's location.",
        )
    if "timeout" in text or "timed out" in text:
        return Refusal(
            "NOT_REACHED",
            f"{place} gave no answer within {CONNECT_SECONDS} seconds",
            hint="A firewall may stand between, or the host may be down.",
        )
    if "refused" in text:
        return Refusal(
            "NOT_REACHED",
            f"{place.host} refuses connections on port {place.port}",
            hint="Is the database running, and is the port right?",
        )
    if "resolve" in text or "Name or service" in text:
        return Refusal("NOT_REACHED", f"there is no host {place.host}", hint="Correct the system's location.")
    return Refusal("NOT_REACHED", f"{place}: {_first_line(error)}", hint="See what the database's log says.")


def _first_line(error: psycopg.Error) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]


def _column(name: str, text: str, required: bool, description: str | None, typtype: str) -> SampledColumn:
    data_type, evidence = type_of(text, typtype)
    never_null = "; never NULL" if required else ""
    return SampledColumn(name, data_type, evidence + never_null, nullable=not required, description=description or "")


def _first_rows(
    connection: psycopg.Connection, table_name: dict[str, str], names: list[str], rows: int
) -> tuple[list[tuple], tuple[str, ...]]:
    """Return the first rows as text, long values cut; if they cannot be read, no rows and the reason as a note."""
    columns = sql.SQL(", ").join(
        sql.SQL("left({}::text, {})").format(sql.Identifier(name), sql.Literal(LONGEST_VALUE)) for name in names
    )
    table = sql.Identifier(table_name["schema"], table_name["table"])
    query = sql.SQL("SELECT {} FROM {} LIMIT {}").format(columns, table, sql.Literal(rows))
    try:
        with connection.transaction():
            return connection.execute(query).fetchall(), ()
    except psycopg.Error as error:
        return [], (f"No rows could be read ({_first_line(error)}); types are those of the catalog.",)
