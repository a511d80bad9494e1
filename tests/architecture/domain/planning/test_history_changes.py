"""Reports on changes that leave a history's versions as they are, but not its next load."""

from dataclasses import replace

import pytest

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import BASE, HISTORY
from architecture.domain.planning.plan import plan
from architecture.domain.states.current_state import CurrentState, Placed, Table
from metadata.domain.state import DatasetState
from tests.architecture.states import EVERYTHING_ALLOWED, codes, column, dataset, report, state


def kept(policy: dict | None = None, key_type: str = "integer", **said) -> DatasetState:
    """A historized dataset with a key and two columns that could date its rows."""
    columns = (
        column("id", "id", key_type, role="business_key", nullable=False),
        column("at", "at", "timestamp"),
        column("seen", "seen", "timestamp"),
    )
    return dataset("d1", "", *columns, **({"historize": True, "history_policy": policy or {}} | said))


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
def test_another_form_of_versions_needs_approval_and_says_that_loads_will_refuse_it(before, after, named) -> None:
    (found,) = change(kept(before), kept(after)).operations
    assert (found.op, found.side, found.decision, found.code) == (
        ops.CHANGE_LOGIC,
        BASE,
        ops.NEEDS_APPROVAL,
        "HISTORY_FORM",
    )
    assert named in found.message
    assert "HISTORY_POLICY_CHANGED" in found.message
    assert "set the policy back" in found.message


SAME_FORM = {
    "other columns tracked": ({}, {"track": ["at"]}),
    "deletes are ignored": ({}, {"deletes": "ignore"}),
    "changes instead of all there is": ({}, {"input": "delta"}),
    "a feed instead of effective rows": (EFFECTIVE, {"input": "cdc", "time": "at", "op": "seen"}),
}


@pytest.mark.parametrize(("before", "after"), SAME_FORM.values(), ids=SAME_FORM)
def test_another_comparison_is_no_other_form(before, after) -> None:
    (found,) = change(kept(before), kept(after)).operations
    assert (found.decision, found.code) == (ops.NEEDS_APPROVAL, "HISTORY_DIFFERS")


def test_a_renamed_time_column_dates_versions_as_before() -> None:
    before = kept(EFFECTIVE)
    renamed = replace(before.columns[1], name="valid_at", former_names=("at",))
    after = replace(kept(EFFECTIVE | {"time": "valid_at"}), columns=(before.columns[0], renamed, before.columns[2]))
    assert {one.op for one in change(before, after).operations} == {ops.RENAME_COLUMN}


def test_without_a_history_there_is_no_form() -> None:
    (found,) = change(kept({}, historize=False), kept({"open_end": "9999-12-31"}, historize=False)).operations
    assert (found.decision, found.code) == (ops.ALLOWED, "CHANGE_LOGIC")


def test_a_history_that_is_taken_up_again_has_the_form_it_was_left_in() -> None:
    before, after = kept({}, historize=False), kept({"open_end": "9999-12-31"})
    tables = (Table("rawcore", name, before.columns) for name in ("rc_d1", "rc_d1_hist"))
    current = CurrentState((Placed(before, *tables),))
    (found,) = [one for one in plan(current, [after], PolicySet()).operations if one.op == ops.CHANGE_LOGIC]
    assert (found.decision, found.code) == (ops.NEEDS_APPROVAL, "HISTORY_FORM")


def test_an_environment_may_forbid_another_form() -> None:
    policy = PolicySet.from_json({"severities": {"HISTORY_FORM": "block"}})
    assert change(kept(), kept({"profile": "scd2"}), policy).status == "blocked"


# --- a key of another kind -------------------------------------------------------------------


def test_a_key_of_another_kind_is_warned_of_and_blocked_as_every_other_retyped_column() -> None:
    found = change(kept(), kept(key_type="date"))
    assert found.status == "blocked"
    decided = [(one.op, one.side, one.decision, one.code) for one in found.operations]
    assert decided == [
        (ops.RETIRE_COLUMN, HISTORY, ops.METADATA_ONLY, "METADATA_ONLY"),
        (ops.RETYPE_COLUMN, BASE, ops.BLOCKED, "RETYPE_COLUMN"),
        (ops.ADD_COLUMN, HISTORY, ops.BLOCKED, "KEY_RETYPED"),
    ]
    (warning,) = found.warnings
    assert (warning.code, warning.dataset, warning.column) == ("KEY_RETYPED", "rawcore.rc_d1_hist", "id")
    assert "takes every key for a new one" in warning.message


def test_where_types_may_change_it_needs_approval_and_is_still_warned_of() -> None:
    found = change(kept(), kept(key_type="date"), EVERYTHING_ALLOWED)
    assert (found.status, list(codes(found))) == ("open", ["KEY_RETYPED"])


@pytest.mark.parametrize("type_", ["bigint", "string", "decimal(12,2)"])
def test_a_wider_key_is_the_same_key(type_: str) -> None:
    assert list(codes(change(kept(), kept(key_type=type_)))) == []


def test_without_a_history_no_key_is_lost() -> None:
    assert list(codes(change(kept(historize=False), kept(historize=False, key_type="date")))) == []
