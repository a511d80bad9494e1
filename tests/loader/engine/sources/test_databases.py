"""Tables of a real PostgreSQL database as deliveries."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from loader.contract.manifest.sources import DatabaseSpec, DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from metadata.domain.sources.database_locations import DatabasePlace
from tests.fixtures.source_database import own_schema, server_place
from tests.loader.processes import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.services]

ORDERS = """
CREATE TYPE jdbc.mood AS ENUM ('good', 'bad');
CREATE TABLE jdbc.orders (
  id integer PRIMARY KEY, "Customer Name" varchar(40) NOT NULL, amount numeric(10,2), free numeric, ratio float8,
  active boolean, big bigint, ordered_at timestamptz, local timestamp, day date, clock time, tags text[],
  mood jdbc.mood, ref uuid, doc jsonb, raw bytea, took interval);
INSERT INTO jdbc.orders SELECT n, 'c' || n, n * 1.5, 1 / n::numeric, n / 4.0, n % 2 = 0, n * 10000000000,
  '2024-03-31 01:30:00.123456+00'::timestamptz + n * interval '1 day', '1500-02-28 12:00:00', '0044-03-15', '23:59:59',
  ARRAY['a', 'b"c'], 'good', '6f2d8f0e-6d3c-4d8b-9f43-0a6a3f1c7a11', '{"a": [1, 2]}', '\\x00ff', '1 day 02:00'
  FROM generate_series(1, 100) AS n;
