"""Changes of a reference's rule for unknown parents, which need an approval if the rule decides rows of a history."""

from dataclasses import replace

import pytest

from metadata.domain.state import DatasetState, ReferenceState
from tests.architecture.states import column, dataset, report, state

PARENT = dataset("p", "rc_p", column("p-id", "id", "integer", role="business_key", nullable=False))


def child(rule: str, *pairs: tuple[str, str]) -> DatasetState:
    reference = ReferenceState("r", "rc_p_key", "p", pairs or (("c-p", "p-id"),), rule)
    columns = (
        column("c-id", "id", "integer", role="business_key", nullable=False),
        column("c-p", "p", "integer"),
        column("c-q", "q", "integer"),
    )
    return dataset("c", "rc_c", *columns, historize=True, references=(reference,))


@pytest.mark.parametrize(("before", "after"), [("keep", "null"), ("ghost", "refuse"), ("null", "keep")])
def test_another_rule_for_unknown_parents_is_an_allowed_change_of_logic(before: str, after: str) -> None:
    (operation,) = report(state(PARENT, child(before)), state(PARENT, child(after))).operations
    assert (operation.op, operation.decision, operation.column) == ("change_logic", "allowed", "rc_p_key")
    assert operation.message.startswith("the rule for unknown parents moved")


@pytest.mark.parametrize(("before", "after"), [("keep", "quarantine"), ("quarantine", "null")])
def test_a_rule_that_holds_rows_back_from_a_history_needs_approval(before: str, after: str) -> None:
    (operation,) = report(state(PARENT, child(before)), state(PARENT, child(after))).operations
    assert (operation.decision, operation.code) == ("needs_approval", "HISTORY_DIFFERS")


@pytest.mark.parametrize(("before", "after"), [("keep", "ghost"), ("ghost", "refuse")])
@pytest.mark.parametrize("is_historized", [True, False])
def test_a_rule_that_adds_rows_to_the_history_of_the_parent_needs_approval(
    before: str, after: str, *, is_historized: bool
) -> None:
    parent = replace(PARENT, historize=True)
    first, second = (replace(child(rule), historize=is_historized) for rule in (before, after))
    (operation,) = report(state(parent, first), state(parent, second)).operations
    assert (operation.decision, operation.code) == ("needs_approval", "HISTORY_DIFFERS")
    assert "the history of rawcore.rc_p is built from it" in operation.message


def test_changed_filter_of_a_child_with_ghost_rows_changes_the_history_of_its_parent() -> None:
    parent, child_ = replace(PARENT, historize=True), replace(child("ghost"), historize=False)
    (operation,) = report(state(parent, child_), state(parent, replace(child_, filter="id > 0"))).operations
    assert operation.code == "HISTORY_DIFFERS"


def test_other_key_pairs_of_a_reference_need_approval() -> None:
    (operation,) = report(state(PARENT, child("null")), state(PARENT, child("keep", ("c-q", "p-id")))).operations
    assert (operation.decision, operation.code) == ("needs_approval", "HISTORY_DIFFERS")


def test_unchanged_rule_for_unknown_parents_plans_no_operation() -> None:
    assert report(state(PARENT, child("ghost")), state(PARENT, child("ghost"))).operations == ()
