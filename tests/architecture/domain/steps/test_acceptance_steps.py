"""Steps of open reports: each report is planned, and its executed steps leave the warehouse in sync."""

from dataclasses import replace

import pytest

from architecture.domain.operations import HISTORY
from architecture.domain.states.dataset_drift import IN_SYNC, drift
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.report_steps import check_belongs, plan_steps
from architecture.domain.steps.statements import does_not_survive
from architecture.domain.steps.step import ADD_COLUMN, RETYPE_COLUMN
from architecture.domain.tables import ObservedTable
from metadata.domain.state import DatasetState
from tests.architecture.domain.steps.test_plan_cases import observed, real, report, tables, with_histories
from tests.architecture.states import EVERYTHING_ALLOWED, carried_out, column, dataset, state
from tests.architecture.tables import after as run


def tiny(key: str, name: str, type_: str = "string(50)", **fields) -> DatasetState:
    columns = (
        column(real(f"{key}.id"), "id", "integer", role="business_key", nullable=False),
        column(real(f"{key}.v"), "v", type_),
    )
    return dataset(real(key), name, *columns, **fields)


def states_of(before: tuple, after: tuple) -> tuple[ArchitectureState, ArchitectureState]:
    return with_histories(state(*before)), with_histories(state(*after))


TAKEN = {
    "renamed onto one that is retired in the same report": (
        (tiny("d1", "rc_a"), tiny("d2", "rc_b")),
        (tiny("d1", "rc_b"), tiny("d2", "rc_b", active=False)),
    ),
    "renamed onto one that was retired before": (
        (tiny("d1", "rc_a"), tiny("d2", "rc_b", active=False)),
        (tiny("d1", "rc_b"), tiny("d2", "rc_b", active=False)),
    ),
    "new under the name of a retired one, both with history": (
        (tiny("d2", "rc_b", active=False, historize=True),),
        (tiny("d1", "rc_b", historize=True), tiny("d2", "rc_b", active=False, historize=True)),
    ),
    "new with history under the name of one that leaves its history behind": (
        (tiny("d1", "rc_a", historize=True),),
        (tiny("d1", "rc_z"), tiny("d2", "rc_a", historize=True)),
    ),
}


@pytest.mark.parametrize("pair", TAKEN.values(), ids=TAKEN)
def test_report_that_reuses_the_name_of_a_retired_or_kept_table_is_executed_by_steps(pair: tuple) -> None:
    """Check that the table that has the name moves to a reserved name."""
    before, after = states_of(*pair)
    start = observed(before)
    change_report = report(before, start, after, EVERYTHING_ALLOWED)
    steps = check_belongs(plan_steps(tables(after), start, change_report.operations))
    end = run(steps, start).tables
    again = report(carried_out(before, after, change_report), end, after, EVERYTHING_ALLOWED)
    assert [operation.describe() for operation in again.operations] == []


def drift_after(before: ArchitectureState, after: ArchitectureState) -> set[str]:
    start = observed(before)
    change_report = report(before, start, after, EVERYTHING_ALLOWED)
    end = run(plan_steps(tables(after), start, change_report.operations), start).tables
    return {each.status for each in drift(carried_out(before, after, change_report).datasets, end)}


def test_a_history_that_keeps_the_wider_text_is_in_sync() -> None:
    before, after = states_of(
        (tiny("d1", "rc_a", "string(20)", historize=True),), (tiny("d1", "rc_a", "time", historize=True),)
    )
    assert drift_after(before, after) == {IN_SYNC}


def test_kept_history_of_a_dropped_dataset_is_in_sync() -> None:
    before, after = states_of((tiny("d1", "rc_a", historize=True), tiny("d2", "rc_b")), (tiny("d2", "rc_b"),))
    assert drift_after(before, after) == {IN_SYNC}


# --- restored datasets ------------------------------------------------------------------------


