"""Reports with operations that depend on each other: their statements run one operation after the other."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlglot

from architecture.domain.operations import Operation
from architecture.domain.states.state_files import ArchitectureState, dump_state
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from loader.dialects.catalog import DIALECTS
from loader.dialects.report_statements import statements_by_operation
from loader.dialects.warehouse import Warehouse, render_warehouse
from loader.services.sql_replay import Connection, DuckDbConnection
from metadata.domain.state import DatasetState
from tests.architecture.domain.steps.test_plan_cases import observed, report, states, tables
from tests.architecture.states import EVERYTHING_ALLOWED, column, dataset, state
from tests.architecture.tables import after as run
from tests.loader.dialects.engines import ENGINES, connection_to

KEY = column("id", "id", "integer", role="business_key", nullable=False)


def named(key: str, name: str, *columns, schema: str = "rawcore", **fields) -> DatasetState:
    return dataset(key, name, KEY, *columns, schema=schema, **fields)


def planned(before: ArchitectureState, after: ArchitectureState) -> tuple[dict, tuple[Step, ...]]:
    documents = {side: as_document(each) for side, each in (("before", before), ("after", after))}
    before, after = states(documents)
    start = observed(before)
    made = report(before, start, after, EVERYTHING_ALLOWED)
    assert made.status != "blocked", [(item.describe(), item.message) for item in made.operations]
    return start, plan_steps(tables(after), start, made.operations)


def as_document(of: ArchitectureState) -> dict:
    return json.loads(dump_state(of))


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    return request.param


@pytest.fixture
def connection(engine) -> Iterator[Connection]:
    opened = DuckDbConnection() if engine == "duckdb" else connection_to(engine)
    opened.run("BEGIN")
    yield opened
    opened.run("ROLLBACK")


def create(connection: Connection, engine: str, start: dict, texts: dict[str, str]) -> None:
    """Create the tables, each with one row whose texts are given by the name of the column."""
    dialect = DIALECTS[engine]
    for table in start.values():
        columns = [(item.name, item.type) for item in table.columns]
        connection.run(dialect.create_schema(table.qualified_name.partition(".")[0]))
        connection.run(dialect.create_table(table.qualified_name, columns))
        names = [name for name, type_ in columns if type_.startswith("string")]
        values = [texts.get(name, table.qualified_name) for name in names]
        connection.insert(table.qualified_name, names, [values])


def carry_out(connection: Connection, engine: str, steps: tuple[Step, ...]) -> None:
    by_operation = statements_by_operation(steps, engine)
    for operation in sorted(by_operation):
        for statement in by_operation[operation]:
            assert "NOT_RENDERED" not in statement
            if not all(line.startswith("--") for line in statement.splitlines()):
                connection.run(statement)


def row_of(connection: Connection, name: str, *columns: str) -> tuple:
    schema, _, table = name.partition(".")
    selected = ", ".join(f'"{each}"' for each in columns)
    (row,) = connection.rows(f'SELECT {selected} FROM "{schema}"."{table}"')
    return row


def test_column_is_renamed_after_its_type_changed(connection, engine):
    before = state(named("d1", "rc_x", column("c", "a", "integer"), historize=True))
    after = state(named("d1", "rc_x", column("c", "b", "bigint", former_names=("a",)), historize=True))
    start, steps = planned(before, after)
    create(connection, engine, start, {})
    connection.run('UPDATE "rawcore"."rc_x" SET "a" = 7')
    carry_out(connection, engine, steps)
    connection.run('UPDATE "rawcore"."rc_x_hist" SET "b" = 5000000000')
    assert row_of(connection, "rawcore.rc_x", "b") + row_of(connection, "rawcore.rc_x_hist", "b") == (7, 5000000000)
    by_operation, rename = statements_by_operation(steps, engine), "rename_column rawcore.rc_x: a → b"
    assert by_operation[0] == [f"-- among the statements of a later operation: {rename}"]
    assert by_operation[2][-1].startswith(f"-- of an earlier operation: {rename}\nALTER TABLE")


def test_columns_swap_their_names(connection, engine):
    before = state(named("d1", "rc_x", column("c1", "a"), column("c2", "b")))
    after = state(named("d1", "rc_x", column("c1", "b"), column("c2", "a")))
    start, steps = planned(before, after)
    create(connection, engine, start, {"a": "first", "b": "second"})
    carry_out(connection, engine, steps)
    assert row_of(connection, "rawcore.rc_x", "a", "b") == ("second", "first")


def test_tables_swap_their_names_and_columns_follow(connection, engine):
    before = state(named("d1", "rc_x", column("c1", "a")), named("d2", "rc_y", column("c2", "a")))
    after = state(named("d1", "rc_y", column("c1", "p")), named("d2", "rc_x", column("c2", "q")))
    start, steps = planned(before, after)
    create(connection, engine, start, {})
    carry_out(connection, engine, steps)
    assert row_of(connection, "rawcore.rc_y", "p") == ("rawcore.rc_x",)
    assert row_of(connection, "rawcore.rc_x", "q") == ("rawcore.rc_y",)


def test_three_tables_rotate_their_names_while_columns_change(connection, engine):
    a, b = column("c1", "a", "integer"), column("c2", "b")
    before = state(
        named("d1", "rc_x", a, b), named("d2", "rc_y", column("c3", "a")), named("d3", "rc_z", column("c4", "a"))
    )
    renamed = column("c1", "b", "bigint", former_names=("a",))
    after = state(
        named("d1", "rc_y", renamed), named("d2", "rc_z", column("c3", "a")), named("d3", "rc_x", column("c4", "a"))
    )
    start, steps = planned(before, after)
    create(connection, engine, start, {})
    connection.run('UPDATE "rawcore"."rc_x" SET "a" = 7')
    carry_out(connection, engine, steps)
    connection.run('UPDATE "rawcore"."rc_y" SET "b" = "b" + 5000000000')
    assert row_of(connection, "rawcore.rc_y", "b") == (5000000007,)
    assert row_of(connection, "rawcore.rc_z", "a") == ("rawcore.rc_y",)
    assert row_of(connection, "rawcore.rc_x", "a") == ("rawcore.rc_z",)


def test_moved_table_takes_a_name_that_others_have_in_both_schemas(connection, engine):
    others = named("d2", "rc_y", column("c2", "a")), named("d3", "rc_x", column("c3", "a"), schema="bizcore")
    before = state(named("d1", "rc_x", column("c1", "a")), *others)
    after = state(named("d1", "rc_y", column("c1", "b"), schema="bizcore"), *others)
    start, steps = planned(before, after)
    create(connection, engine, start, {})
    carry_out(connection, engine, steps)
    assert row_of(connection, "bizcore.rc_y", "b") == ("rawcore.rc_x",)
    assert row_of(connection, "rawcore.rc_y", "a") == ("rawcore.rc_y",)
    assert row_of(connection, "bizcore.rc_x", "a") == ("bizcore.rc_x",)


def test_tables_swap_their_schemas_and_names(connection, engine):
    before = state(named("d1", "rc_x", column("c1", "a")), named("d2", "rc_y", column("c2", "a"), schema="bizcore"))
    after = state(named("d1", "rc_y", column("c1", "a"), schema="bizcore"), named("d2", "rc_x", column("c2", "a")))
    start, steps = planned(before, after)
    create(connection, engine, start, {})
    carry_out(connection, engine, steps)
    assert row_of(connection, "bizcore.rc_y", "a") == ("rawcore.rc_x",)
    assert row_of(connection, "rawcore.rc_x", "a") == ("bizcore.rc_y",)


@pytest.mark.parametrize("schema", ["rawcore", "RawCore"])
def test_names_change_in_their_case_only(connection, engine, schema):
    before = state(named("d1", "rc_x", column("c1", "amount"), historize=True))
    after = state(named("d1", "RC_X", column("c1", "Amount"), historize=True, schema=schema))
    start, steps = planned(before, after)
    create(connection, engine, start, {"amount": "text"})
    carry_out(connection, engine, steps)
    reached = run(steps, start).tables
    for table in reached.values():
        name = table.qualified_name.partition(".")[2]
        names = connection.rows(f"SELECT table_name FROM information_schema.tables WHERE table_name = '{name}'")
        assert names == [(name,)]
        assert row_of(connection, table.qualified_name, "Amount") == ("text",)


def test_views_over_a_renamed_history_are_left_to_their_own_file(engine):
    before = state(named("d1", "rc_x", column("c1", "a"), historize=True))
    after = state(named("d1", "rc_y", column("c1", "a"), historize=True))
    _, before_views = planned(before, after)
    key = next(step.table.key for step in before_views if step.table.kind == "history")
    documents = states({"before": as_document(before), "after": as_document(after)})
    start = observed(documents[0])
    made = report(documents[0], start, documents[1], EVERYTHING_ALLOWED)
    views = {key: ["CREATE OR REPLACE VIEW rawcore.rc_y_current AS SELECT 1"]}
    steps = plan_steps(tables(documents[1]), start, made.operations, views)
    assert any(step.view for step in steps)
    texts = [text for each in statements_by_operation(steps, engine).values() for text in each]
    assert not any("NOT_RENDERED" in text or "rc_y_current" in text for text in texts)


@pytest.mark.parametrize("name", ["bigquery", "databricks", "snowflake"])
def test_checks_come_before_changes_that_are_not_undone(name):
    before = state(named("d1", "rc_x", column("c1", "a", "string(9)"), column("c2", "b", "decimal(10,2)")))
    after = state(named("d1", "rc_y", column("c1", "a2", "string(5)"), column("c2", "b", "decimal(10,1)")))
    _, steps = planned(before, after)
    by_operation = statements_by_operation(steps, name)
    texts = [text for operation in sorted(by_operation) for text in by_operation[operation] if text.endswith(";")]
    checks = [place for place, text in enumerate(texts) if "VALUE_DOES_NOT_FIT" in text]
    assert checks == [0, 1]
    assert all("rc_x" in text and "rc_y" not in text for text in texts[:2])
    for text in texts:
        sqlglot.parse(text, read=DIALECTS[name].parser)


def test_manifest_has_the_rule_of_an_operation_whose_statements_follow_those_of_a_later_one():
    before = state(named("d1", "rc_x", column("c", "a", "integer")))
    after = state(named("d1", "rc_x", column("c", "b", "bigint", former_names=("a",))))
    by_operation = statements_by_operation(planned(before, after)[1], "duckdb")
    operations = (Operation("rename_column", "rawcore.rc_x", "k"), Operation("widen_column", "rawcore.rc_x", "k"))
    changes = tuple((operation, by_operation[place]) for place, operation in enumerate(operations))
    files = render_warehouse(Warehouse("", (), (), changes=changes), DIALECTS["duckdb"])
    rules = json.loads(files["manifest.json"])["rules"]
    assert [rule["operation"] for rule in rules] == ["rename_column", "widen_column"]


def test_manifest_lists_operations_that_are_not_rendered():
    renamed = Operation("rename_column", "rawcore.rc_x", "k", from_="a", to="b")
    widened, retired = (replace(renamed, op=op) for op in ("widen_column", "retire_column"))
    changes = ((renamed, ["ALTER TABLE x;"]), (widened, ["-- NOT_RENDERED: too wide"]), (retired, []))
    files = render_warehouse(Warehouse("", (), (), changes=changes), DIALECTS["duckdb"])
    manifest = json.loads(files["manifest.json"])
    assert [rule["operation"] for rule in manifest["rules"]] == ["rename_column"]
    assert manifest["not_rendered"] == [
        {"dataset": "rawcore.rc_x", "code": "NOT_RENDERED", "message": "too wide"},
    ]