CREATE VIEW jdbc.large AS SELECT id, amount FROM jdbc.orders WHERE id > 90;
"""
KEY = DeliveredColumn("k-id", "id", "integer", nullable=False, business_key=True)


def column(name: str, type_: str, **facts: bool) -> DeliveredColumn:
    return DeliveredColumn(f"k-{name}", name, type_, **facts)


@pytest.fixture
def orders() -> Iterator[psycopg.Connection]:
    with own_schema("jdbc", ORDERS) as connection:
        yield connection


def place(**changes) -> DatabasePlace:
    return replace(server_place(), **changes)


def source(*columns: DeliveredColumn, location: str = "jdbc.orders", **options) -> SourceSpec:
    database = DatabaseSpec(place())
    return SourceSpec("erp.orders", location, "table", columns or (KEY,), options, database=database)


def rows_of(spark, spec: SourceSpec) -> list[tuple]:
    delivery = read_delivery(spark, spec)
    try:
        return sorted(tuple(row) for row in delivery.frame.collect())
    finally:
        delivery.release()


def refused(spark, spec: SourceSpec) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_delivery(spark, spec).release()
    assert caught.value.hint
    return caught.value


@pytest.mark.core
def test_postgresql_values_of_every_type_are_read_exactly(spark, orders):
    contract = (
        *(KEY, column("Customer Name", "string(40)"), column("amount", "decimal(10,2)"), column("ratio", "float")),
        *(column("active", "boolean"), column("big", "bigint"), column("ordered_at", "timestamp")),
        *(column("local", "timestamp"), column("day", "date"), column("clock", "time"), column("tags", "json")),
        *(column("mood", "string"), column("ref", "uuid"), column("doc", "json"), column("raw", "binary")),
        column("took", "string"),
    )
    rows = rows_of(spark, source(*contract))
    assert len(rows) == 100
    texts = [str(value) for value in rows[0]]
    assert texts == [
        *("1", "c1", "1.50", "0.25", "False", "10000000000", "2024-04-01 01:30:00.123456", "1500-02-28 12:00:00"),
        *("0044-03-15", "23:59:59", '["a","b\\"c"]', "good", "6f2d8f0e-6d3c-4d8b-9f43-0a6a3f1c7a11"),
        *('{"a": [1, 2]}', "b'\\x00\\xff'", "1 day 02:00:00"),
    ]


# Type, value, type in the contract, and the server's own text of the value.
_TEXT = "CAST({} AS text)"
KINDS = (
    *(("smallint", "-32768", "integer", _TEXT), ("bigint", "-9223372036854775808", "bigint", _TEXT)),
    *(
        ("numeric(20,5)", "123456789012345.12345", "decimal(20,5)", _TEXT),
        ("numeric", "0.1234567890", "decimal(38,10)", _TEXT),
    ),
    *(("real", number, "float", "CAST(CAST({} AS float8) AS text)") for number in ("1234567", "8388607.5", "0.1")),
    *(("double precision", number, "float", _TEXT) for number in ("0.1", "1e300", "-0.0", "9007199254740993")),
    *(("money", "12.34", "decimal(19,2)", "CAST(CAST({} AS numeric) AS text)"), ("boolean", "true", "boolean", _TEXT)),
    *(("char(5)", "ab", "string", _TEXT), ("text", "a\tb 😀 ", "string", _TEXT), ("name", "ab", "string", _TEXT)),
    *(("bit(3)", "101", "string", _TEXT), ("bit varying", "10101", "string", _TEXT), ("oid", "42", "string", _TEXT)),
    *(("bytea", "\\x00ff", "binary", "upper(encode({}, 'hex'))"), ("date", "0044-03-15", "date", _TEXT)),
    ("timestamp", "1500-02-28 12:00:00.123456", "timestamp", _TEXT),
    ("timestamptz", "2024-03-31 01:30:00.5+05", "timestamp", "CAST({} AT TIME ZONE 'UTC' AS text)"),
    *(("time", "23:59:59.000001", "time", _TEXT), ("timetz", "23:59:59+02", "string", _TEXT)),
    *(
        ("interval", "1 year 2 days 03:00:00.5", "string", _TEXT),
        ("uuid", "6f2d8f0e-6d3c-4d8b-9f43-0a6a3f1c7a11", "uuid", _TEXT),
    ),
    *(
        ("json", '{"a": 1.10}', "json", _TEXT),
        ("jsonb", '{"b": 1.10, "a": 2}', "json", _TEXT),
        ("xml", "<a/>", "string", _TEXT),
    ),
    *(
        ("inet", "10.0.0.1", "string", _TEXT),
        ("cidr", "10.0.0.0/8", "string", _TEXT),
        ("macaddr", "08:00:2b:01:02:03", "string", _TEXT),
    ),
    *(("point", "(0.1,1234567.5)", "string", _TEXT), ("polygon", "((0,0),(1,0),(1,1))", "string", _TEXT)),
    *(
        ("int4range", "[1,5)", "string", _TEXT),
        ("tsvector", "'a' 'b'", "string", _TEXT),
        ("pg_lsn", "16/B374D848", "string", _TEXT),
    ),
    *(
        ("real[]", "{0.1,8388607.5}", "json", "CAST(array_to_json({}) AS text)"),
        ("text[]", '{a,"b c"}', "json", "CAST(array_to_json({}) AS text)"),
    ),
)


def test_postgresql_types_are_read_with_the_text_of_the_server(spark, orders):
    names = [f"c{place}" for place in range(len(KINDS))]
    declared = ", ".join(f"{name} {kind[0]}" for name, kind in zip(names, KINDS, strict=True))
    orders.execute(f"CREATE TABLE jdbc.kinds (id integer PRIMARY KEY, {declared})")
    places = ", ".join(["%s"] * len(KINDS))
    orders.execute(f"INSERT INTO jdbc.kinds VALUES (1, {places})", [kind[1] for kind in KINDS])
    texts = ", ".join(kind[3].format(name) for name, kind in zip(names, KINDS, strict=True))
    given = orders.execute(f"SELECT {texts} FROM jdbc.kinds").fetchone()
    contract = [column(name, kind[2]) for name, kind in zip(names, KINDS, strict=True)]
    delivery = read_delivery(spark, source(KEY, *contract, location="jdbc.kinds"))
    shown = [
        f"hex({name})" if kind[2] == "binary" else f"string({name})" for name, kind in zip(names, KINDS, strict=True)
    ]
    arrived = delivery.frame.selectExpr(*shown).first()
    delivery.release()
    same = [
        float(text) == float(own) if kind[2] == "float" else text == own
        for kind, text, own in zip(KINDS, arrived, given, strict=True)
    ]
    assert [
        kind for kind, is_same in zip(zip(KINDS, arrived, given, strict=True), same, strict=True) if not is_same
    ] == []


@pytest.mark.core
def test_a_view_and_a_query_are_read_like_a_table(spark, orders):
    contract = (KEY, column("amount", "decimal(10,2)"))
    by_view = rows_of(spark, source(*contract, location="jdbc.large"))
    query = "WITH o AS (SELECT * FROM jdbc.orders) SELECT id, amount FROM o WHERE id > 90 -- the newest\n;"
    assert by_view == rows_of(spark, source(*contract, query=query))
    assert [row[0] for row in by_view] == list(range(91, 101))


@pytest.mark.parametrize("by", ["id", "amount", "ordered_at", "local", "day", "big"])
def test_partitioned_read_returns_every_row_once_for_each_column_type(spark, orders, by):
    orders.execute("ALTER TABLE jdbc.orders ALTER day DROP NOT NULL")
    orders.execute("UPDATE jdbc.orders SET amount = NULL, ordered_at = NULL, day = NULL WHERE id = 3")
    orders.execute("UPDATE jdbc.orders SET day = DATE '2024-01-01' + id, local = ordered_at WHERE id <> 3")
    spec = source(KEY, column("active", "boolean"), partition_column=by, partitions=4)
    delivery = read_delivery(spark, spec)
    assert delivery.frame.rdd.getNumPartitions() == 4
    assert sorted(row.id for row in delivery.frame.collect()) == list(range(1, 101))
    delivery.release()


def test_only_needed_columns_and_filtered_rows_are_read(spark, orders):
    orders.execute("CREATE VIEW jdbc.careful AS SELECT id, amount, 1 / (id - id) AS failing FROM jdbc.orders")
    spec = source(KEY, column("amount", "decimal(10,2)"), location="jdbc.careful", filter="id % 10 = 0 -- tens")
    delivery = read_delivery(spark, spec)
    assert [(entry["name"], entry["type"]) for entry in delivery.unknown] == [("failing", "integer")]
    assert sorted(row.id for row in delivery.frame.collect()) == list(range(10, 101, 10))
    delivery.release()


def test_columns_outside_the_contract_are_described_by_the_database(spark, orders):
    delivery = read_delivery(spark, source(KEY, column("Customer Name", "string")))
    delivery.release()
    types = {entry["name"]: entry["type"] for entry in delivery.unknown}
    assert types == {
        **{"amount": "decimal(10,2)", "free": "decimal(38,10)", "ratio": "float", "active": "boolean"},
        **{"big": "bigint", "ordered_at": "timestamp", "local": "timestamp", "day": "date", "clock": "time"},
        **{"tags": "json", "mood": "string", "ref": "uuid", "doc": "json", "raw": "binary", "took": "string"},
    }


@pytest.mark.parametrize("options", [{}, {"partition_column": "id", "partitions": 3}])
def test_checks_and_every_partition_of_the_write_read_one_snapshot(spark, orders, options):
    delivery = read_delivery(spark, source(KEY, column("amount", "decimal(10,2)"), **options))
    orders.execute("DELETE FROM jdbc.orders WHERE id <= 50")
    orders.execute("UPDATE jdbc.orders SET amount = 0")
    orders.execute("INSERT INTO jdbc.orders (id, \"Customer Name\") VALUES (1000, 'new')")
    rows = delivery.frame.collect()
    delivery.release()
    assert delivery.rows == len(rows) == 100
    assert sum(row.amount for row in rows) == sum(range(1, 101)) * 3 / 2
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'elevata'"
    wait_until(lambda: orders.execute(connections).fetchone() == (0,))


def test_times_without_a_zone_are_read_in_the_time_zone_of_the_source(spark, orders):
    orders.execute("UPDATE jdbc.orders SET local = '2024-07-01 12:00:00', ordered_at = '2024-07-01 12:00:00+00'")
    contract = (KEY, column("local", "timestamp"), column("ordered_at", "timestamp"))
    row = rows_of(spark, source(*contract, timezone="Europe/Berlin", filter="id = 1"))[0]
    assert [str(value) for value in row[1:]] == ["2024-07-01 10:00:00", "2024-07-01 12:00:00"]


@pytest.mark.parametrize(
    ("name", "type_", "value", "shown"),
    [
        ("amount", "decimal(10,2)", "'NaN'", "NaN"),
        ("free", "decimal(38,10)", "'Infinity'", "Infinity"),
        ("free", "decimal(38,10)", "0.00000000001", "0.00000000001"),
        ("day", "date", "'infinity'", "infinity"),
        ("day", "date", "'0044-03-15 BC'", "0044-03-15 BC"),
        ("ordered_at", "timestamp", "'-infinity'", "-infinity"),
        ("local", "timestamp", "'12024-01-01'", "12024-01-01 00:00:00"),
        ("clock", "time", "'24:00'", "24:00:00"),
        ("Customer Name", "string(3)", "'long'", "long"),
        ("big", "integer", "3000000000", "3000000000"),
        ("mood", "integer", "'bad'", "bad"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_key(spark, orders, name, type_, value, shown):
    orders.execute("UPDATE jdbc.orders SET amount = 1, free = 1, big = 1, \"Customer Name\" = 'c'")
    orders.execute(f'UPDATE jdbc.orders SET "{name}" = {value} WHERE id = 7')
    refusal = refused(spark, source(KEY, column(name, type_), filter="id = 7"))
    assert (refusal.code, refusal.column, refusal.file) == ("VALUE_DOES_NOT_FIT", name, "jdbc.orders")
    assert refusal.samples == (f"id=7: {shown}",)
    assert "id=" not in refusal.message


def test_rows_that_break_the_contract_are_refused(spark, orders):
    orders.execute("CREATE TABLE jdbc.loose (id integer, v text)")
    orders.execute("INSERT INTO jdbc.loose VALUES (1, 'a'), (1, 'b'), (2, 'c'), (2, 'c')")
    contract = (KEY, column("v", "string", nullable=False))
    conflict = refused(spark, source(*contract, location="jdbc.loose"))
    assert (conflict.code, conflict.samples) == ("CONFLICTING_ROWS", ("id=1 (2 rows)",))
    delivery = read_delivery(spark, source(*contract, location="jdbc.loose", filter="id = 2"))
    assert (delivery.rows, delivery.duplicates, delivery.frame.count()) == (2, 1, 1)
    delivery.release()
    orders.execute("INSERT INTO jdbc.loose VALUES (NULL, 'x'), (9, NULL)")
    assert refused(spark, source(*contract, location="jdbc.loose", filter="id IS NULL")).code == "NULL_KEY"
    missing = refused(spark, source(*contract, location="jdbc.loose", filter="id = 9"))
    assert (missing.code, missing.column) == ("NULL_VALUE", "v")


def test_an_empty_table_is_a_delivery_without_rows(spark, orders):
    assert rows_of(spark, source(KEY, filter="false", partition_column="id", partitions=2)) == []


def test_table_and_column_names_with_quotes_are_read(spark, orders):
    orders.execute("""CREATE TABLE jdbc."odd ""n.a`me'" ("a ""b`c" integer)""")
    orders.execute("""INSERT INTO jdbc."odd ""n.a`me'" VALUES (5)""")
    odd = column('a "b`c', "integer", business_key=True)
    assert rows_of(spark, source(odd, location="jdbc.odd \"n.a`me'", partition_column='a "b`c')) == [(5,)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"location": "jdbc.gone"}, "MISSING_TABLE"),
        ({"location": "jdbc.orders; DROP TABLE jdbc.orders"}, "MISSING_TABLE"),
        ({"options": {"query": "DELETE FROM jdbc.orders RETURNING id"}}, "SQL_REFUSED"),
        ({"options": {"query": "SELECT 1 AS id; SELECT 2 AS id"}}, "SQL_REFUSED"),
        ({"options": {"query": "SELECT id FROM jdbc.orders FOR UPDATE"}}, "SQL_REFUSED"),
        ({"options": {"query": "SELECT frm"}}, "SQL_INVALID"),
        ({"options": {"query": "SELECT setval('jdbc.counter', 9) AS id"}}, "SQL_FAILED"),
        ({"options": {"filter": "true) OR (1 = 1"}}, "SQL_INVALID"),
        ({"options": {"filter": "no_such_column = 1"}}, "SQL_INVALID"),
        ({"options": {"filter": "1 / (id - id) = 1"}}, "SOURCE_FAILED"),
        ({"options": {"partition_column": "no_such_column"}}, "BAD_OPTION"),
        ({"options": {"partition_column": "mood"}}, "BAD_OPTION"),
        ({"options": {"surprise": 1}}, "UNKNOWN_OPTION"),
        ({"options": {"query": "SELECT id, pg_sleep(5) FROM jdbc.orders", "timeout": 1}}, "TOO_SLOW"),
    ],
)
def test_unreadable_source_is_refused_with_its_reason(spark, orders, changes, code):
    orders.execute("CREATE SEQUENCE jdbc.counter")
    refusal = refused(spark, replace(source(KEY), **changes))
    assert refusal.code == code.replace("SQL_FAILED", "SOURCE_FAILED"), refusal
    assert orders.execute("SELECT count(*) FROM jdbc.orders").fetchone() == (100,)


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ({"user": "nobody_here"}, "SIGN_IN_REFUSED"),
        ({"name": "no_such_database"}, "NO_SUCH_DATABASE"),
        ({"port": 1}, "NOT_REACHED"),
        ({"host": "localhost"}, "HOST_NOT_ALLOWED"),
    ],
)
def test_refused_connection_states_its_reason(spark, orders, where, code):
    assert refused(spark, replace(source(KEY), database=DatabaseSpec(place(**where)))).code == code


def test_a_secret_that_is_not_set_is_refused_before_connecting(spark):
    spec = replace(source(KEY), database=DatabaseSpec(place(port=1), secret="ELEVATA_SOURCE_ERP"))
    assert refused(spark, spec).code == "SECRET_NOT_SET"


def test_a_table_that_the_user_may_not_read_is_refused(spark, orders):
    orders.execute("DROP ROLE IF EXISTS jdbc_reader")
    orders.execute("CREATE ROLE jdbc_reader LOGIN; GRANT USAGE ON SCHEMA jdbc TO jdbc_reader")
    spec = replace(source(KEY), database=DatabaseSpec(place(user="jdbc_reader")))
    assert refused(spark, spec).code == "NOT_ALLOWED"
    orders.execute("DROP OWNED BY jdbc_reader; DROP ROLE jdbc_reader")


def test_missing_column_is_refused_with_its_name(spark, orders):
    orders.execute("ALTER TABLE jdbc.orders RENAME amount TO total")
    refusal = refused(spark, source(KEY, column("amount", "decimal(10,2)")))
    assert (refusal.code, refusal.column, refusal.file) == ("MISSING_COLUMN", "amount", "jdbc.orders")


END_ALL = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'elevata'"


def test_lost_connection_during_a_read_refuses_the_delivery(spark, orders):
    delivery = read_delivery(spark, source(KEY, column("amount", "decimal(10,2)")))
    assert orders.execute(END_ALL).fetchone() == (1,)
    with pytest.raises(Refusal) as caught, delivery.reading():
        delivery.frame.collect()
    assert caught.value.code == "SOURCE_GONE"
    delivery.release()


def test_plans_and_errors_do_not_contain_the_password(spark, orders):
    spec = replace(source(KEY, filter="id > 0"), database=DatabaseSpec(place(), "ELEVATA_SOURCE_ERP", "hunter2"))
    assert "hunter2" not in repr(spec)
    delivery = read_delivery(spark, spec)
    plan = delivery.frame._jdf.queryExecution()
    orders.execute(END_ALL)
    with pytest.raises(Exception, match=r"Exception") as failure:
        delivery.frame.collect()
    texts = [plan.toString(), plan.logical().toJSON(), str(failure.value)]
    assert not any("hunter2" in text for text in texts)
    delivery.release()


def test_primary_key_is_trusted_as_unique_except_for_a_table_with_children(spark, orders):
    contract = (KEY, column("amount", "decimal(10,2)"))
    delivery = read_delivery(spark, source(*contract))
    assert delivery.opened.key_is_unique
    delivery.release()
    orders.execute("CREATE TABLE jdbc.more () INHERITS (jdbc.orders)")
    orders.execute("INSERT INTO jdbc.more (id, \"Customer Name\", amount) VALUES (1, 'again', 5)")
    assert refused(spark, source(*contract)).code == "CONFLICTING_ROWS"


def test_times_before_1970_and_at_the_range_limits_are_read_exactly(spark, orders):
    orders.execute("CREATE TABLE jdbc.times (id integer PRIMARY KEY, local timestamp, at timestamptz, day date)")
    moments = (
        "0001-01-01 00:00:00",
        "1582-10-10 12:00:00.000001",
        "1969-12-31 23:59:59.999999",
        "9999-12-31 23:59:59.5",
    )
    for number, moment in enumerate(moments):
        orders.execute(
            "INSERT INTO jdbc.times VALUES (%s, %s, %s::timestamp AT TIME ZONE 'UTC', %s::date)",
            [number, *[moment] * 3],
        )
    contract = (column("local", "timestamp"), column("at", "timestamp"), column("day", "date"))
    delivery = read_delivery(spark, source(KEY, *contract, location="jdbc.times"))
    texts = delivery.frame.selectExpr("id", "string(local)", "string(at)", "string(day)").collect()
    delivery.release()
    assert sorted(map(tuple, texts)) == [(n, moment, moment, moment[:10]) for n, moment in enumerate(moments)]
