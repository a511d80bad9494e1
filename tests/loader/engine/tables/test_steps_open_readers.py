"""Steps with open readers on real tables: rewritten without a table feature, executed once despite interruptions."""

import json
from dataclasses import replace

import pytest

from architecture.domain.operations import DROP_FEATURES, Operation
from architecture.domain.steps.features import COLUMN_MAPPING, DELETION_VECTORS, OPEN, TYPE_WIDENING
from architecture.domain.steps.inverses import Unwinding
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.statements import COLUMN
from architecture.domain.steps.step import becomes, shape_of, steps_done
from architecture.domain.tables import TableSpec
from loader.contract.refusals import Refusal
from loader.engine.tables import rebuilds, steps
from loader.engine.tables.tables import properties_of
from tests.architecture.tables import report_on
from tests.loader.engine.tables import test_steps
from tests.loader.engine.tables.test_steps import (
    EXPECTED,
    Killed,
    Warehouse,
    changed,
    column,
    dry_run_result,
    executed,
    structure,
    without_measures,
)
from tests.readers.environment import answered, readers_python
from tests.readers.rows_as_text import rows_as_text

pytestmark = pytest.mark.spark
warehouse = test_steps.warehouse


@pytest.fixture
def items(warehouse: Warehouse) -> TableSpec:
    """Return a partitioned table with two rows, and no name that needs column mapping."""
    columns = (
        column("id", "integer"),
        column("a"),
        column("b"),
        column("Case"),
        column("we`ird", of="we`ird né"),
        column("code", "string(5)"),
        column("on", "date"),
        column("amount", "decimal(10,2)"),
        column("segment"),
    )
    return warehouse.make(
        warehouse.spec("items", *columns),
        "(1, 'a1', 'b1', 'c1', 'w1', 'x', DATE'2024-01-31', 1.50, 'open')",
        "(2, 'a2', NULL, 'c2', 'w2', 'yy', NULL, 22.00, 'closed')",
    )


def plan(warehouse: Warehouse, wanted: TableSpec, operations=None):
    return plan_steps([wanted], warehouse.observed(wanted), operations, readers=OPEN)


def features(warehouse: Warehouse, spec: TableSpec) -> tuple[str, ...]:
    return shape_of(warehouse.table(spec).observe()).features


def stored_keys(warehouse: Warehouse, spec: TableSpec) -> set[str]:
    properties = properties_of(warehouse.table(spec).snapshot().metadata().configuration())
    return {name.removeprefix(COLUMN) for name in properties if name.startswith(COLUMN)}


def test_rename_and_widening_are_executed_and_undone_without_a_table_feature(warehouse, items):
    wanted = replace(items, columns=(column("id", "bigint"), column("renamed", of="a"), *items.columns[2:]))
    expected = [
        {"renamed" if name == "a" else name: value for name, value in row.items()} for row in warehouse.rows(items)
    ]
    check_change_and_undo(warehouse, items, wanted, expected)


@pytest.mark.nightly
def test_every_kind_of_column_change_is_executed_and_undone_without_a_table_feature(warehouse, items):
    check_change_and_undo(warehouse, items, changed(items), EXPECTED)


def check_change_and_undo(warehouse: Warehouse, items: TableSpec, wanted: TableSpec, expected: list[dict]) -> None:
    rows, shape = warehouse.rows(items), structure(warehouse, items)
    done = executed(warehouse, plan(warehouse, wanted))
    assert any(step.rewrites for step, _ in done)
    assert without_measures(warehouse.rows(wanted)) == without_measures(expected)
    assert structure(warehouse, wanted) == {(c.name, c.type, c.key) for c in wanted.columns}
    assert warehouse.observed(wanted)[wanted.key].partition_by == ("segment",)
    assert features(warehouse, wanted) == (DELETION_VECTORS,)
    assert plan(warehouse, wanted) == ()
    unwinding = Unwinding({items.key: becomes(done[-1][0])}, rewrites=True)
    back = tuple(undo_step for step, version in reversed(done) for undo_step in unwinding.take_back(step, version))
    assert warehouse.run(back)
    assert (warehouse.rows(items), structure(warehouse, items)) == (rows, shape)
    assert features(warehouse, items) == (DELETION_VECTORS,)


