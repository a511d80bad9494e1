"""Changes of the deliveries that raw keeps: logic alone, or a rebuild that partitions the table."""

from dataclasses import replace

import pytest

from architecture.domain.operations import ALLOWED, CHANGE_LOGIC, NEEDS_APPROVAL, REBUILD_TABLE
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import ObservedTable, raw_table, tables_of
from metadata.domain.sources.raw_keeping import ALL, BY_DAY, LATEST, policy_of
from metadata.domain.state import ColumnState, DatasetState
from tests.architecture.domain.states.test_current_state import as_observed, customer, key, planned

CUSTOMER = replace(customer(), inputs=(key("raw"),))


def raw(mode: str) -> DatasetState:
    columns = (ColumnState(key("raw-id"), "id", "integer"), ColumnState(key("raw-name"), "name", "string"))
    return DatasetState(key("raw"), "raw", "raw", "raw_customer", columns, load_policy=policy_of(mode))


def observed(state: DatasetState) -> dict[str, ObservedTable]:
    tables = {**as_observed(state), **as_observed(CUSTOMER)}
    return {table.key: replace(tables[table.key], partition_by=table.partition_by) for table in tables_of(state)} | {
        table.key: replace(tables[table.key], partition_by=table.partition_by) for table in tables_of(CUSTOMER)
    }


def decisions(before: str, after: str) -> list[tuple[str, str, str]]:
    report = planned([raw(before), CUSTOMER], observed(raw(before)), [raw(after), CUSTOMER])
    return sorted((one.op, one.decision, one.dataset) for one in report.operations)


@pytest.mark.parametrize("mode", [LATEST, ALL, BY_DAY])
def test_a_mode_that_stays_changes_nothing(mode: str):
    assert decisions(mode, mode) == []


@pytest.mark.parametrize(("before", "after"), [(LATEST, ALL), (ALL, LATEST)])
def test_more_or_fewer_deliveries_change_the_logic_of_raw_alone(before: str, after: str):
    assert decisions(before, after) == [(CHANGE_LOGIC, ALLOWED, "raw.raw_customer")]


@pytest.mark.parametrize(("before", "after"), [(LATEST, BY_DAY), (ALL, BY_DAY), (BY_DAY, LATEST)])
def test_partitions_need_an_approved_rebuild(before: str, after: str):
    assert decisions(before, after) == [
        (CHANGE_LOGIC, ALLOWED, "raw.raw_customer"),
        (REBUILD_TABLE, NEEDS_APPROVAL, "raw.raw_customer"),
    ]


def test_the_rebuild_is_one_step_of_its_operation():
    before, after = raw(ALL), raw(BY_DAY)
    report = planned([before], as_observed(before), [after])
    steps = plan_steps([raw_table(after)], as_observed(before), report.operations)
    assert [step.describe() for step in steps] == ["rebuild_table raw.raw_customer: partitioned by loaded_on"]
    assert report.operations[steps[0].operation].op == REBUILD_TABLE
