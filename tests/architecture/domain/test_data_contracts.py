"""Data contracts: breaking changes, decisions of the change policy, and versions."""

from dataclasses import replace
from typing import Any

import pytest

from architecture.domain.data_contracts import BREAKS_CONTRACT, contract_operation, desired_contract
from architecture.domain.operations import ALLOWED, CHANGE_CONTRACT, NEEDS_APPROVAL, Operation, operation_of
from architecture.domain.report import ChangeReport
from architecture.domain.report_text import as_text
from architecture.domain.states.applied_state import is_reached
from architecture.domain.states.flat_states import as_row, of_row
from architecture.domain.states.state_files import dump_state, parse_state
from metadata.domain.state import CheckState, ColumnState, ContractState, DatasetState, ExposureState
from tests.architecture.states import carried_out, column, dataset, report, state

DAY = column("k-day", "day", "date", role="business_key", nullable=False)
FLIGHTS = column("k-flights", "flights", "bigint", nullable=False)
DELAY = column("k-delay", "delay", "decimal(10,2)")
POSITIVE = CheckState("c1", "flights are counted", "range", "stop", {"columns": ["flights"], "minimum": "1"})
BOARD = ExposureState("Delay board", "dashboard", "Operations", "https://bi.example.org/delays")


def mart(*columns: ColumnState, checks: tuple[CheckState, ...] = (POSITIVE,), **fields: Any) -> DatasetState:
    values = {"schema": "mart", "contract": ContractState(checks), "exposures": (BOARD,), **fields}
    return dataset("d", "daily", *(columns or (DAY, FLIGHTS, DELAY)), **values)


def in_force(promised: DatasetState, version: str = "1.4") -> DatasetState:
    return replace(promised, contract=replace(desired_contract(promised), version=version))


def changed(after: DatasetState | None, before: DatasetState | None = None) -> Operation | None:
    return contract_operation(in_force(before or mart()), after)


BREAKING = [
    (mart(DAY, FLIGHTS), "column delay is removed"),
    (mart(DAY, FLIGHTS, replace(DELAY, name="minutes")), "column delay is removed"),
    (mart(DAY, FLIGHTS, replace(DELAY, active=False)), "column delay is removed"),
    (
        mart(DAY, FLIGHTS, replace(DELAY, type="decimal(12,2)")),
        "column delay was decimal(10,2) and is decimal(12,2)",
    ),
    (mart(DAY, FLIGHTS, replace(DELAY, type="string")), "column delay was decimal(10,2) and is string"),
    (mart(DAY, replace(FLIGHTS, nullable=True), DELAY), "column flights may be NULL"),
    (mart(replace(DAY, role="attribute"), FLIGHTS, DELAY), "the key was day and is not declared"),
    (mart(DAY, replace(FLIGHTS, role="business_key"), DELAY), "the key was day and is day, flights"),
    (mart(checks=()), "check flights are counted is removed"),
    (mart(checks=(replace(POSITIVE, severity="warn"),)), "check flights are counted is weaker"),
    (replace(mart(), name="per_day"), "mart.daily is renamed to mart.per_day"),
    (replace(mart(), active=False), "the contract is withdrawn"),
    (replace(mart(), contract=None), "the contract is withdrawn"),
    (None, "the contract is withdrawn"),
]


def test_raised_minimum_of_a_text_column_breaks_the_contract() -> None:
    """Check that text is compared as text: a minimum of 9 is higher than one of 10."""
    before, after = (
        mart(
            *(DAY, FLIGHTS, replace(DELAY, type="string")),
            checks=(replace(POSITIVE, arguments={"columns": ["delay"], "minimum": limit}),),
        )
        for limit in ("9", "10")
    )
    assert changed(after, before).code == BREAKS_CONTRACT


@pytest.mark.parametrize(("after", "clause"), BREAKING)
def test_breaking_change_names_the_broken_clause(after: DatasetState | None, clause: str) -> None:
    operation = changed(after)
    assert (operation.op, operation.code) == (CHANGE_CONTRACT, BREAKS_CONTRACT)
    assert operation.message.startswith(clause)


@pytest.mark.parametrize(
    ("after", "clause"),
    [
        (mart(DAY, FLIGHTS, DELAY, column("k-new", "cancelled", "integer")), "column cancelled is new"),
        (mart(DAY, replace(FLIGHTS, type="integer"), DELAY), "column flights was bigint and is integer"),
        (mart(DAY, FLIGHTS, replace(DELAY, nullable=False)), "column delay is never NULL"),
        (mart(checks=(POSITIVE, replace(POSITIVE, key="c2", name="more"))), "check more is new"),
        (
            mart(checks=(replace(POSITIVE, arguments={"columns": ["flights"], "minimum": "2"}),)),
            "check flights are counted is changed and still at least as strict",
        ),
        (mart(checks=(replace(POSITIVE, name="flights"),)), "check flights are counted is renamed to flights"),
        (
            mart(checks=(replace(POSITIVE, name="flights", arguments={"columns": ["flights"], "minimum": "2"}),)),
            "check flights are counted is renamed to flights; check flights is changed and still at least as strict",
        ),
    ],
)
def test_added_columns_and_stricter_checks_do_not_break_the_contract(after: DatasetState, clause: str) -> None:
    operation = changed(after)
    assert (operation.code, operation.consumers) == ("", ())
    assert clause in operation.message


