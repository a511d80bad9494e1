"""Documented history cases and additional ones, on the reference implementation."""

import json
from pathlib import Path

import pytest

from loader.domain.reference import ReferenceEngine
from loader.domain.reference.cases import Case, CaseProblem, parse_cases, run_case, select
from loader.domain.reference.invariants import violations

CASES = Path(__file__).parent / "cases"


def read(name: str) -> list[Case]:
    return parse_cases((CASES / name).read_text(encoding="utf-8"))


EVERY = [case for name in ("contract.json", "own.json", "acceptance.json") for case in read(name)]


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.id)
def test_reference_engine_passes_every_history_case(case):
    engines = []

    def make_engine(header):
        engines.append(ReferenceEngine(header))
        return engines[-1]

    outcome = run_case(case, make_engine)
    assert outcome.passed, outcome.message
    assert violations(engines[0].rows(), case.policy, case.keys, engines[0].table.columns.types) == []
    json.dumps(outcome.as_json(), allow_nan=False)


# A case must detect every kind of error in a history, otherwise a passing case proves nothing.


def case_with(**changes) -> dict:
    return {
        "id": "one",
        "keys": ["id"],
        "columns": {"id": "integer", "v": "decimal(10,2)"},
        "policy": {"input": "snapshot"},
        "batches": [{"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": [{"id": 1, "v": "1.50"}]}],
        "expected": [{"id": 1, "v": "1.5", "valid_from": "2024-01-01T01:00:00+01:00", "valid_to": None}],
    } | changes


def outcome_of(**changes):
    [case] = parse_cases(json.dumps([case_with(**changes)]))
    return run_case(case, ReferenceEngine)


def test_case_compares_values_by_type_and_only_named_fields():
    assert outcome_of().passed
    assert outcome_of(expected=[{"v": 1.5}]).passed
    assert outcome_of(expected=[{"state": "new"}]).passed


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ([], "0 versions were expected, 1 are there"),
        ([{"id": 1}, {"id": 1}], "2 versions were expected, 1 are there"),
        ([{"id": 1, "v": "1.51"}], "expected: {id=1, v=1.51}"),
        ([{"id": 1, "valid_to": "2024-01-02T00:00:00Z"}], "to 2024-01-02T00:00:00Z"),
        ([{"id": 1, "valid_from": "2024-01-01T00:00:01Z"}], "not expected: {id=1} from 2024-01-01T00:00:00Z to open"),
        ([{"id": 1, "state": "changed"}], "state=new"),
        ([{"id": 1, "nothing": 5}], "nothing=5"),
    ],
)
def test_case_message_shows_the_differing_versions(expected, message):
    outcome = outcome_of(expected=expected)
    assert not outcome.passed
    assert message in outcome.message


def test_each_expected_row_matches_a_version_of_its_own():
    rows = [{"id": 1, "v": "1"}, {"id": 2, "v": "2"}, {"id": 3, "v": "3"}]
    batches = [{"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": rows}]
    anyone, two = {"state": "new"}, {"id": 2}
    assert outcome_of(batches=batches, expected=[anyone, two, {"valid_to": None, "id": 1}]).passed
    assert not outcome_of(batches=batches, expected=[two, two, anyone]).passed


def test_case_fails_if_an_expected_refusal_does_not_happen():
    batch = {"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": [{"id": 1, "v": "1.50"}], "error": "no way"}
    assert "should have been refused: no way" in outcome_of(batches=[batch]).message


def test_case_fails_on_an_unexpected_refusal():
    batch = {"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": [{"id": None}]}
    outcome = outcome_of(batches=[batch], expected=[])
    assert outcome.message.startswith("batch 1 (r) was refused: NULL_KEY")


def test_case_fails_if_a_refused_batch_changes_the_table():
    class Careless(ReferenceEngine):
        def apply(self, batch):
            if batch["run_id"] == "bad":
                super().apply({**batch, "rows": []})
            return super().apply({**batch, "run_id": batch["run_id"] + "x"})

    good = {"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": [{"id": 1, "v": "1"}]}
    bad = {"at": "2024-01-02T00:00:00Z", "run_id": "bad", "rows": [{"id": None}], "allow_empty": True, "error": "x"}
    [case] = parse_cases(json.dumps([case_with(batches=[good, bad])]))
    assert "was refused, yet the table changed" in run_case(case, Careless).message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": []}, "keys must be a list of names"),
        ({"keys": ["x"]}, "the key 'x' is no column"),
        ({"keys": ["id", "id"]}, "keys names 'id' twice"),
        ({"columns": {"id": "whole"}}, "'whole' is not a type"),
        ({"columns": ["id"]}, "columns must map names to types"),
        ({"policy": {"input": "snapshots"}}, "history_policy.input"),
        ({"policy": {"input": "snapshot", "late": "perhaps"}}, "history_policy.late"),
        ({"batches": {}}, "batches must be a list"),
        ({"batches": [{"at": "2024-01-01", "run_id": "r"}]}, "batch 1: rows is missing"),
        ({"batches": [{"at": "soon", "run_id": "r", "rows": []}]}, "at must be a timestamp"),
        ({"batches": [{"at": "2024-01-01", "run_id": 1, "rows": []}]}, "run_id must be text"),
        ({"batches": [{"at": "2024-01-01", "run_id": "r", "rows": [], "row": []}]}, "row is not known"),
        ({"batches": [{"at": "2024-01-01", "run_id": "r", "rows": [], "upsert": []}]}, "upsert is not known"),
        ({"batches": [{"at": "2024-01-01", "run_id": "r", "rows": [[]]}]}, "rows[0] must be an object, not a list"),
        ({"batches": [{"at": "2024-01-01", "run_id": "r", "rows": [], "rename": ["a"]}]}, "rename must map"),
        ({"expected": {}}, "expected must be a list"),
        ({"more": 1}, "more is not known"),
    ],
)
def test_parse_error_of_a_case_names_the_invalid_field(changes, message):
    with pytest.raises(CaseProblem) as caught:
        parse_cases(json.dumps([case_with(**changes)]))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"input": "effective", "time": "v"}, "which is no time"),
        ({"input": "snapshot", "track": ["w"]}, "there is no column 'w'"),
        ({"input": "effective"}, "rows carry their own time"),
        ({"input": "delta", "deletes": "tombstone"}, "can only be ignore"),
        ({"input": "batch_files", "time": "_fivetran_start", "deletes": "ignore"}, "does not go with"),
    ],
)
def test_case_with_an_invalid_policy_fails_without_stopping_the_others(policy, message):
    cases = parse_cases(json.dumps([case_with(), case_with(id="odd", policy=policy), case_with(id="last")]))
    outcomes = [run_case(case, ReferenceEngine) for case in cases]
    assert [(outcome.id, outcome.passed) for outcome in outcomes] == [("one", True), ("odd", False), ("last", True)]
    assert message in outcomes[1].message


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[{}]", "nonsense"])
def test_file_without_cases_is_refused(text):
    with pytest.raises(CaseProblem):
        parse_cases(text)


def test_select_returns_cases_by_id_and_refuses_an_unknown_id():
    cases = parse_cases(json.dumps([case_with(), case_with(id="two")]))
    assert [case.id for case in select(cases, None)] == ["one", "two"]
    assert [case.id for case in select(cases, ["two", "two"])] == ["two"]
    with pytest.raises(CaseProblem):
        select(cases, ["three"])
    with pytest.raises(CaseProblem):
        parse_cases(json.dumps([case_with(), case_with()]))
