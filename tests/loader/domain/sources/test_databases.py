"""Statements and partitions of tables as sources, and the check of their SQL."""

from dataclasses import fields

import pytest

from loader.contract.refusals import Refusal
from loader.domain.database_kinds import ENGINES, Oracle
from loader.domain.sources.databases import DescribedColumn, Engine, TableOptions, with_condition
from metadata.domain.sources.database_locations import PORTS, DatabasePlace
from metadata.domain.sources.formats import TABLE
from metadata.domain.sources.reading_options import ReadingOptions, options_of

COLUMNS = (
    DescribedColumn("id", "int4"),
    DescribedColumn('a "b', "numeric", 10, 2),
    DescribedColumn("tags", "_text"),
    DescribedColumn("free", "numeric"),
    DescribedColumn("day", "date"),
)


def test_postgresql_statement_casts_columns_and_applies_the_filter():
    options = TableOptions(filter="id > 0", partition_column="id")
    assert Engine().statement('"shop"."orders"', COLUMNS, options) == (
        'SELECT t."id" AS "d0", NULLIF(t."a ""b", \'NaN\') AS "d1", CAST(array_to_json(t."tags") AS text) AS "d2", '
        'CAST(t."free" AS text) AS "d3", '
        """CASE WHEN t."day" BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999' """
        """THEN t."day" - DATE '1970-01-01' END AS "d4", """
        """CASE WHEN t."a ""b" = 'NaN' THEN 'NaN' END AS "x1", """
        """CASE WHEN t."day" NOT BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999' """
        """THEN CAST(t."day" AS text) END AS "x4", """
        't."id" AS "part" FROM "shop"."orders" t WHERE (\nid > 0\n)'
    )
    assert Engine().bounds('"shop"."orders"', options) == (
        'SELECT MIN(t."id"), MAX(t."id") FROM "shop"."orders" t WHERE (\nid > 0\n)'
    )


@pytest.mark.parametrize(
    ("kind", "columns", "statement", "url"),
    [
        (
            "mariadb",
            [("a`b", "INT"), ("n", "DECIMAL"), ("at", "TIMESTAMP"), ("flag", "BIT")],
            "SELECT t.`a``b` AS `d0`, CAST(t.`n` AS CHAR) AS `d1`, CONCAT(CAST(t.`at` AS CHAR), 'Z') AS `d2`, "
            "CAST(t.`flag` + 0 AS CHAR) AS `d3`, t.`a``b` AS `part` FROM `shop`.`orders` t WHERE (\nn > 0\n)",
            "jdbc:mysql://db:3306/my%20erp?permitMysqlScheme",
        ),
        (
            "sqlserver",
            [("a]b", "int identity"), ("n", "decimal"), ("at", "datetime2"), ("doc", "xml")],
            "SELECT t.[a]]b] AS [d0], CAST(t.[n] AS nvarchar(max)) AS [d1], "
            "CONVERT(nvarchar(40), t.[at], 126) AS [d2], "
            "CAST(t.[doc] AS nvarchar(max)) AS [d3], t.[a]]b] AS [part] FROM [shop].[orders] t WHERE (\nn > 0\n)",
            "jdbc:sqlserver://db:1433;databaseName={my erp}",
        ),
        (
            "oracle",
            [('a"b', "NUMBER"), ("at", "DATE"), ("note", "VARCHAR2")],
            "SELECT TO_CHAR(t.\"a\"\"b\", 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,''') AS \"d0\", "
            'TO_CHAR(t."at", \'SYYYY-MM-DD HH24:MI:SS\') AS "d1", t."note" AS "d2", '
            't."a""b" AS "part" FROM "shop"."orders" t WHERE (\nn > 0\n)',
            "jdbc:oracle:thin:@//db:1521/my%20erp",
        ),
    ],
)
def test_statement_and_url_use_the_syntax_of_each_database(kind, columns, statement, url):
    engine, place = ENGINES[kind], DatabasePlace("db", PORTS[kind], "my erp", "reader", kind)
    described = [DescribedColumn(name, type_.lower()) for name, type_ in columns]
    options = TableOptions(filter="n > 0", partition_column=columns[0][0])
    assert engine.statement(engine.relation("shop.orders", place, options), described, options) == statement
    assert engine.url(place) == url


def test_columns_that_lose_values_as_text_are_read_in_another_form():
    engine = ENGINES["mariadb"]
    described = {type_: DescribedColumn("c", type_) for type_ in ("float", "float unsigned", "point", "double")}
    assert {type_: engine.transport(column).sql for type_, column in described.items()} == {
        "float": "t.`c` * 1E0",
        "float unsigned": "t.`c` * 1E0",
        "point": "ST_AsBinary(t.`c`)",
        "double": "t.`c`",
    }
    assert engine.type_of(DescribedColumn("c", "decimal unsigned", 10, 2)) == "decimal(10,2)"
    assert engine.type_of(described["point"]) == "binary"
    assert "NLS_NUMERIC" in ENGINES["oracle"].transport(DescribedColumn("c", "float")).sql


