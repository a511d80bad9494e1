"""MariaDB and MySQL for pages: connection test, list of tables, sample of a table.

Every connection is read-only, short, and goes to an allowed host only. Errors never include the password.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from pymysql.cursors import Cursor

from loader.domain.engines import engine_of
from loader.domain.refusals import Refusal
from loader.domain.sources.database_errors import DatabaseError, explain
from loader.domain.sources.databases import DescribedColumn, TableOptions
from loader.domain.sources.sampling import SampledColumn
from loader.sources.files import Found, Listing, Reached, Sample, sampled
from loader.sources.limits import (
    CONNECT_SECONDS,
    LONGEST_VALUE,
    MAX_COLUMNS,
    STATEMENT_SECONDS,
    database_of,
    password_of,
)
from metadata.domain.sources.locations import DatabasePlace
from metadata.domain.types import DataType, TypeProblem, parse
from metadata.models import System

KINDS = ("mariadb", "mysql")
# SQLSTATEs by MariaDB's error number, as its JDBC driver has them.
_STATES = {
    1045: "28000", 1698: "28000", 1044: "42000-1044", 1049: "42000-1049", 1142: "42000-1142", 1143: "42000-1143",
    1146: "42S02", 1969: "70100", 3024: "HY000-3024", 2013: "HY000-2013",
}  # fmt: skip
_TABLES = """
  FROM information_schema.tables
 WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
   AND (%(search)s = '' OR LOCATE(LOWER(%(search)s), LOWER(CONCAT(table_schema, '.', table_name))) > 0)"""
_LIST = (
    "SELECT table_schema, table_name, table_type, table_rows, data_length + index_length"
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
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def reach_mariadb(system: System) -> Reached:
    """Return the result of a connection test: server, user, encryption, and the number of tables that may be read."""
    with _connected(system) as cursor:
        cursor.execute("SELECT VERSION(), CURRENT_USER()")
        version, user = cursor.fetchone() or ("", "")
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        is_secure = bool((cursor.fetchone() or ("", ""))[1])
        cursor.execute(_COUNT, {"search": ""})
        (tables,) = cursor.fetchone() or (0,)
    facts = (
        ("Database", str(database_of(system, KINDS))),
        ("Server", version if "MariaDB" in version else f"MySQL {version}"),
        ("Signed in as", user),
        ("Tables that may be read", f"{tables:,}"),
        ("Connection", "encrypted" if is_secure else "not encrypted"),
    )
    return Reached(
        "The database answers." if tables else "The database answers, but there is no table this user may read.", facts
    )


def list_mariadb(system: System, *, search: str = "", start: int = 0, count: int = 50) -> Listing:
    """Return one page of the readable tables and views, sorted by name. Row counts are the database's estimates."""
    parameters = {"search": search.strip(), "start": start, "count": count}
    with _connected(system) as cursor:
        cursor.execute(_COUNT, parameters)
        (total,) = cursor.fetchone() or (0,)
        cursor.execute(_LIST, parameters)
        rows = cursor.fetchall()
    return Listing(
        tuple(
            Found(
                name=table,
                location=f"{schema}.{table}",
                format="table",
                size=None if kind == "VIEW" else size,
                rows=None if kind == "VIEW" else estimate,
                note="view" if kind == "VIEW" else "",
            )
            for schema, table, kind, estimate, size in rows
        ),
        total,
    )


def sample_mariadb(system: System, location: str, rows: int) -> Sample:
    """Return the columns of a table from the catalog, and its first rows. Raise Refusal MISSING_TABLE."""
    place = database_of(system, KINDS)
    schema, table = engine_of(place).names(location, place)
    names = {"schema": schema, "table": table}
    with _connected(system) as cursor:
        cursor.execute(_COLUMNS, names)
        catalog = cursor.fetchall()
        if not catalog:
            raise Refusal(
                "MISSING_TABLE",
                f"there is no table {location} that may be read",
                hint="Names may be case-sensitive. Search the system's tables.",
            )
        if len(catalog) > MAX_COLUMNS:
            raise Refusal("TOO_MANY_COLUMNS", f"{location} has {len(catalog):,} columns")
        cursor.execute(_PRIMARY_KEY, names)
        key = tuple(name for (name,) in cursor.fetchall())
        columns = [_column(place, *each) for each in catalog]
        records, notes = _first_rows(cursor, place, location, [(row[0], row[1]) for row in catalog], rows)
    values = [list(column) for column in zip(*records, strict=True)] or [[] for _ in columns]
    whole = len(records) < rows and not notes
    return sampled(columns, values, whole=whole, typed=True, where=location, key=key, notes=notes)


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
    also = "" if nullable == "YES" else "; never NULL"
    unsigned = " unsigned" if "unsigned" in declared else ""
    described = DescribedColumn(name, f"{data_type}{unsigned}", precision or 0, scale or 0)
    text = f"string({length})" if data_type in _TEXTS and length else engine_of(place).type_of(described)
    try:
        kind = parse(text)
    except TypeProblem:
        kind = DataType("string")
    evidence = f"the database says {declared}{also}"
    return SampledColumn(name, kind, evidence, nullable=nullable == "YES", description=comment)


def _first_rows(
    cursor: Cursor, place: DatabasePlace, location: str, columns: list[tuple[str, str]], rows: int
) -> tuple[list[tuple], tuple[str, ...]]:
    """Return the first rows as text, long values cut; if they cannot be read, no rows and the reason as a note."""
    engine = engine_of(place)
    texts = [
        f"LEFT({'LOWER(HEX({}))' if data_type in _BYTES else 'CAST({} AS CHAR)'}, {LONGEST_VALUE})".format(
            engine.quoted(name).replace("%", "%%")
        )
        for name, data_type in columns
    ]
    table = engine.table(location, place).replace("%", "%%")
    try:
        cursor.execute(f"SELECT {', '.join(texts)} FROM {table} LIMIT %s", (rows,))
        return list(cursor.fetchall()), ()
    except pymysql.MySQLError as error:
        return [], (f"No rows could be read ({_message(error)}); types are those of the catalog.",)


@contextmanager
def _connected(system: System) -> Iterator[Cursor]:
    """Yield a cursor of a read-only connection. Raise Refusal if the connection or a statement fails."""
    place, password = database_of(system, KINDS), password_of(system)
    begin = engine_of(place).session(TableOptions(timeout=STATEMENT_SECONDS))
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
            init_command=begin,
            program_name="elevata",
            # No statement may read a file of this machine.
            local_infile=False,
        )
        with connection, connection.cursor() as cursor:
            yield cursor
    except (pymysql.MySQLError, OSError) as error:
        state = _STATES.get(error.args[0] if error.args else 0, "")
        found = DatabaseError(state, _message(error))
        code, message, hint = explain(found, place, system.secret, STATEMENT_SECONDS)
        raise Refusal(code, message, hint=hint) from None


def _message(error: Exception) -> str:
    return str(error.args[-1] if error.args else type(error).__name__)[:300]
