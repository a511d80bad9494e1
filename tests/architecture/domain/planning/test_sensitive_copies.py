"""Copies of sensitive columns in a plan: new ones need an approval, removed ones do not."""

from dataclasses import replace

import pytest

from architecture.domain.operations import ALLOWED, CHANGE_LOGIC, CREATE_TABLE, NEEDS_APPROVAL
from metadata.domain.copies import HASH, INCLUDE, rule_of
from metadata.domain.load_policy import COPIES
from metadata.domain.state import DatasetState
from tests.architecture.domain.states.test_current_state import as_observed, customer, planned


def copied(**rules: str) -> DatasetState:
    copies = {
        key: rule_of(system="bi", location="postgresql://db/bi", table="", sensitive=sensitive)
        for key, sensitive in rules.items()
    }
    return replace(customer(), load_policy={COPIES: copies} if copies else None)


def decisions(before: DatasetState, after: DatasetState) -> list[tuple[str, str, str]]:
    report = planned([before], as_observed(before), [after])
    return [(operation.op, operation.decision, operation.code) for operation in report.operations]


NEEDED = (CHANGE_LOGIC, NEEDS_APPROVAL, "SENSITIVE_COPIED")


@pytest.mark.parametrize(
    ("before", "after"), [({}, {"a": HASH}), ({"a": HASH}, {"a": INCLUDE}), ({"a": HASH}, {"a": HASH, "b": INCLUDE})]
)
def test_copy_of_sensitive_columns_needs_an_approval(before, after):
    assert NEEDED in decisions(copied(**before), copied(**after))


@pytest.mark.parametrize(("before", "after"), [({"a": HASH}, {}), ({"a": HASH, "b": HASH}, {"a": HASH})])
def test_fewer_copies_of_sensitive_columns_need_no_approval(before, after):
    assert decisions(copied(**before), copied(**after)) == [(CHANGE_LOGIC, ALLOWED, "CHANGE_LOGIC")]


def test_unchanged_copies_plan_nothing():
    assert decisions(copied(a=HASH), copied(a=HASH)) == []


def test_new_dataset_with_a_copy_of_sensitive_columns_needs_an_approval():
    report = planned([], {}, [copied(a=INCLUDE)])
    operations = [(operation.op, operation.decision, operation.code) for operation in report.operations]
    assert NEEDED in operations
    assert CREATE_TABLE in {op for op, _, _ in operations}
