"""Changes of the planning cases: rendered in every dialect, parsed, and executed on filled tables."""

from dataclasses import replace
from decimal import Decimal

import pytest
import sqlglot

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import ADD_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, Rehashed, Retyped, Step, TableShape
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec
from loader.dialects.catalog import DIALECTS
from loader.dialects.dialect import IN_PLACE, REBUILD
from loader.dialects.refusals import NotRendered
from loader.dialects.report_statements import statements_by_operation
from loader.dialects.table_changes import render_steps, statements_of
from loader.domain.historization.hashing import digest
from loader.services.sql_replay import Connection, DuckDbConnection
from metadata.domain.types import parse
from tests.architecture.domain.planning.test_cases import CASES
from tests.architecture.domain.steps.test_plan_cases import observed, report, states, tables
from tests.architecture.states import EVERYTHING_ALLOWED
from tests.architecture.tables import after as run
from tests.loader.dialects.engines import ENGINES, connection_to, run_all

ROWS = 3
VALUES = {
    "string": "'1'",
    "integer": "1",
    "bigint": "1",
    "decimal": "1",
    "float": "1",
    "boolean": "TRUE",
    "date": "DATE '2024-01-02'",
    "binary": "'a'",
}


def plan_case(case: dict) -> tuple[dict[str, ObservedTable], tuple[Step, ...]]:
    before, after = states(case)
    start = observed(before)
    made = report(before, start, after, EVERYTHING_ALLOWED)
    return start, () if made.status == "blocked" else plan_steps(tables(after), start, made.operations)


@pytest.mark.parametrize("name", DIALECTS)
def test_changes_of_every_planning_case_parse_or_are_refused(name):
    dialect, refused = DIALECTS[name], []
    for case in CASES:
        for item in render_steps(plan_case(case.values[0])[1], dialect):
            for statement in item.statements:
                sqlglot.parse(statement, read=dialect.parser)
            if item.refusal is not None:
                refused.append(item.refusal.message)
    expected = (
        "can lose values", "does not take the name", "in a name", "renames no columns", "in a transaction",
        "does not count the characters",
    )  # fmt: skip
    assert [message for message in refused if not any(part in message for part in expected)] == []


def fill_tables(connection: Connection, engine: str, start: dict[str, ObservedTable]) -> None:
    dialect = DIALECTS[engine]
    for table in start.values():
        connection.run(dialect.create_schema(table.qualified_name.partition(".")[0]))
        columns = [(column.name, column.type) for column in table.columns]
        connection.run(dialect.create_table(table.qualified_name, columns))
        samples = VALUES | {"timestamp": dialect.instant("2024-01-02")}
        values = ", ".join(
            f"CAST({samples[parse(type_).name]} AS {dialect.type_of(parse(type_))})" for _, type_ in columns
        )
        for _ in range(ROWS):
            connection.run(f"INSERT INTO {dialect.table(table.qualified_name)} VALUES ({values})")