@pytest.mark.nightly
def test_execution_killed_after_any_step_completes_each_step_once(warehouse, items):
    wanted = changed(items)
    todo = plan(warehouse, wanted)
    for ordinal in range(len(todo)):
        with pytest.raises(Killed):
            warehouse.run(todo, die_after=ordinal)
        assert steps_done(todo, warehouse.observed(items)[items.key]) == ordinal + 1
    before = warehouse.version(items)
    assert warehouse.run(todo)
    assert warehouse.version(items) == before
    assert without_measures(warehouse.rows(wanted)) == EXPECTED


def test_execution_killed_before_storing_column_keys_stores_only_the_keys_later(warehouse, items, monkeypatch):
    wanted = replace(items, columns=(items.columns[0], column("renamed", of="a"), *items.columns[2:]))
    todo = plan(warehouse, wanted)

    def die(*_):
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(steps._Execution, "_store_column_keys", die)
        assert not warehouse.run(todo)
    before = warehouse.version(items)
    assert warehouse.run(todo)
    assert warehouse.version(items) == before + 1
    assert structure(warehouse, wanted) == {(c.name, c.type, c.key) for c in wanted.columns}


@pytest.mark.nightly
def test_a_new_column_under_the_name_of_a_dropped_one_has_its_own_key(warehouse, items):
    gone = replace(items, columns=tuple(table_column for table_column in items.columns if table_column.name != "b"))
    operations = [replace(operation, dataset=items.qualified_name) for operation in report_on(items, gone)]
    assert warehouse.run(plan(warehouse, gone, operations))
    assert features(warehouse, gone) == (DELETION_VECTORS,)
    assert structure(warehouse, gone) == {(c.name, c.type, c.key) for c in gone.columns}
    new = replace(gone, columns=(*gone.columns, column("b", of="another b")))
    assert warehouse.run(plan(warehouse, new))
    assert structure(warehouse, new) == {(c.name, c.type, c.key) for c in new.columns}
    assert stored_keys(warehouse, new) == {table_column.key for table_column in new.columns}
    assert [row["b"] for row in warehouse.rows(new)] == [None, None]


@pytest.mark.nightly
def test_rename_by_rebuild_is_rolled_back_if_rows_are_missing(warehouse, items, monkeypatch):
    rows = warehouse.rows(items)
    wanted = replace(items, columns=(items.columns[0], column("renamed", of="a"), *items.columns[2:]))
    overwrite = rebuilds._overwrite
    monkeypatch.setattr(rebuilds, "_overwrite", lambda frame, *rest: overwrite(frame.limit(1), *rest))
    assert not warehouse.run(plan(warehouse, wanted))
    assert warehouse.error["code"] == "REBUILD_MISMATCH"
    assert warehouse.rows(items) == rows


def test_a_feature_that_cannot_be_switched_on_fails_the_step(warehouse, items, monkeypatch):
    wanted = replace(items, columns=(items.columns[0], column("renamed", of="a"), *items.columns[2:]))
    refusal = Refusal("NO_FEATURE", "refused by the test")
    monkeypatch.setattr(steps._Execution, "_enable_features", lambda *_: refusal)
    assert not warehouse.run(warehouse.plan(wanted))
    assert warehouse.error["code"] == "NO_FEATURE"
    monkeypatch.undo()
    assert warehouse.run(warehouse.plan(wanted))
    assert COLUMN_MAPPING in features(warehouse, wanted)