def test_newly_declared_key_does_not_break_the_contract() -> None:
    assert changed(mart(), before=mart(replace(DAY, role="attribute"), FLIGHTS, DELAY)).code == ""


def test_another_order_or_expression_changes_no_contract() -> None:
    assert changed(mart(DELAY, replace(FLIGHTS, expression="count(*)"), DAY)) is None


def test_technical_column_changes_no_contract() -> None:
    assert changed(mart(DAY, FLIGHTS, DELAY, column("t", "load_run_id", role="technical"))) is None


@pytest.mark.parametrize(
    ("before", "after", "versions"),
    [
        (replace(mart(), contract=None), mart(), ("", "1.0")),
        (in_force(mart()), mart(DAY, FLIGHTS), ("1.4", "2.0")),
        (in_force(mart(DAY, FLIGHTS)), mart(), ("1.4", "1.5")),
        (in_force(mart()), None, ("1.4", "")),
    ],
)
def test_a_break_raises_the_major_version_and_growth_the_minor(
    before: DatasetState, after: DatasetState | None, versions: tuple[str, str]
) -> None:
    operation = contract_operation(before, after)
    assert (operation.from_, operation.to) == versions


# --- in a report -------------------------------------------------------------------------------


def of_contract(change_report: ChangeReport) -> Operation:
    (operation,) = [operation for operation in change_report.operations if operation.op == CHANGE_CONTRACT]
    return operation


def test_broken_contract_needs_approval_and_names_the_consumers() -> None:
    change_report = report(state(in_force(mart())), state(mart(DAY, FLIGHTS)))
    operation = of_contract(change_report)
    assert (operation.decision, operation.consumers) == (NEEDS_APPROVAL, (BOARD,))
    assert "read by dashboard Delay board (Operations)" in as_text(change_report)


def test_growth_of_a_contract_is_allowed() -> None:
    assert of_contract(report(state(in_force(mart(DAY, FLIGHTS))), state(mart()))).decision == ALLOWED


def test_another_consumer_of_a_broken_contract_outdates_the_report() -> None:
    before, after = state(in_force(mart())), mart(DAY, FLIGHTS)
    more = replace(after, exposures=(BOARD, replace(BOARD, name="Wall")))
    assert report(before, state(after)).fingerprint != report(before, state(more)).fingerprint


def test_another_consumer_alone_changes_no_report() -> None:
    before = state(in_force(mart()))
    without = report(before, state(replace(mart(), exposures=())))
    assert (without.operations, without.fingerprint) == ((), report(before, state(mart())).fingerprint)


@pytest.mark.parametrize("after", [mart(), mart(DAY, FLIGHTS), replace(mart(), contract=None)])
def test_executed_operations_put_the_contract_in_force(after: DatasetState) -> None:
    before = state(in_force(mart(DAY, DELAY)))
    (applied,) = carried_out(before, state(after), report(before, state(after))).datasets
    assert is_reached(applied, after)
    assert report(state(applied), state(after)).operations == ()


def test_a_new_dataset_gets_its_first_version_with_its_table() -> None:
    change_report = report(state(), state(mart()))
    (applied,) = carried_out(state(), state(mart()), change_report).datasets
    assert applied.contract.version == "1.0"


def test_half_executed_report_leaves_the_broken_contract_to_the_next_report() -> None:
    before, after = state(in_force(mart())), state(mart(DAY, FLIGHTS))
    change_report = report(before, after)
    first = replace(
        change_report, operations=tuple(item for item in change_report.operations if item.op != CHANGE_CONTRACT)
    )
    assert of_contract(report(carried_out(before, after, first), after)).code == BREAKS_CONTRACT


# --- storage -----------------------------------------------------------------------------------


def test_state_files_and_rows_hold_the_contract() -> None:
    applied = in_force(mart())
    assert of_row(as_row(applied)) == applied
    (read,) = parse_state(dump_state(state(applied))).datasets
    assert (read.contract, read.exposures) == (applied.contract, applied.exposures)


def test_stored_operation_keeps_the_consumers() -> None:
    operation = changed(mart(DAY, FLIGHTS))
    assert operation_of(operation.as_row()) == operation
    assert operation.as_json()["consumers"][0]["link"] == BOARD.link