@pytest.mark.parametrize(
    ("kind", "table", "bounds"),
    [
        ("mariadb", "`my erp`.`orders`", "SELECT MIN(t.`at`), MAX(t.`at`) FROM `my erp`.`orders` t"),
        ("sqlserver", "[dbo].[orders]", "SELECT MIN(t.[at]), MAX(t.[at]) FROM [dbo].[orders] t"),
        ("oracle", '"READER"."orders"', 'SELECT MIN(t."at"), MAX(t."at") FROM "READER"."orders" t'),
    ],
)
def test_table_without_a_schema_uses_the_default_of_each_database(kind, table, bounds):
    engine, place = ENGINES[kind], DatabasePlace("db", 1, "my erp", "reader", kind)
    options = TableOptions(partition_column="at")
    assert engine.relation("orders", place, options) == table
    assert engine.bounds(table, options) == bounds


@pytest.mark.parametrize(
    ("kind", "type_", "last"),
    [
        ("mariadb", "datetime", "`part` >= '2024-01-02 00:00:00'"),
        ("sqlserver", "datetime2", "[part] >= '2024-01-02T00:00:00'"),
        ("oracle", "timestamp", "\"part\" >= TIMESTAMP '2024-01-02 00:00:00'"),
        ("oracle", "date", "\"part\" >= TIMESTAMP '2024-01-02 00:00:00'"),
    ],
)
def test_partition_bounds_of_times_use_the_syntax_of_each_database(kind, type_, last):
    made = ENGINES[kind].predicates(DescribedColumn("at", type_), "2024-01-01 00:00:00.0", "2024-01-03 00:00:00.0", 2)
    assert made[-1] == last


def test_session_statement_has_separate_parts_for_mariadb_and_mysql():
    assert ENGINES["mysql"].session(TableOptions(timeout=5)) == (
        "SET SESSION time_zone = '+00:00' /*M!100100 , tx_read_only = 1, max_statement_time = 5 */ "
        "/*!80000 , transaction_read_only = 1, max_execution_time = 5000 */"
    )


def test_database_name_cannot_add_settings_to_the_url():
    place = DatabasePlace("::1", 5432, "erp?user=other&x=/y")
    assert Engine().url(place) == "jdbc:postgresql://[::1]:5432/erp%3Fuser%3Dother%26x%3D%2Fy"


def test_table_options_match_the_options_that_metadata_accepts_for_tables():
    defaults = TableOptions.of("erp.customer", {"timezone": "Europe/Berlin"})
    shared = {entry.name for entry in fields(ReadingOptions)}
    own = {name: option.default for name, option in options_of(TABLE).items() if name not in shared}
    assert {name: value or None for name, value in vars(defaults).items()} == own


@pytest.mark.parametrize(
    ("type_", "low", "high", "predicates"),
    [
        ("int4", "1", "9", ['"part" < 5 OR "part" IS NULL', '"part" >= 5']),
        ("int8", "-9223372036854775808", "9223372036854775807", ['"part" < 0 OR "part" IS NULL', '"part" >= 0']),
        ("numeric", "0.5", "1.5", ['"part" < 1 OR "part" IS NULL', '"part" >= 1']),
        ("date", "2024-01-01", "2024-01-03", ['"part" < \'2024-01-02\' OR "part" IS NULL', "\"part\" >= '2024-01-02'"]),
        (
            "timestamptz",
            "2024-01-01 00:00:00+00",
            "2024-01-02 00:00:00.5+00",
            [
                '"part" < \'2024-01-01 12:00:00.250000+00:00\' OR "part" IS NULL',
                "\"part\" >= '2024-01-01 12:00:00.250000+00:00'",
            ],
        ),
        ("int4", None, None, ["1 = 1"]),
    ],
)
def test_partitions_are_equal_ranges_between_the_bounds(type_, low, high, predicates):
    assert Engine().predicates(DescribedColumn("n", type_), low, high, 2) == predicates


def test_partitions_beyond_the_number_of_values_are_omitted():
    made = Engine().predicates(DescribedColumn("n", "int4"), "1", "2", 10)
    assert made == ['"part" < 1 OR "part" IS NULL', '"part" >= 1']


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [("text", "a", "b"), ("date", "2024-01-01", "infinity"), ("numeric", "0", "NaN"), ("numeric", "1", "Infinity")],
)
def test_partition_column_that_cannot_be_divided_is_refused(type_, low, high):
    with pytest.raises(Refusal) as refused:
        Engine().predicates(DescribedColumn("n", type_), low, high, 2)
    assert refused.value.code == "BAD_OPTION"


def test_a_table_of_oracle_needs_a_schema_or_a_user():
    with pytest.raises(Refusal) as refused:
        Oracle().table("orders", DatabasePlace("db", 1521, "erp", kind="oracle"))
    assert (refused.value.code, bool(refused.value.hint)) == ("BAD_LOCATION", True)


WATERMARKS = {"n": "7", "day": "2024-01-02", "at": "2024-01-02 03:04:05.123456", "zoned": "2024-01-02 03:04:05.5+00:00"}


