"""Reports on changes of a history form, which loads refuse while versions are stored in the former form."""

from dataclasses import replace

import pytest

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import BASE, HISTORY
from architecture.domain.planning.plan import plan
from architecture.domain.states.current_state import CurrentState, Placed, Table
from metadata.domain.state import DatasetState
from tests.architecture.states import EVERYTHING_ALLOWED, codes, column, dataset, report, state


def historized(policy: dict | None = None, key_type: str = "integer", **fields) -> DatasetState:
    """Return a historized dataset with a key and two timestamp columns."""
    columns = (
        column("id", "id", key_type, role="business_key", nullable=False),
        column("at", "at", "timestamp"),
        column("seen", "seen", "timestamp"),
    )
    return dataset("d1", "", *columns, **({"historize": True, "history_policy": policy or {}} | fields))


def change(before: DatasetState, after: DatasetState, policy: PolicySet | None = None):
    return report(state(before), state(after), policy)


EFFECTIVE = {"input": "effective", "time": "at"}
FILES = {"input": "batch_files", "time": "at"}
OTHER_FORMS = {
    "rows with a time of their own": ({}, EFFECTIVE, "time, input"),
    "another time": (EFFECTIVE, EFFECTIVE | {"time": "seen"}, "time, input"),
    "batch files": ({}, FILES, "time, input"),
    "tombstones": ({}, {"deletes": "tombstone"}, "deletes"),
    "a high end": ({}, {"open_end": "9999-12-31"}, "open_end"),
    "other words": ({}, {"state_labels": {"new": "opened"}}, "state_labels"),
    "another profile": ({}, {"profile": "scd2"}, "profile"),
}


@pytest.mark.parametrize(("before", "after", "named"), OTHER_FORMS.values(), ids=OTHER_FORMS)
def test_another_history_form_needs_approval_and_warns_that_loads_refuse_it(before, after, named) -> None:
    (operation,) = change(historized(before), historized(after)).operations
    assert (operation.op, operation.side, operation.decision, operation.code) == (
        ops.CHANGE_LOGIC,
        BASE,
        ops.NEEDS_APPROVAL,
        "HISTORY_FORM",
    )
    assert named in operation.message
    assert "HISTORY_POLICY_CHANGED" in operation.message
    assert "set the policy back" in operation.message


SAME_FORM = {
    "other columns tracked": ({}, {"track": ["at"]}),
    "deletes are ignored": ({}, {"deletes": "ignore"}),
    "changes instead of all there is": ({}, {"input": "delta"}),
    "a feed instead of effective rows": (EFFECTIVE, {"input": "cdc", "time": "at", "op": "seen"}),
}


@pytest.mark.parametrize(("before", "after"), SAME_FORM.values(), ids=SAME_FORM)
def test_changed_comparison_of_versions_keeps_the_history_form(before, after) -> None:
    (operation,) = change(historized(before), historized(after)).operations
    assert (operation.decision, operation.code) == (ops.NEEDS_APPROVAL, "HISTORY_DIFFERS")


def test_renamed_time_column_keeps_the_history_form() -> None:
    before = historized(EFFECTIVE)
    renamed = replace(before.columns[1], name="valid_at", former_names=("at",))
    after = replace(
        historized(EFFECTIVE | {"time": "valid_at"}), columns=(before.columns[0], renamed, before.columns[2])
    )
    assert {operation.op for operation in change(before, after).operations} == {ops.RENAME_COLUMN}


def test_history_policy_of_a_dataset_without_history_is_allowed_to_change() -> None:
    (operation,) = change(
        historized({}, historize=False), historized({"open_end": "9999-12-31"}, historize=False)
    ).operations
    assert (operation.decision, operation.code) == (ops.ALLOWED, "CHANGE_LOGIC")


def test_resumed_history_with_another_form_needs_approval() -> None:
    before, after = historized({}, historize=False), historized({"open_end": "9999-12-31"})
    tables = (Table("rawcore", name, before.columns) for name in ("rc_d1", "rc_d1_hist"))
    current = CurrentState((Placed(before, *tables),))
    (operation,) = [
        operation for operation in plan(current, [after], PolicySet()).operations if operation.op == ops.CHANGE_LOGIC
    ]
    assert (operation.decision, operation.code) == (ops.NEEDS_APPROVAL, "HISTORY_FORM")


def test_policy_can_block_another_history_form() -> None:
    policy = PolicySet.from_json({"severities": {"HISTORY_FORM": "block"}})
    assert change(historized(), historized({"profile": "scd2"}), policy).status == "blocked"


# --- a key of another kind -------------------------------------------------------------------


def test_key_of_incompatible_type_is_blocked_with_a_warning() -> None:
    change_report = change(historized(), historized(key_type="date"))
    assert change_report.status == "blocked"
    decided = [
        (operation.op, operation.side, operation.decision, operation.code) for operation in change_report.operations
    ]
    assert decided == [
        (ops.RETIRE_COLUMN, HISTORY, ops.METADATA_ONLY, "METADATA_ONLY"),
        (ops.RETYPE_COLUMN, BASE, ops.BLOCKED, "RETYPE_COLUMN"),
        (ops.ADD_COLUMN, HISTORY, ops.BLOCKED, "KEY_RETYPED"),
    ]
    (warning,) = change_report.warnings
    assert (warning.code, warning.dataset, warning.column) == ("KEY_RETYPED", "rawcore.rc_d1_hist", "id")
    assert "takes every key for a new one" in warning.message


def test_key_of_incompatible_type_warns_also_if_the_policy_allows_it() -> None:
    change_report = change(historized(), historized(key_type="date"), EVERYTHING_ALLOWED)
    assert (change_report.status, list(codes(change_report))) == ("open", ["KEY_RETYPED"])


@pytest.mark.parametrize("type_", ["bigint", "string", "decimal(12,2)"])
def test_wider_key_raises_no_warning(type_: str) -> None:
    assert list(codes(change(historized(), historized(key_type=type_)))) == []


def test_key_of_incompatible_type_without_history_raises_no_warning() -> None:
    assert list(codes(change(historized(historize=False), historized(historize=False, key_type="date")))) == []
