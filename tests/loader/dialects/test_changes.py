"""Changes of the planning cases: rendered in every dialect, parsed, and executed on filled tables."""

from decimal import Decimal

import pytest
import sqlglot

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import RETYPE_COLUMN, Retyped, Step, TableShape
from architecture.domain.tables import ObservedColumn, ObservedTable, TableSpec
from loader.dialects.catalog import DIALECTS
from loader.dialects.table_changes import render_steps, statements_of
from loader.services.sql_replay import Connection, DuckDbConnection
from metadata.domain.types import parse
from tests.architecture.domain.planning.test_cases import CASES
from tests.architecture.domain.steps.test_plan_cases import observed, report, states, tables
from tests.architecture.states import EVERYTHING_ALLOWED
from tests.architecture.tables import after as run
from tests.loader.dialects.engines import ENGINES, connection_to

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
    expected = ("can lose values", "does not take the name", "in a name", "renames no columns", "in a transaction")
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


def run_all(connection: Connection, statements: list[str]) -> None:
    for statement in statements:
        connection.run(statement)


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


def test_decimal_that_loses_nothing_is_retyped():
    connection, dialect = DuckDbConnection(), DIALECTS["duckdb"]
    connection.run("CREATE TABLE t (d DECIMAL(10,2))")
    connection.run("INSERT INTO t VALUES (1.50)")
    check = dialect.cast_back("d", parse("decimal(10,2)"), parse("decimal(10,1)"))
    assert connection.rows(f"SELECT {check} FROM t") == [(Decimal("1.50"),)]
