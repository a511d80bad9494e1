"""MariaDB and MySQL client of the pages: connection test, list of tables, sample of a table.

Every connection is read-only, short, and goes to an allowed host only. Errors never include the password.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from pymysql.cursors import Cursor

from loader.contract.refusals import Refusal
from loader.domain.database_kinds import engine_of
from loader.domain.sources.database_errors import DatabaseError, explain
from loader.domain.sources.databases import DescribedColumn, TableOptions
from loader.domain.sources.sampling import SampledColumn
from loader.sources.database_samples import MARIADB_KINDS, check_columns, connection_result, sample_of_table
from loader.sources.page_limits import CONNECT_SECONDS, LONGEST_VALUE, STATEMENT_SECONDS, database_of, password_of
from loader.sources.results import ConnectionResult, ListedItem, Listing, Sample
from metadata.domain.sources.database_locations import DatabasePlace
from metadata.domain.types import BINARY, DataType, TypeProblem, parse
from metadata.models import System

# SQLSTATE by MariaDB's error number, as the JDBC driver reports it; pymysql reports only the number.
_STATES = {
    1045: "28000", 1698: "28000", 1044: "42000-1044", 1049: "42000-1049", 1142: "42000-1142", 1143: "42000-1143",
    1146: "42S02", 1969: "70100", 3024: "HY000-3024", 2013: "HY000-2013",
}  # fmt: skip
_TABLES = """
  FROM information_schema.tables
 WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
   AND (%(search)s = '' OR LOCATE(LOWER(%(search)s), LOWER(CONCAT(table_schema, '.', table_name))) > 0)"""
_LIST = (
    "SELECT table_schema, table_name, table_type, table_rows, data_length + index_length, table_comment"
    + _TABLES
    + " ORDER BY 1, 2 LIMIT %(count)s OFFSET %(start)s"
)
_COUNT = "SELECT COUNT(*)" + _TABLES
_COLUMNS = """
SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, character_maximum_length, is_nullable,
       column_comment
  FROM information_schema.columns
 WHERE table_schema = %(schema)s AND table_name = %(table)s
 ORDER BY ordinal_position"""
_PRIMARY_KEY = """
SELECT column_name FROM information_schema.key_column_usage
 WHERE constraint_name = 'PRIMARY' AND table_schema = %(schema)s AND table_name = %(table)s
 ORDER BY ordinal_position"""
_TEXTS = ("char", "varchar")


def reach_mariadb(system: System) -> ConnectionResult:
    """Return the result of a connection test: server, user, encryption, and the number of tables that may be read."""
    with _connection(system) as cursor:
        cursor.execute("SELECT VERSION(), CURRENT_USER()")
        version, user = cursor.fetchone() or ("", "")
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        is_secure = bool((cursor.fetchone() or ("", ""))[1])
        cursor.execute(_COUNT, {"search": ""})
        (tables,) = cursor.fetchone() or (0,)
    return connection_result(
        database_of(system, MARIADB_KINDS),
        server=version if "MariaDB" in version else f"MySQL {version}",
        user=user,
        tables=tables,
        is_encrypted=is_secure,
    )


def list_mariadb(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the readable tables and views, sorted by name. Row counts are the database's estimates."""
    parameters = {"search": search.strip(), "start": start, "count": count}
    with _connection(system) as cursor:
        cursor.execute(_COUNT, parameters)
        (total,) = cursor.fetchone() or (0,)
        cursor.execute(_LIST, parameters)
        rows = cursor.fetchall()
    return Listing(
        tuple(
            ListedItem(
                name=table,
                location=f"{schema}.{table}",
                format="table",
                size=None if kind == "VIEW" else size,
                rows=None if kind == "VIEW" else estimate,
                note="view" if kind == "VIEW" else "",
                # The comment of a view is the word VIEW.
                description="" if kind == "VIEW" else comment,
            )
            for schema, table, kind, estimate, size, comment in rows
        ),
        total,
    )