@pytest.fixture
def swapped(warehouse: Warehouse, items: TableSpec) -> TableSpec:
    """Return a table whose columns were changed with Delta's features, and that lost a row."""
    moved = (column("id", "bigint"), column("b", of="a"), column("a", of="b"))
    assert warehouse.run(warehouse.plan(replace(items, columns=(*moved, *items.columns[3:]))))
    wanted = replace(items, columns=(*moved, *items.columns[4:]))
    operations = [replace(operation, dataset=items.qualified_name) for operation in report_on(items, wanted)]
    assert warehouse.run(warehouse.plan(wanted, operations=operations))
    again = replace(wanted, columns=(*wanted.columns, column("Case", of="another")))
    assert warehouse.run(warehouse.plan(again))
    place = warehouse.table(again).sql_name
    warehouse.spark.sql(f"INSERT INTO {place} SELECT 3L, * EXCEPT (id) FROM {place} WHERE id = 1")
    warehouse.spark.sql(f"DELETE FROM {place} WHERE id = 2")
    assert set(shape_of(warehouse.table(again).observe()).closing) == {COLUMN_MAPPING, TYPE_WIDENING}
    return again


def plan_feature_drop(warehouse: Warehouse, spec: TableSpec):
    return plan(warehouse, spec, [Operation(DROP_FEATURES, spec.qualified_name, spec.key)])


@pytest.mark.nightly
def test_drop_of_features_keeps_rows_and_keys_and_opens_the_table_to_all_readers(warehouse, swapped, tmp_path):
    rows, shape = warehouse.rows(swapped), structure(warehouse, swapped)
    assert [row["id"] for row in rows] == [1, 3]
    todo, version = plan_feature_drop(warehouse, swapped), warehouse.version(swapped)
    result = dry_run_result(warehouse, todo)
    assert (result["succeeded"], result["error"], warehouse.version(swapped)) == (True, None, version)
    assert warehouse.run(todo), warehouse.error
    assert (warehouse.rows(swapped), structure(warehouse, swapped)) == (rows, shape)
    assert stored_keys(warehouse, swapped) == {table_column.key for table_column in swapped.columns}
    assert shape_of(warehouse.table(swapped).observe()).closing == ()
    assert plan_feature_drop(warehouse, swapped) == ()
    before = warehouse.version(swapped)
    assert warehouse.run(todo)
    assert warehouse.version(swapped) == before
    (tmp_path / "tables.json").write_text(json.dumps({"items": warehouse.table(swapped).location}))
    answers = answered(readers_python(), "read_tables.py", tmp_path / "tables.json")
    assert {name: answer["items"] for name, answer in answers.items()} == dict.fromkeys(answers, rows_as_text(rows))


@pytest.mark.nightly
@pytest.mark.parametrize("statements", range(5))
def test_interrupted_drop_of_features_is_resumed(warehouse, swapped, monkeypatch, statements):
    rows, shape, todo = warehouse.rows(swapped), structure(warehouse, swapped), plan_feature_drop(warehouse, swapped)
    real, remaining = type(warehouse.spark).sql, [statements]

    def dying(session, text, *arguments, **more):
        if text.startswith("ALTER TABLE"):
            remaining[0] -= 1
            if remaining[0] < 0:
                raise Killed
        return real(session, text, *arguments, **more)

    with monkeypatch.context() as killed:
        killed.setattr(type(warehouse.spark), "sql", dying)
        assert not warehouse.run(todo)
    assert warehouse.run(todo), warehouse.error
    assert (warehouse.rows(swapped), structure(warehouse, swapped)) == (rows, shape)
    assert shape_of(warehouse.table(swapped).observe()).closing == ()


@pytest.mark.nightly
def test_step_before_a_drop_of_features_can_be_undone(warehouse, items):
    rows, shape = warehouse.rows(items), structure(warehouse, items)
    wider = replace(items, columns=(column("id", "bigint"), column("x", of="a"), *items.columns[2:]))
    done = executed(warehouse, warehouse.plan(wider))
    assert warehouse.run(plan_feature_drop(warehouse, wider))
    unwinding = Unwinding({items.key: shape_of(warehouse.table(items).observe())}, rewrites=True)
    back = tuple(undo_step for step, version in reversed(done) for undo_step in unwinding.take_back(step, version))
    assert warehouse.run(back), warehouse.error
    assert (warehouse.rows(items), structure(warehouse, items)) == (rows, shape)
