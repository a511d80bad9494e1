"""Public history cases through rendered SQL."""

from pathlib import Path

import pytest

from loader.domain.reference.cases import parse_cases
from loader.services.sql_replay import replay_sql
from metadata.domain.history.history_policy import DELTA, LOAD_TIME, SNAPSHOT
from tests.loader.dialects.engines import ENGINES, connection_to

FILES = [
    pytest.param(path, id=path.stem, marks=() if path.stem == "contract" else pytest.mark.full)
    for path in sorted((Path(__file__).parents[1] / "reference" / "cases").glob("*.json"))
]


def is_rendered(case) -> bool:
    policy = case.policy
    return (
        policy.input in (SNAPSHOT, DELTA)
        and policy.time == LOAD_TIME
        and policy.delete_flag is None
        and policy.delete_detection == "none"
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", FILES)
def test_public_cases_pass_or_are_not_rendered(engine, path):
    cases = parse_cases(path.read_text())
    outcomes = replay_sql(cases, engine, connection_to(engine))
    assert [(outcome.id, outcome.message) for outcome in outcomes if outcome.passed is False] == []
    not_rendered = {outcome.id: outcome.message for outcome in outcomes if outcome.passed is None}
    assert all(message.startswith("NOT_RENDERED: ") for message in not_rendered.values())
    unexpected = {case.id: not_rendered[case.id] for case in cases if case.id in not_rendered and is_rendered(case)}
    assert all("json" in message or "text of a float" in message for message in unexpected.values()), unexpected