def shape_of(connection: Connection, engine: str, qualified_name: str) -> dict[str, str]:
    """Return the physical types of a table by column."""
    schema, _, name = qualified_name.partition(".")
    if engine == "duckdb":
        query = (
            "SELECT column_name, data_type FROM information_schema.columns "
            f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
        )
    else:
        query = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            f'WHERE attrelid = to_regclass(\'"{schema}"."{name}"\') AND attnum > 0 AND NOT attisdropped'
        )
    return dict(connection.rows(query))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_executed_changes_give_the_planned_shape_and_keep_rows(engine, case):
    start, steps = plan_case(case)
    dialect = DIALECTS[engine]
    rendered = render_steps(steps, dialect)
    connection = DuckDbConnection() if engine == "duckdb" else connection_to(engine)
    connection.run("BEGIN")
    try:
        fill_tables(connection, engine, start)
        refused = {item.step.table.key for item in rendered if item.refusal}
        for item in rendered:
            for statement in item.statements:
                connection.run(statement)
        for key, table in run(steps, start).tables.items():
            if key in refused or table.dropped:
                continue
            shape = shape_of(connection, engine, table.qualified_name)
            assert sorted(shape) == sorted(column.name for column in table.columns)
            for column in table.columns:
                assert dialect.holds(shape[column.name], parse(column.type)), (column, shape[column.name])
            (count,) = connection.rows(f"SELECT COUNT(*) FROM {dialect.table(table.qualified_name)}")
            assert count == (ROWS if key in start and not start[key].dropped else 0,)
    finally:
        connection.run("ROLLBACK")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_statements_of_operations_run_one_operation_after_the_other(engine, case):
    start, steps = plan_case(case)
    dialect = DIALECTS[engine]
    by_operation = statements_by_operation(steps, engine)
    connection = DuckDbConnection() if engine == "duckdb" else connection_to(engine)
    connection.run("BEGIN")
    try:
        fill_tables(connection, engine, start)
        refused = {step.table.key for step in steps if "NOT_RENDERED" in "".join(by_operation[step.operation])}
        for operation in sorted(by_operation):
            for statement in by_operation[operation]:
                if not is_comment(statement):
                    connection.run(statement)
        for key, table in run(steps, start).tables.items():
            if key not in refused and not table.dropped:
                shape = shape_of(connection, engine, table.qualified_name)
                assert sorted(shape) == sorted(column.name for column in table.columns)
                assert all(dialect.holds(shape[column.name], parse(column.type)) for column in table.columns)
    finally:
        connection.run("ROLLBACK")


def is_comment(statement: str) -> bool:
    return all(line.startswith("--") for line in statement.splitlines())


@pytest.mark.parametrize("engine", ENGINES)
def test_value_that_does_not_fit_stops_the_change(engine):
    shape = TableShape("fits.t", (ObservedColumn("d", "decimal(10,2)"), ObservedColumn("s", "string")))
    spec = TableSpec("k", "fits", "t", "rawcore", ())
    connection, dialect = connection_to(engine), DIALECTS[engine]
    for retyped, values in (
        (Retyped("d", "decimal(10,2)", "decimal(10,1)"), "1.25, 'abc'"),
        (Retyped("s", "string", "string(2)"), "1.20, 'abc'"),
    ):
        connection.run("BEGIN")
        connection.run(dialect.create_schema("fits"))
        columns = [("d", "decimal(10,2)"), ("s", "string")]
        connection.run(dialect.create_table("fits.t", columns))
        connection.run(f"INSERT INTO fits.t VALUES ({values})")
        step = Step(RETYPE_COLUMN, spec, retyped=(retyped,), assumes=shape)
        with pytest.raises(Exception, match="VALUE_DOES_NOT_FIT"):
            run_all(connection, statements_of(step, dialect))
        connection.run("ROLLBACK")


@pytest.mark.parametrize("name", ["bigquery", "snowflake"])
@pytest.mark.parametrize(
    ("before", "after"), [("string(40)", "string(20)"), ("decimal(10,2)", "decimal(8,2)"), ("string", "string(5)")]
)
def test_narrower_type_is_reached_by_a_rebuild_where_alter_refuses_it(name, before, after):
    assert DIALECTS[name].widening(parse(before), parse(after)) == REBUILD


@pytest.mark.parametrize(("after", "way"), [("decimal(12,2)", REBUILD), ("decimal(19,0)", IN_PLACE)])
def test_integer_of_64_bits_becomes_a_decimal_in_place_only_with_room(after, way):
    assert DIALECTS["bigquery"].widening(parse("integer"), parse(after)) == way


def test_digits_beyond_the_scale_are_found_where_a_cast_has_no_measures():
    check = DIALECTS["bigquery"].cast_back("d", parse("decimal(10,2)"), parse("decimal(10,1)"))
    assert check == "CAST(ROUND(CAST(d AS NUMERIC), 1) AS NUMERIC)"


