"""Planning cases of the contract, including ``metadata_only`` operations and warnings."""

import json
from pathlib import Path
from typing import Any

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import METADATA_ONLY
from architecture.domain.report import build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import parse_state
from metadata.domain.scope import FILES, Scope
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
    document, expected = planned(case), case["expect"]
    physical = [operation for operation in document["operations"] if operation["decision"] != METADATA_ONLY]
    operations = sorted((narrowed(operation, expected["operations"]) for operation in physical), key=repr)
    assert operations == sorted((dict(sorted(operation.items())) for operation in expected["operations"]), key=repr)
    assert (document["status"], document["destructive"]) == (expected["status"], expected["destructive"])
    assert sorted(warning["code"] for warning in document["warnings"]) == expected["warnings"]
    if "metadata_only" in expected:
        metadata_only = [
            [operation["op"], operation["dataset"]]
            for operation in document["operations"]
            if operation["decision"] == METADATA_ONLY
        ]
        assert sorted(metadata_only) == sorted(expected["metadata_only"])


def narrowed(operation: dict, expected: list[dict]) -> dict:
    """Return the fields of the operation that an expected one lists, or the whole operation if none matches."""
    for fields in expected:
        if all(operation.get(name) == value for name, value in fields.items()):
            return dict(sorted(fields.items()))
    return dict(sorted(operation.items()))


@pytest.mark.parametrize("case", CASES)
def test_executed_planning_case_leaves_no_changes(case: dict) -> None:
    before, after = states(case)
    done = report(before, after, EVERYTHING_ALLOWED)
    if any(operation.code == "KEY_CHANGE" for operation in done.operations):
        assert done.status == "blocked"
    reached = carried_out(before, after, done)
    assert report(reached, after, EVERYTHING_ALLOWED).status == "no_changes"
