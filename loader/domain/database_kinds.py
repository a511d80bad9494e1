"""Kinds of databases besides PostgreSQL: MariaDB and MySQL, SQL Server, Oracle.

``ELEVATA_SPARK_PACKAGES`` names their drivers. They export no snapshot, so Spark reads their rows once and caches them
while they are checked; each connection sees the state at its own beginning.
"""

from collections.abc import Mapping
from datetime import date, datetime

from loader.contract.refusals import Refusal
from loader.domain.sources.databases import (
    CONNECT_SECONDS,
    GRACE_SECONDS,
    NATIVE,
    DescribedColumn,
    Engine,
    TableOptions,
    Transport,
    escaped,
    host_of,
)
from loader.domain.sources.marks import DAY, INSTANT, LOCAL
from metadata.domain import types as data_types
from metadata.domain.sources.database_locations import DatabasePlace

_MILLISECONDS = 1_000
_MYSQL_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "integer")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob", "binary", "varbinary")
# A cast to text would give the bytes of the server's own format as characters.
_GEOMETRIES = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
    *("geometrycollection", "geomcollection"),
)


class _WithoutSnapshot(Engine):
    """Base class of databases that export no snapshot, without a query for the primary key."""

    has_snapshots = False
    default_schema = ""

    def primary_key(self, location: str, place: DatabasePlace) -> str:
        return ""

    def transport(self, column: DescribedColumn) -> Transport:
        return self.as_text(column)


class MySQL(_WithoutSnapshot):
    """MariaDB and MySQL, through MariaDB's driver. Spark quotes names correctly for ``jdbc:mysql`` only."""

    title, text = "MariaDB and MySQL", "CHAR"
    driver, package = "org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client"
    quotes = ("`", "`")
    as_delivered: Mapping[str, str] = {
        **dict.fromkeys((*_MYSQL_INTEGERS, "bigint", "double", "real", *_BLOBS), NATIVE),
        **dict.fromkeys((f"{name} unsigned" for name in (*_MYSQL_INTEGERS, "double")), NATIVE),
        # The server writes a float with six digits, and a double with all of them.
        **dict.fromkeys(("float", "float unsigned"), "{column} * 1E0"),
        **dict.fromkeys(_GEOMETRIES, "ST_AsBinary({column})"),
        "bit": "CAST({column} + 0 AS CHAR)",
        # In UTC, the session's time zone.
        "timestamp": "CONCAT(CAST({column} AS CHAR), 'Z')",
    }
    types: Mapping[str, str] = {
        **dict.fromkeys((*_MYSQL_INTEGERS, "year", "smallint unsigned", "tinyint unsigned"), data_types.INTEGER),
        **dict.fromkeys(("bigint", "int unsigned", "integer unsigned", "mediumint unsigned"), data_types.BIGINT),
        **dict.fromkeys(("float", "double", "real", "float unsigned", "double unsigned"), data_types.FLOAT),
        **dict.fromkeys(("datetime", "timestamp"), data_types.TIMESTAMP),
        **dict.fromkeys((*_BLOBS, *_GEOMETRIES), data_types.BINARY),
        "bigint unsigned": "decimal(20,0)",
        "date": data_types.DATE,
        "time": data_types.TIME,
        "json": data_types.JSON,
    }
    decimals = ("decimal", "decimal unsigned")
    with_zone = ("timestamp",)

    def url(self, place: DatabasePlace) -> str:
        return f"jdbc:mysql://{host_of(place)}:{place.port}/{escaped(place.name)}?permitMysqlScheme"

    def properties(self, options: TableOptions) -> dict[str, str]:
        return {
            "connectTimeout": str(CONNECT_SECONDS * _MILLISECONDS),
            "socketTimeout": str((options.timeout + GRACE_SECONDS) * _MILLISECONDS),
            "tinyInt1isBit": "false",
            "connectionAttributes": "program_name:elevata",
        }

    def session(self, options: TableOptions, snapshot: str = "") -> str:
        """Return one statement for both; each server executes only its own of the two comments."""
        mariadb = f"tx_read_only = 1, max_statement_time = {options.timeout}"
        mysql = f"transaction_read_only = 1, max_execution_time = {options.timeout * _MILLISECONDS}"
        return f"SET SESSION time_zone = '+00:00' /*M!100100 , {mariadb} */ /*!80000 , {mysql} */"

    def moment(self, value: date) -> str:
        """Return the literal without an offset, which MariaDB does not read; the session is in UTC."""
        return super().moment(value.replace(tzinfo=None) if isinstance(value, datetime) else value)


_SQL_SERVER_INTEGERS = ("tinyint", "smallint", "int", "int identity", "smallint identity", "tinyint identity")
_SQL_SERVER_MOMENTS = {DAY: "date", LOCAL: "datetime2", INSTANT: "datetimeoffset"}
_ISO = "CONVERT(nvarchar(40), {column}, 126)"