def sample_mariadb(system: System, location: str, rows: int) -> Sample:
    """Return the columns of a table from the catalog, and its first rows. Raise Refusal MISSING_TABLE."""
    place = database_of(system, MARIADB_KINDS)
    schema, table = engine_of(place).names(location, place)
    names = {"schema": schema, "table": table}
    with _connection(system) as cursor:
        cursor.execute(_COLUMNS, names)
        catalog = cursor.fetchall()
        check_columns(location, len(catalog), hint="Names may be case-sensitive. Search the system's tables.")
        cursor.execute(_PRIMARY_KEY, names)
        key = tuple(name for (name,) in cursor.fetchall())
        columns = [_column(place, *row) for row in catalog]
        records, notes = _first_rows(cursor, place, location, [(row[0], row[1]) for row in catalog], rows)
    return sample_of_table(location, columns, records, wanted=rows, key=key, notes=notes)


def _column(
    place: DatabasePlace,
    name: str,
    data_type: str,
    declared: str,
    precision: int | None,
    scale: int | None,
    length: int | None,
    nullable: str,
    comment: str,
) -> SampledColumn:
    never_null = "" if nullable == "YES" else "; never NULL"
    unsigned = " unsigned" if "unsigned" in declared else ""
    described = DescribedColumn(name, f"{data_type}{unsigned}", precision or 0, scale or 0)
    text = f"string({length})" if data_type in _TEXTS and length else engine_of(place).type_of(described)
    try:
        kind = parse(text)
    except TypeProblem:
        kind = DataType("string")
    evidence = f"the database says {declared}{never_null}"
    return SampledColumn(name, kind, evidence, nullable=nullable == "YES", description=comment)


def _first_rows(
    cursor: Cursor, place: DatabasePlace, location: str, columns: list[tuple[str, str]], rows: int
) -> tuple[list[tuple], tuple[str, ...]]:
    """Return the first rows as text, long values cut; if they cannot be read, no rows and the reason as a note."""
    engine = engine_of(place)
    texts = []
    for name, data_type in columns:
        value = engine.delivered(DescribedColumn(name, data_type), engine.quoted(name)).replace("%", "%%")
        is_binary = engine.types.get(data_type) == BINARY
        texts.append(f"LEFT({f'LOWER(HEX({value}))' if is_binary else f'CAST({value} AS CHAR)'}, {LONGEST_VALUE})")
    table = engine.table(location, place).replace("%", "%%")
    try:
        cursor.execute(f"SELECT {', '.join(texts)} FROM {table} LIMIT %s", (rows,))
        return list(cursor.fetchall()), ()
    except pymysql.MySQLError as error:
        return [], (f"No rows could be read ({_message(error)}); types are those of the catalog.",)


@contextmanager
def _connection(system: System) -> Iterator[Cursor]:
    """Yield a cursor of a read-only connection. Raise Refusal if the connection or a statement fails."""
    place, password = database_of(system, MARIADB_KINDS), password_of(system)
    session = engine_of(place).session(TableOptions(timeout=STATEMENT_SECONDS))
    try:
        connection = pymysql.connect(
            host=place.host,
            port=place.port,
            user=place.user or None,
            password=password,
            database=place.name,
            charset="utf8mb4",
            connect_timeout=CONNECT_SECONDS,
            read_timeout=STATEMENT_SECONDS + CONNECT_SECONDS,
            init_command=session,
            program_name="elevata",
            # No statement may read a file of this machine.
            local_infile=False,
        )
        with connection, connection.cursor() as cursor:
            yield cursor
    except (pymysql.MySQLError, OSError) as error:
        state = _STATES.get(error.args[0] if error.args else 0, "")
        code, message, hint = explain(
            DatabaseError(state, _message(error)),
            place,
            system.secret,
            STATEMENT_SECONDS,
            connect_seconds=CONNECT_SECONDS,
        )
        if code == "TOO_SLOW":
            # The source's option timeout is for loads.
            hint = "Try again when the database is less busy."
        raise Refusal(code, message, hint=hint) from None


def _message(error: Exception) -> str:
    return str(error.args[-1] if error.args else type(error).__name__)[:300]