@pytest.mark.parametrize("name", ["mssql", "fabric"])
def test_shorter_text_is_refused_where_its_characters_are_not_counted(name):
    shape = TableShape("fits.t", (ObservedColumn("s", "string"),))
    step = Step(RETYPE_COLUMN, TableSpec("k", "fits", "t", "rawcore", ()), assumes=shape)
    with pytest.raises(NotRendered, match="does not count the characters"):
        statements_of(replace(step, retyped=(Retyped("s", "string", "string(2)"),)), DIALECTS[name])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("type_", "values", "texts"),
    [
        ("date", ["0001-01-01", "9999-12-31"], ["0001-01-01", "9999-12-31"]),
        ("timestamp", ["0999-02-03 04:05:06.070000+00:00", "2024-01-02 10:00:00+00:00"],
         ["0999-02-03 04:05:06.07", "2024-01-02 10:00:00"]),
        ("decimal(2,2)", ["0.5", "-0.05", "0"], ["0.50", "-0.05", "0.00"]),
    ],
)  # fmt: skip
def test_values_that_become_text_have_the_texts_of_the_product(engine, type_, values, texts):
    connection, dialect = connection_to(engine), DIALECTS[engine]
    run_all(connection, [dialect.create_schema("texts"), dialect.create_table("texts.t", [("v", type_)])])
    connection.insert("texts.t", ["v"], [[value] for value in values])
    shape = TableShape("texts.t", (ObservedColumn("v", type_),))
    step = Step(REBUILD_TABLE, TableSpec("k", "texts", "t", "rawcore", ()), assumes=shape)
    run_all(connection, statements_of(replace(step, retyped=(Retyped("v", type_, "string"),)), dialect))
    assert sorted(connection.rows("SELECT v FROM texts.t")) == sorted((text,) for text in texts)
    connection.run("DROP TABLE texts.t")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("type_", "to_type", "value", "text"),
    [
        ("date", "string", "2024-01-02", "2024-01-02"),
        ("decimal(10,2)", "string", "1.10", "1.10"),
        ("string", "string(36)", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"),
        ("string", "string(5)", "08:30", "08:30"),
    ],
)
def test_keys_of_values_that_become_text_are_those_of_the_product(engine, type_, to_type, value, text):
    connection, dialect = connection_to(engine), DIALECTS[engine]
    columns = [("v", type_), ("t_key", "string")]
    shape = TableShape("hashed.t", tuple(ObservedColumn(*column) for column in columns))
    step = Step(REBUILD_TABLE, TableSpec("k", "hashed", "t", "rawcore", ()), assumes=shape)
    step = replace(step, retyped=(Retyped("v", type_, to_type),), rehashed=(Rehashed("t_key", (("c~1", "v"),)),))
    connection.run("BEGIN")
    try:
        run_all(connection, [dialect.create_schema("hashed"), dialect.create_table("hashed.t", columns)])
        connection.insert("hashed.t", ["v", "t_key"], [[value, "former"]])
        run_all(connection, statements_of(step, dialect))
        assert connection.rows("SELECT v, t_key FROM hashed.t") == [(text, digest([("c~1", text)]))]
    finally:
        connection.run("ROLLBACK")


def test_text_of_limited_length_is_kept_where_a_cast_has_none():
    columns = [("a", "string(20)"), ("b", "date")]
    statements = DIALECTS["databricks"].replace_table("s.t", columns, "SELECT 1", "s.t__new")
    assert statements[:2] == [
        "DROP TABLE IF EXISTS `s`.`t__new`",
        "CREATE TABLE `s`.`t__new` (\n  `a` VARCHAR(20),\n  `b` DATE\n) USING delta",
    ]
    assert statements[-2:] == ["CREATE OR REPLACE TABLE `s`.`t` CLONE `s`.`t__new`", "DROP TABLE `s`.`t__new`"]