@pytest.mark.parametrize(
    ("kind", "types", "highest", "conditions"),
    [
        (
            "postgresql",
            {"n": "int4", "day": "date", "at": "timestamp", "zoned": "timestamptz"},
            'MAX(t."n"), CAST(MAX(t."day") AS text), CAST(MAX(t."at") AS text), CAST(MAX(t."zoned") AS text)',
            """t."n" >= 7 OR t."day" >= '2024-01-02' OR t."at" >= '2024-01-02 03:04:05.123456' """
            """OR t."zoned" >= '2024-01-02 03:04:05.500000+00:00'""",
        ),
        (
            "mariadb",
            {"n": "decimal", "day": "date", "at": "datetime", "zoned": "timestamp"},
            "CAST(MAX(t.`n`) AS CHAR), CAST(MAX(t.`day`) AS CHAR), CAST(MAX(t.`at`) AS CHAR), "
            "CONCAT(CAST(MAX(t.`zoned`) AS CHAR), 'Z')",
            "t.`n` >= 7 OR t.`day` >= '2024-01-02' OR t.`at` >= '2024-01-02 03:04:05.123456' "
            "OR t.`zoned` >= '2024-01-02 03:04:05.500000'",
        ),
        (
            "sqlserver",
            {"n": "bigint", "day": "date", "at": "datetime2", "zoned": "datetimeoffset"},
            "MAX(t.[n]), CONVERT(nvarchar(40), MAX(t.[day]), 126), CONVERT(nvarchar(40), MAX(t.[at]), 126), "
            "CONVERT(nvarchar(40), MAX(t.[zoned]), 126)",
            "t.[n] >= 7 OR t.[day] >= CAST('2024-01-02' AS date) "
            "OR t.[at] >= CAST('2024-01-02T03:04:05.123456' AS datetime2) "
            "OR t.[zoned] >= CAST('2024-01-02T03:04:05.500000+00:00' AS datetimeoffset)",
        ),
        (
            "oracle",
            {"n": "number", "at": "date", "zoned": "timestamp with time zone"},
            "TO_CHAR(MAX(t.\"n\"), 'TM9', 'NLS_NUMERIC_CHARACTERS=''.,'''), "
            "TO_CHAR(MAX(t.\"at\"), 'SYYYY-MM-DD HH24:MI:SS'), "
            'TO_CHAR(SYS_EXTRACT_UTC(MAX(t."zoned")), \'SYYYY-MM-DD HH24:MI:SS.FF6"Z"\')',
            't."n" >= 7 OR t."at" >= TIMESTAMP \'2024-01-02 03:04:05.123456\' '
            "OR t.\"zoned\" >= TIMESTAMP '2024-01-02 03:04:05.500000 +00:00'",
        ),
    ],
)
def test_watermark_queries_use_the_syntax_of_each_database(kind, types, highest, conditions):
    engine, options = ENGINES[kind], TableOptions(filter="id > 0 -- real")
    columns = [DescribedColumn(name, type_) for name, type_ in types.items()]
    assert engine.highest("orders", columns, options) == f"SELECT {highest} FROM orders t WHERE (\nid > 0 -- real\n)"
    nulls = " AND ".join(f"t.{engine.quoted(name)} IS NULL" for name in types)
    made = engine.from_values(columns, {name: WATERMARKS[name] for name in types})
    assert made == f"({nulls}) OR {conditions}"
    assert with_condition(options, "a OR b").filter == "(\nid > 0 -- real\n) AND (a OR b)"


@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_rows_ahead_of_a_limit_are_counted_under_the_filter(kind: str):
    engine, options = ENGINES[kind], TableOptions(filter="id > 0")
    column = DescribedColumn("n", {"postgresql": "int4", "oracle": "number"}.get(kind, "bigint"))
    name = f"t.{engine.quoted('n')}"
    assert engine.counted_above("orders", column, "7", options) == (
        f"SELECT COUNT(CASE WHEN {name} > 7 THEN 1 END), COUNT({name}) FROM orders t WHERE (\nid > 0\n)"
    )
    assert engine.up_to(column, "7") == f"{name} <= 7"
    assert f"MIN({name})" in engine.lowest("orders", column, options)


def test_watermark_column_without_a_mark_reads_every_row_with_a_value():
    columns = [DescribedColumn("n", "int4"), DescribedColumn("at", "timestamp")]
    assert Engine().from_values(columns, {"n": "7"}) == (
        '(t."n" IS NULL AND t."at" IS NULL) OR t."n" >= 7 OR t."at" IS NOT NULL'
    )


@pytest.mark.parametrize("type_", ["text", "float8", "time", "jsonb"])
def test_a_column_without_an_exact_order_cannot_be_a_watermark(type_):
    with pytest.raises(Refusal) as refused:
        Engine().watermark_kind(DescribedColumn("v", type_))
    assert (refused.value.code, refused.value.column) == ("BAD_WATERMARK", "v")
