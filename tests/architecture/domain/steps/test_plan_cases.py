"""Execution of every planning case in an in-memory warehouse."""

import json
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import METADATA_ONLY
from architecture.domain.planning.matching import as_known
from architecture.domain.report import ChangeReport, build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import ArchitectureState, parse_state
from architecture.domain.steps.report_steps import check_belongs, plan_steps
from architecture.domain.steps.step import steps_done
from architecture.domain.tables import ObservedTable, TableSpec, tables_of
from metadata.domain.state import TECHNICAL, DatasetState
from tests.architecture.domain.planning.test_cases import CASES
from tests.architecture.states import EVERYTHING_ALLOWED, carried_out
from tests.architecture.tables import after as run
from tests.architecture.tables import observed_table


def with_real_keys(document: Any) -> Any:
    """Return the document with UUIDs in place of the short keys of cases."""
    if isinstance(document, list):
        return [with_real_keys(item) for item in document]
    if not isinstance(document, dict):
        return document
    fields = {name: with_real_keys(value) for name, value in document.items()}
    if isinstance(fields.get("key"), str):
        fields["key"] = real(fields["key"])
    if isinstance(fields.get("inputs"), list):
        fields["inputs"] = [real(key) for key in fields["inputs"]]
    return fields


def real(key: str) -> str:
    try:
        return str(UUID(key))
    except ValueError:
        return str(uuid5(NAMESPACE_DNS, key))


def states(case: dict) -> tuple[ArchitectureState, ArchitectureState]:
    """Return the applied state, and the desired state with the keys of the applied one."""
    before, after = (parse_state(json.dumps(with_real_keys(case[side]))) for side in ("before", "after"))
    before, after = with_histories(before), with_histories(after)
    return before, ArchitectureState(as_known(after.datasets, before.datasets).states)


def with_histories(state: ArchitectureState) -> ArchitectureState:
    """Return the state as metadata describes it: with histories and without technical columns."""
    return ArchitectureState(tuple(_described(dataset) for dataset in state.datasets))


def _described(dataset: DatasetState) -> DatasetState:
    dataset = replace(dataset, columns=tuple(column for column in dataset.columns if column.role != TECHNICAL))
    if not dataset.historize:
        return dataset
    return replace(dataset, history_key=str(uuid5(UUID(dataset.key), "history")), layer="rawcore")


def tables(state: ArchitectureState) -> tuple[TableSpec, ...]:
    return tuple(table for dataset in state.datasets for table in tables_of(dataset))


def observed(state: ArchitectureState) -> dict[str, ObservedTable]:
    """Return the tables of a state; retired datasets still have theirs."""
    datasets = (replace(dataset, active=True) for dataset in state.datasets)
    return {table.key: observed_table(table) for dataset in datasets for table in tables_of(with_retired(dataset))}


def with_retired(dataset: DatasetState) -> DatasetState:
    return replace(dataset, columns=tuple(replace(column, active=True) for column in dataset.columns))


def report(
    applied: ArchitectureState, current: dict[str, ObservedTable], desired: ArchitectureState, policy: PolicySet
) -> ChangeReport:
    return build_report(CurrentState.of_warehouse(applied.datasets, current, desired.datasets), desired, policy)


@pytest.mark.parametrize("case", CASES)
def test_planning_case_is_executed_step_by_step_and_leaves_no_changes(case):
    before, after = states(case)
    start = observed(before)
    done = report(before, start, after, EVERYTHING_ALLOWED)
    if done.status == "blocked":
        return
    steps = plan_steps(tables(after), start, done.operations)
    assert check_belongs(steps) == steps
    warehouse = run(steps, start)
    traced = [step for step in steps if step.leaves_trace]
    for key in {step.table.key for step in traced} & warehouse.tables.keys():
        own = [step for step in traced if step.table.key == key]
        assert steps_done(own, warehouse.tables[key]) == len(own)
    reached = carried_out(before, after, done)
    again = report(reached, warehouse.tables, after, EVERYTHING_ALLOWED)
    assert [operation.describe() for operation in again.operations if operation.decision != METADATA_ONLY] == []
    assert plan_steps(tables(after), warehouse.tables, again.operations) == ()
