"""Statements and partitions of tables as sources, and the check of their SQL."""

import pytest

from loader.domain.databases import DescribedColumn, Engine, TableOptions
from loader.domain.engines import ENGINES, Oracle
from loader.domain.refusals import Refusal
from metadata.domain.locations import PORTS, DatabasePlace
from metadata.domain.source_formats import TABLE, options_of

PLACE = DatabasePlace("db", 5432, "my erp", "reader")
COLUMNS = (
    DescribedColumn("id", "int4"),
    DescribedColumn('a "b', "numeric", 10, 2),
    DescribedColumn("tags", "_text"),
    DescribedColumn("free", "numeric"),
    DescribedColumn("day", "date"),
)


def test_postgresql_statement():
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
def test_statements_of_other_databases(kind, columns, statement, url):
    engine, place = ENGINES[kind], DatabasePlace("db", PORTS[kind], "my erp", "reader", kind)
    described = [DescribedColumn(name, type_.lower()) for name, type_ in columns]
    options = TableOptions(filter="n > 0", partition_column=columns[0][0])
    assert engine.statement(engine.relation("shop.orders", place, options), described, options) == statement
    assert engine.url(place) == url


@pytest.mark.parametrize(
    ("kind", "table", "bounds"),
    [
        ("mariadb", "`my erp`.`orders`", "SELECT MIN(t.`at`), MAX(t.`at`) FROM `my erp`.`orders` t"),
        ("sqlserver", "[dbo].[orders]", "SELECT MIN(t.[at]), MAX(t.[at]) FROM [dbo].[orders] t"),
        ("oracle", '"READER"."orders"', 'SELECT MIN(t."at"), MAX(t."at") FROM "READER"."orders" t'),
    ],
)
def test_tables_without_a_schema_and_bounds(kind, table, bounds):
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
def test_times_in_partitions_are_written_as_each_database_reads_them(kind, type_, last):
    made = ENGINES[kind].predicates(DescribedColumn("at", type_), "2024-01-01 00:00:00.0", "2024-01-03 00:00:00.0", 2)
    assert made[-1] == last


def test_each_server_runs_its_own_part_of_the_session():
    assert ENGINES["mysql"].session(TableOptions(timeout=5)) == (
        "SET SESSION time_zone = '+00:00' /*M!100100 , tx_read_only = 1, max_statement_time = 5 */ "
        "/*!80000 , transaction_read_only = 1, max_execution_time = 5000 */"
    )


def test_a_place_cannot_add_settings_to_the_url():
    place = DatabasePlace("::1", 5432, "erp?user=other&x=/y")
    assert Engine().url(place) == "jdbc:postgresql://[::1]:5432/erp%3Fuser%3Dother%26x%3D%2Fy"


def test_options_are_those_that_metadata_accepts():
    defaults = TableOptions.of("erp.customer", {})
    assert set(TableOptions.__dataclass_fields__) == set(options_of(TABLE))
    assert {name: getattr(defaults, name) or None for name in options_of(TABLE)} == {
        name: option.default for name, option in options_of(TABLE).items()
    }


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


def test_more_partitions_than_values_are_no_empty_ranges():
    made = Engine().predicates(DescribedColumn("n", "int4"), "1", "2", 10)
    assert made == ['"part" < 1 OR "part" IS NULL', '"part" >= 1']


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [("text", "a", "b"), ("date", "2024-01-01", "infinity"), ("numeric", "0", "NaN"), ("numeric", "1", "Infinity")],
)
def test_a_column_that_cannot_be_divided_is_refused(type_, low, high):
    with pytest.raises(Refusal) as refused:
        Engine().predicates(DescribedColumn("n", type_), low, high, 2)
    assert refused.value.code == "BAD_OPTION"


def test_a_table_of_oracle_needs_a_schema_or_a_user():
    with pytest.raises(Refusal) as refused:
        Oracle().table("orders", DatabasePlace("db", 1521, "erp", kind="oracle"))
    assert (refused.value.code, bool(refused.value.hint)) == ("BAD_LOCATION", True)