@pytest.mark.parametrize(("name", "swap"), [("databricks", "CLONE"), ("snowflake", "SWAP WITH")])
def test_check_of_a_rebuild_comes_before_the_table_is_replaced(name, swap):
    shape = TableShape("s.t", (ObservedColumn("a", "integer"), ObservedColumn("b", "string(9)")))
    step = Step(REBUILD_TABLE, TableSpec("k", "s", "t", "rawcore", ()), assumes=shape)
    statements = statements_of(replace(step, retyped=(Retyped("a", "integer", "string"),)), DIALECTS[name])
    (check,) = (place for place, text in enumerate(statements) if "REBUILD_DIFFERS" in text)
    own = DIALECTS[name].table("s.t")
    changes = [text for text in statements[: check + 1] if not text.startswith("INSERT")]
    assert not any(f"TABLE {own}" in text for text in changes)
    assert swap in statements[check + 1]


def test_table_of_a_long_name_is_rebuilt():
    name = f"s.{'t' * 128}"
    step = Step(REBUILD_TABLE, TableSpec("k", "s", "t", "rawcore", ()), retyped=(Retyped("a", "date", "timestamp"),))
    shape = TableShape(name, (ObservedColumn("a", "date"),))
    assert statements_of(replace(step, assumes=shape), DIALECTS["mssql"])


def test_change_of_case_is_no_statement_where_the_catalog_folds_case():
    assert DIALECTS["databricks"].rename_table("s.t", "s.T") == []
    assert DIALECTS["duckdb"].rename_table("s.t", "S.t") == []
    assert DIALECTS["postgres"].rename_table("s.t", "S.t") == ['ALTER TABLE "s"."t" SET SCHEMA "S"']


@pytest.mark.parametrize("name", DIALECTS)
def test_move_to_another_schema_and_name_uses_no_name_of_either(name):
    for statement in DIALECTS[name].rename_table("a.x", "b.y"):
        sqlglot.parse(statement, read=DIALECTS[name].parser)
        for taken in ("a.y", "b.x"):
            assert DIALECTS[name].table(taken) not in statement


def test_operation_with_a_step_that_is_not_rendered_has_no_statements():
    spec = TableSpec("k", "s", "t", "rawcore", ())
    column = ColumnSpec("c", "a", "date", "attribute")
    added = Step(ADD_COLUMN, spec, column=column, assumes=TableShape("s.t", ()), operation=0)
    refused = replace(added, column=replace(column, name="b" * 64))
    assert statements_by_operation([added, refused, replace(added, operation=1)], "postgres") == {
        0: [f"-- NOT_RENDERED: '{'b' * 64}' has 64 bytes; PostgreSQL takes 63 in a name"],
        1: ['ALTER TABLE "s"."t" ADD COLUMN "a" DATE;'],
    }


def test_name_that_delta_takes_by_column_mapping_only_enables_it():
    dialect, mapped = DIALECTS["databricks"], "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    columns = [("id", "integer"), ("net amount", "string")]
    assert dialect.create_table("s.t", columns).endswith(f"USING delta {mapped}")
    assert dialect.replace_table("s.t", columns, "SELECT 1", "s.new")[0].startswith(
        f"CREATE OR REPLACE TABLE `s`.`t` USING delta {mapped} AS"
    )
    assert dialect.add_column("s.t", "net amount", "date") == [
        f"ALTER TABLE `s`.`t` SET {mapped}",
        "ALTER TABLE `s`.`t` ADD COLUMNS (`net amount` DATE)",
    ]
    assert "TBLPROPERTIES" not in dialect.create_table("s.t", [("id", "integer")])


def test_decimal_that_loses_nothing_is_retyped():
    connection, dialect = DuckDbConnection(), DIALECTS["duckdb"]
    connection.run("CREATE TABLE t (d DECIMAL(10,2))")
    connection.run("INSERT INTO t VALUES (1.50)")
    check = dialect.cast_back("d", parse("decimal(10,2)"), parse("decimal(10,1)"))
    assert connection.rows(f"SELECT {check} FROM t") == [(Decimal("1.50"),)]