def dropped_with_its_history_kept() -> tuple[ArchitectureState, dict[str, ObservedTable]]:
    """Return the applied state and the tables after ``rc_a`` was dropped with its history kept."""
    before, after = states_of((tiny("d1", "rc_a", historize=True), tiny("d2", "rc_b")), (tiny("d2", "rc_b"),))
    start = observed(before)
    change_report = report(before, start, after, EVERYTHING_ALLOWED)
    end = run(plan_steps(tables(after), start, change_report.operations), start).tables
    return carried_out(before, after, change_report), end


@pytest.mark.parametrize("key", ["d1", "d9"], ids=["under its stable key", "under another one"])
def test_restored_dataset_is_built_by_one_report(key: str) -> None:
    """Check that the report resumes or renames the kept history, and that the next report has no operations."""
    applied, start = dropped_with_its_history_kept()
    back = tiny(key, "rc_a", historize=True)
    back = replace(back, columns=(*back.columns, column(real("new"), "new", "date")))
    after = with_histories(state(back, tiny("d2", "rc_b")))
    change_report = report(applied, start, after, EVERYTHING_ALLOWED)
    end = run(plan_steps(tables(after), start, change_report.operations), start).tables
    again = report(carried_out(applied, after, change_report), end, after, EVERYTHING_ALLOWED)
    assert [operation.describe() for operation in again.operations] == []


# --- steps for each operation ------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [("string", "uuid"), ("string(50)", "time"), ("string", "json")])
def test_change_of_text_to_uuid_time_or_json_checks_the_values(before: str, after: str) -> None:
    """Check for a step that tests the values: both types are stored as text, so the types alone show no misfit."""
    pair = states_of((tiny("d1", "rc_a", before),), (tiny("d1", "rc_a", after),))
    start = observed(pair[0])
    change_report = report(pair[0], start, pair[1], EVERYTHING_ALLOWED)
    asking = [step for step in plan_steps(tables(pair[1]), start, change_report.operations) if step.op == RETYPE_COLUMN]
    assert [change.to_type for step in asking for change in step.retyped] == [after]
    assert does_not_survive("v", before, after) != does_not_survive("v", before, "string")


def test_history_adds_a_new_column_for_an_incompatible_type_also_stored_as_text() -> None:
    pair = states_of((tiny("d1", "rc_a", "uuid", historize=True),), (tiny("d1", "rc_a", "time", historize=True),))
    start = observed(pair[0])
    change_report = report(pair[0], start, pair[1], EVERYTHING_ALLOWED)
    assert ADD_COLUMN in {operation.op for operation in change_report.operations if operation.side == HISTORY}
    steps = plan_steps(tables(pair[1]), start, change_report.operations)
    assert [step.column.name for step in steps if step.op == ADD_COLUMN and step.table.kind == "history"] == ["v"]


def test_table_that_becomes_a_renamed_view_is_removed_by_steps() -> None:
    pair = states_of((tiny("d1", "rc_a"),), (tiny("d1", "rc_z", materialization="view"),))
    start = observed(pair[0])
    change_report = report(pair[0], start, pair[1], EVERYTHING_ALLOWED)
    steps = plan_steps(tables(pair[1]), start, change_report.operations)
    assert run(steps, start).tables == {}


def test_view_that_becomes_a_table_again_resumes_its_kept_history() -> None:
    table, view = tiny("d1", "rc_a", historize=True), tiny("d1", "rc_a", historize=True, materialization="view")
    wider = replace(table, columns=(*table.columns, column(real("new"), "new", "date")))
    applied, as_view = states_of((table,), (view,))
    start = observed(applied)
    for desired in (as_view, with_histories(state(wider))):
        change_report = report(applied, start, desired, EVERYTHING_ALLOWED)
        start = run(plan_steps(tables(desired), start, change_report.operations), start).tables
        applied = carried_out(applied, desired, change_report)
    again = report(applied, start, with_histories(state(wider)), EVERYTHING_ALLOWED)
    assert [operation.describe() for operation in again.operations] == []
