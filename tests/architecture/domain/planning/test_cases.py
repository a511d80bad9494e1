"""The cases beside this file, in the contract's format; ``metadata_only`` and warnings are listed, too."""

import json
from pathlib import Path
from typing import Any

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import METADATA_ONLY
from architecture.domain.report import FILES, Scope, build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import parse_state
from tests.architecture.states import EVERYTHING_ALLOWED, carried_out, report

CASES = [
    pytest.param(case, id=f"{path.stem}-{case['id']}")
    for path in sorted((Path(__file__).parent / "cases").glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))
]


def states(case: dict) -> tuple:
    return tuple(parse_state(json.dumps(case[side])) for side in ("before", "after"))


def planned(case: dict) -> dict[str, Any]:
    before, after = states(case)
    policy = PolicySet.of_flags({name.removeprefix("allow_"): value for name, value in case["policy"].items()})
    return build_report(CurrentState.of_state(before), after, policy, Scope(FILES)).as_json()


@pytest.mark.parametrize("case", CASES)
def test_report_of_a_planning_case_matches_its_expectation(case: dict) -> None:
    found, expected = planned(case), case["expect"]
    physical = [one for one in found["operations"] if one["decision"] != METADATA_ONLY]
    shown = sorted((narrowed(one, expected["operations"]) for one in physical), key=repr)
    assert shown == sorted((dict(sorted(one.items())) for one in expected["operations"]), key=repr)
    assert (found["status"], found["destructive"]) == (expected["status"], expected["destructive"])
    assert sorted(warning["code"] for warning in found["warnings"]) == expected["warnings"]
    if "metadata_only" in expected:
        rest = [[one["op"], one["dataset"]] for one in found["operations"] if one["decision"] == METADATA_ONLY]
        assert sorted(rest) == sorted(expected["metadata_only"])


def narrowed(found: dict, expected: list[dict]) -> dict:
    """Return the found operation limited to the fields of the expected one that it matches; else unchanged."""
    for one in expected:
        if all(found.get(name) == value for name, value in one.items()):
            return dict(sorted(one.items()))
    return dict(sorted(found.items()))


@pytest.mark.parametrize("case", CASES)
def test_executed_planning_case_leaves_no_changes(case: dict) -> None:
    before, after = states(case)
    done = report(before, after, EVERYTHING_ALLOWED)
    if any(operation.code == "KEY_CHANGE" for operation in done.operations):
        assert done.status == "blocked"
    reached = carried_out(before, after, done)
    assert report(reached, after, EVERYTHING_ALLOWED).status == "no_changes"
