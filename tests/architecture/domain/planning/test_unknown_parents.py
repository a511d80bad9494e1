"""Changes of a reference's rule for unknown parents: a change of logic, which opens no version."""

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
def test_another_rule_is_an_allowed_change_of_logic(before: str, after: str) -> None:
    (operation,) = report(state(PARENT, child(before)), state(PARENT, child(after))).operations
    assert (operation.op, operation.decision, operation.column) == ("change_logic", "allowed", "rc_p_key")
    assert operation.message.startswith("the rule for unknown parents moved")


def test_other_pairs_differ_in_the_history() -> None:
    (operation,) = report(state(PARENT, child("null")), state(PARENT, child("keep", ("c-q", "p-id")))).operations
    assert (operation.decision, operation.code) == ("needs_approval", "HISTORY_DIFFERS")


def test_the_same_rule_changes_nothing() -> None:
    assert report(state(PARENT, child("ghost")), state(PARENT, child("ghost"))).operations == ()
