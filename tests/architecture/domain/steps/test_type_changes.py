"""Steps of type changes: value checks, histories that widen with their base, and changed keys."""

from dataclasses import replace

import pytest

from architecture.domain.operations import BASE, HISTORY
from architecture.domain.states.dataset_drift import IN_SYNC, drift
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.resumption import steps_left
from architecture.domain.steps.statements import CHECK, statements
from architecture.domain.steps.step import REBUILD_TABLE, RETYPE_COLUMN, STAMP_KEYS, WIDEN_COLUMN, Step, steps_done
from architecture.domain.tables import ObservedTable
from tests.architecture.domain.steps.test_acceptance_steps import states_of, tiny
from tests.architecture.domain.steps.test_plan_cases import observed, report, tables
from tests.architecture.states import EVERYTHING_ALLOWED, carried_out, inverses
from tests.architecture.tables import after as run
from tests.architecture.tables import column, key, names_of, observed_table, operation, table

# --- text that becomes a checked format ---------------------------------------------------------

PLAIN = table("t", column("id", "integer"), column("v"))


def value_check(to: str = "uuid") -> tuple[tuple[Step, ...], dict[str, ObservedTable]]:
    """Return the steps that change the text ``v`` to uuid and rename it ``w``, and the observed table."""
    wanted = replace(PLAIN, columns=(PLAIN.columns[0], column("w", to, of="v")))
    start = {PLAIN.key: observed_table(PLAIN)}
    requested = [
        operation("rename_column", PLAIN, column("v"), from_="v", to="w"),
        operation("retype_column", PLAIN, column("v"), from_="string", to=to),
    ]
    return plan_steps([wanted], start, requested), start


@pytest.mark.parametrize("to", ["uuid", "time", "json"])
def test_type_change_with_unchanged_storage_only_checks_the_values(to: str) -> None:
    (look, rename), _ = value_check(to)
    assert (look.op, rename.op) == (RETYPE_COLUMN, "rename_column")
    (statement,) = statements(look, "/w")
    assert statement.part == CHECK
    assert statement.sql.startswith("SELECT count(*) FROM delta.`/w/")


def test_value_check_is_done_once_the_following_step_is_done() -> None:
    steps, start = value_check()
    assert (steps_done(steps, start[PLAIN.key]), steps_done(steps, run(steps, start).tables[PLAIN.key])) == (0, 2)
    assert steps_left(steps, finished={0}, observed=start) == (1,)


def test_recorded_value_check_is_not_repeated() -> None:
    (look, _), start = value_check()
    assert steps_left([look], finished={0}, observed=start) == ()


def test_value_check_has_no_inverse() -> None:
    (look, _), _ = value_check()
    assert inverses([(look, 3)]) == ()


def test_change_of_limited_text_to_uuid_rewrites_the_column() -> None:
    (change,) = (step for step in planned_for("string(50)", "uuid")[1] if step.op == RETYPE_COLUMN)
    assert change.leaves_trace
    assert [(column.from_type, column.to_type) for column in change.retyped] == [("string(50)", "uuid")]


# --- a history grows with its base ----------------------------------------------------------------


def planned_for(before: str, after: str) -> tuple:
    """Return report, steps, observed tables and states of a historized dataset with a column of another type."""
    pair = states_of((tiny("d1", "rc_a", before, historize=True),), (tiny("d1", "rc_a", after, historize=True),))
    start = observed(pair[0])
    change_report = report(pair[0], start, pair[1], EVERYTHING_ALLOWED)
    return change_report, plan_steps(tables(pair[1]), start, change_report.operations), start, pair


@pytest.mark.parametrize(
    ("before", "after", "grown"),
    [
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("integer", "decimal(9,2)", "decimal(12,2)"),
        ("decimal(10,2)", "bigint", "decimal(22,2)"),
    ],
)
def test_history_widens_to_the_common_type_by_the_operation_of_its_base(before: str, after: str, grown: str) -> None:
    change_report, steps, start, pair = planned_for(before, after)
    assert [(operation.op, operation.side) for operation in change_report.operations] == [(RETYPE_COLUMN, BASE)]
    history = next(spec for spec in tables(pair[1]) if spec.kind == "history")
    (growing,) = (step for step in steps if step.table.key == history.key)
    assert (growing.op, growing.operation) == (WIDEN_COLUMN, 0)
    assert [(column.from_type, column.to_type) for column in growing.retyped] == [(before, grown)]
    end = run(steps, start).tables
    reached = carried_out(pair[0], pair[1], change_report)
    assert {each.status for each in drift(reached.datasets, end)} == {IN_SYNC}
    assert report(reached, end, pair[1], EVERYTHING_ALLOWED).operations == ()


def test_history_not_widened_with_its_base_gets_its_own_operation() -> None:
    """Check a report after an execution that ended between base and history."""
    change_report, steps, start, pair = planned_for("decimal(10,2)", "decimal(10,4)")
    base = tuple(step for step in steps if step.table.kind != "history")
    reached = carried_out(pair[0], pair[1], change_report)
    again = report(reached, run(base, start).tables, pair[1], EVERYTHING_ALLOWED)
    assert [(operation.op, operation.side, operation.to) for operation in again.operations] == [
        (WIDEN_COLUMN, HISTORY, "decimal(12,4)")
    ]


# --- columns with another key in the table -------------------------------------------------------

DATED = table("t", column("id", "integer"), column("a", "date", of="old a"), column("b", "date"))
WANTED = table("t", column("id", "integer"), column("a", "timestamp"), column("c", "timestamp", of="b"))


def test_rebuild_matches_its_columns_by_key_or_by_name() -> None:
    changes = tuple((key("column", name), "date", "timestamp") for name in ("a", "b"))
    requested = [
        operation("rename_column", DATED, column("b", "date"), from_="b", to="c"),
        operation("rebuild_table", DATED, columns=changes, column="a, b"),
    ]
    start = {DATED.key: observed_table(DATED)}
    steps = plan_steps([WANTED], start, requested)
    assert [[column.name for column in step.retyped] for step in steps if step.op == REBUILD_TABLE] == [["a", "b"]]
    assert names_of(run(steps, start), WANTED) == {column.key: column.name for column in WANTED.columns}


def test_widened_column_with_another_key_is_stamped_first() -> None:
    old = table("t", column("v", "integer", of="old v"), kind="history")
    new = table("t", column("v", "bigint"), kind="history")
    requested = [operation("widen_column", old, column("v"), from_="integer", to="bigint", side=HISTORY)]
    steps = plan_steps([new], {old.key: observed_table(old)}, requested)
    assert [step.op for step in steps] == [STAMP_KEYS, WIDEN_COLUMN]
    assert names_of(run(steps, {old.key: observed_table(old)}), new) == {key("column", "v"): "v"}
