"""Changes of the retained deliveries of raw tables: a change of logic, or a rebuild that partitions the table."""

from dataclasses import replace

import pytest

from architecture.domain.operations import ALLOWED, CHANGE_LOGIC, NEEDS_APPROVAL, REBUILD_TABLE
from architecture.domain.states.applied_state import advance
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
    return sorted((operation.op, operation.decision, operation.dataset) for operation in report.operations)


@pytest.mark.parametrize("mode", [LATEST, ALL, BY_DAY])
def test_unchanged_keep_mode_plans_no_operation(mode: str):
    assert decisions(mode, mode) == []


def test_more_deliveries_change_the_logic_of_raw_alone():
    assert decisions(LATEST, ALL) == [(CHANGE_LOGIC, ALLOWED, "raw.raw_customer")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((ALL,), (LATEST,)),
        ((ALL,), (ALL, 30)),
        ((ALL, 30), (ALL, 7)),
        ((BY_DAY, 30, 5), (BY_DAY, None, 4)),
        ((ALL, 30), (ALL, None, 100)),
    ],
)
def test_fewer_deliveries_are_destructive_and_need_approval(before: tuple, after: tuple):
    (operation,) = keeping(before, after)
    assert (operation.op, operation.decision, operation.code) == (CHANGE_LOGIC, NEEDS_APPROVAL, "FEWER_DELIVERIES")
    assert operation.destructive


@pytest.mark.parametrize(
    ("before", "after"), [((ALL, 30), (ALL,)), ((ALL, 30, 5), (ALL, 31, 5)), ((LATEST,), (ALL, 9))]
)
def test_more_deliveries_within_a_limit_need_no_approval(before: tuple, after: tuple):
    (operation,) = keeping(before, after)
    assert (operation.decision, operation.destructive) == (ALLOWED, False)


def test_fewer_deliveries_and_another_rule_of_a_source_are_two_decisions():
    before = replace(raw(ALL), load_policy={"keep": "all"})
    after = replace(before, load_policy={"sources": {"s": {"options": {"filter": "id > 1"}}}})
    historized = replace(CUSTOMER, historize=True)
    done = planned([before, historized], observed(before), [after, historized])
    assert sorted(operation.code for operation in done.operations) == ["FEWER_DELIVERIES", "HISTORY_DIFFERS"]
    applied = before
    for operation in done.operations:
        applied = advance(applied, operation, after)
    assert applied.load_policy == after.load_policy


def keeping(before: tuple, after: tuple) -> list:
    first, second = (replace(raw(LATEST), load_policy=policy_of(*described)) for described in (before, after))
    return list(planned([first, CUSTOMER], observed(first), [second, CUSTOMER]).operations)


@pytest.mark.parametrize(
    ("before", "after", "decision"),
    [(LATEST, BY_DAY, ALLOWED), (ALL, BY_DAY, ALLOWED), (BY_DAY, LATEST, NEEDS_APPROVAL)],
)
def test_partitions_need_an_approved_rebuild(before: str, after: str, decision: str):
    assert decisions(before, after) == [
        (CHANGE_LOGIC, decision, "raw.raw_customer"),
        (REBUILD_TABLE, NEEDS_APPROVAL, "raw.raw_customer"),
    ]


def test_partitioning_rebuild_of_a_raw_table_is_one_step():
    before, after = raw(ALL), raw(BY_DAY)
    report = planned([before], as_observed(before), [after])
    steps = plan_steps([raw_table(after)], as_observed(before), report.operations)
    assert [step.describe() for step in steps] == ["rebuild_table raw.raw_customer: partitioned by loaded_on"]
    assert report.operations[steps[0].operation].op == REBUILD_TABLE