class SQLServer(_WithoutSnapshot):
    title, text = "SQL Server", "nvarchar(max)"
    driver, package = "com.microsoft.sqlserver.jdbc.SQLServerDriver", "com.microsoft.sqlserver:mssql-jdbc"
    quotes = ("[", "]")
    default_schema = "dbo"
    as_delivered: Mapping[str, str] = {
        **dict.fromkeys((*_SQL_SERVER_INTEGERS, "bigint", "bigint identity", "real", "float", "bit"), NATIVE),
        **dict.fromkeys(("binary", "varbinary", "image", "timestamp"), NATIVE),
        **dict.fromkeys(("date", "datetime", "datetime2", "smalldatetime", "datetimeoffset"), _ISO),
        **dict.fromkeys(("money", "smallmoney"), "CONVERT(nvarchar(40), {column}, 2)"),
    }
    types: Mapping[str, str] = {
        **dict.fromkeys(_SQL_SERVER_INTEGERS, data_types.INTEGER),
        **dict.fromkeys(("bigint", "bigint identity"), data_types.BIGINT),
        **dict.fromkeys(("real", "float"), data_types.FLOAT),
        **dict.fromkeys(("datetime", "datetime2", "smalldatetime", "datetimeoffset"), data_types.TIMESTAMP),
        **dict.fromkeys(("binary", "varbinary", "image", "timestamp"), data_types.BINARY),
        **dict.fromkeys(("money", "smallmoney"), "decimal(19,4)"),
        "bit": data_types.BOOLEAN,
        "date": data_types.DATE,
        "uniqueidentifier": data_types.UUID,
    }
    decimals = ("decimal", "numeric")
    with_zone = ("datetimeoffset",)

    def url(self, place: DatabasePlace) -> str:
        name = place.name.replace("}", "}}")
        return f"jdbc:sqlserver://{host_of(place)}:{place.port};databaseName={{{name}}}"

    def properties(self, options: TableOptions) -> dict[str, str]:
        return {
            "applicationName": "elevata",
            "applicationIntent": "ReadOnly",
            "loginTimeout": str(CONNECT_SECONDS),
            "socketTimeout": str((options.timeout + GRACE_SECONDS) * _MILLISECONDS),
            "queryTimeout": str(options.timeout),
        }

    def session(self, options: TableOptions, snapshot: str = "") -> str:
        return f"SET LOCK_TIMEOUT {options.timeout * _MILLISECONDS}"

    def moment(self, value: date) -> str:
        return f"'{value.isoformat()}'"

    def literal(self, text: str, kind: str) -> str:
        """Return the literal with its type, because a datetime reads no text with microseconds."""
        plain, type_ = super().literal(text, kind), _SQL_SERVER_MOMENTS.get(kind)
        return f"CAST({plain} AS {type_})" if type_ else plain


_SECONDS, _FRACTIONS = "SYYYY-MM-DD HH24:MI:SS", "SYYYY-MM-DD HH24:MI:SS.FF6"


class Oracle(_WithoutSnapshot):
    """Oracle, whose type DATE has a time of day."""

    title, text = "Oracle", "VARCHAR2(4000)"
    driver, package = "oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc11"
    as_delivered: Mapping[str, str] = {
        **dict.fromkeys(("varchar2", "nvarchar2", "char", "nchar", "clob", "nclob"), NATIVE),
        **dict.fromkeys(("binary_float", "binary_double", "raw", "blob"), NATIVE),
        # Without the format, the session's decimal separator would count.
        **dict.fromkeys(("number", "float"), "TO_CHAR({column}, 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,''')"),
        "date": f"TO_CHAR({{column}}, '{_SECONDS}')",
        "timestamp": f"TO_CHAR({{column}}, '{_FRACTIONS}')",
        **dict.fromkeys(
            ("timestamp with time zone", "timestamp with local time zone"),
            f"TO_CHAR(SYS_EXTRACT_UTC({{column}}), '{_FRACTIONS}\"Z\"')",
        ),
    }
    types: Mapping[str, str] = {
        **dict.fromkeys(("binary_float", "binary_double"), data_types.FLOAT),
        **dict.fromkeys(("raw", "blob"), data_types.BINARY),
        **dict.fromkeys(
            ("date", "timestamp", "timestamp with time zone", "timestamp with local time zone"), data_types.TIMESTAMP
        ),
    }
    decimals = ("number",)
    with_zone = ("timestamp with time zone", "timestamp with local time zone")

    def url(self, place: DatabasePlace) -> str:
        return f"jdbc:oracle:thin:@//{host_of(place)}:{place.port}/{escaped(place.name)}"

    def properties(self, options: TableOptions) -> dict[str, str]:
        return {
            "v$session.program": "elevata",
            "oracle.net.CONNECT_TIMEOUT": str(CONNECT_SECONDS * _MILLISECONDS),
            "oracle.jdbc.ReadTimeout": str((options.timeout + GRACE_SECONDS) * _MILLISECONDS),
            "queryTimeout": str(options.timeout),
        }

    def session(self, options: TableOptions, snapshot: str = "") -> str:
        return "SET TRANSACTION READ ONLY"

    def names(self, location: str, place: DatabasePlace) -> tuple[str, str]:
        """Return schema and table; a table without a schema is the user's own.

        Raise Refusal BAD_LOCATION if there is neither a schema nor a user.
        """
        if "." not in location and not place.user:
            raise Refusal(
                "BAD_LOCATION",
                f"{location} names no schema, and the system's location no user",
                hint="Write schema.table as the source's location.",
            )
        return super().names(location if "." in location else f"{place.user.upper()}.{location.strip()}", place)

    def moment(self, value: date) -> str:
        if isinstance(value, datetime):
            zone = " +00:00" if value.tzinfo else ""
            return f"TIMESTAMP '{value.replace(tzinfo=None).isoformat(' ')}{zone}'"
        return f"DATE '{value.isoformat()}'"


_MYSQL = MySQL()
ENGINES: Mapping[str, Engine] = {
    "postgresql": Engine(),
    "mariadb": _MYSQL,
    "mysql": _MYSQL,
    "sqlserver": SQLServer(),
    "oracle": Oracle(),
}


def engine_of(place: DatabasePlace) -> Engine:
    return ENGINES[place.kind]
