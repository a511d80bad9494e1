"""History policies: defaults, strictness, and fitness for a dataset's columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.history_policy import HistoryPolicy, PolicyProblem
from metadata.domain.types import parse

POLICIES = [
    {"input": "snapshot", "time": "load", "deletes": "close"},
    {"input": "snapshot", "deletes": "tombstone"},
    {"input": "snapshot", "time": "changed_at", "late": "refuse"},
    {"input": "snapshot", "track": ["name"], "untracked": "keep"},
    {"input": "delta", "time": "load", "deletes": "ignore"},
    {"input": "effective", "time": "changed_at", "deletes": "ignore", "late": "split"},
    {"input": "effective", "time": "changed_at", "absent_keys": "deleted"},
    {"input": "cdc", "time": "seq", "op": "op", "late_horizon": 30, "open_end": "9999-12-31"},
    {"input": "batch_files", "time": "_fivetran_start", "null_string": "N", "unmodified_string": "U"},
]


@pytest.mark.parametrize("described", POLICIES)
def test_a_policy_survives_being_written_and_read(described: dict) -> None:
    policy = HistoryPolicy.from_dict(described)
    assert HistoryPolicy.from_dict(policy.to_dict()) == policy


def test_the_default_policy_is_written_as_nothing() -> None:
    assert HistoryPolicy.from_dict({"input": "snapshot", "time": "load", "deletes": "close"}).to_dict() == {}


@pytest.mark.parametrize(
    ("described", "deletes"),
    [
        ({}, "close"),
        ({"input": "delta"}, "ignore"),
        ({"input": "cdc", "time": "s", "op": "op"}, "close"),
        ({"input": "effective", "time": "s"}, "ignore"),
        ({"input": "effective", "time": "s", "absent_keys": "deleted"}, "close"),
    ],
)
def test_what_deletes_do_by_default_follows_the_input(described: dict, deletes: str) -> None:
    assert HistoryPolicy.from_dict(described).deletes == deletes


@pytest.mark.parametrize(
    ("described", "field"),
    [
        ([], "history_policy"),
        ({"inputs": "snapshot"}, "history_policy.inputs"),
        ({"input": "full"}, "history_policy.input"),
        ({"input": 1}, "history_policy.input"),
        ({"deletes": None}, "history_policy.deletes"),
        ({"time": 5}, "history_policy.time"),
        ({"track": "name"}, "history_policy.track"),
        ({"track": []}, "history_policy.track"),
        ({"track": ["a", "a"]}, "history_policy.track"),
        ({"late_horizon": True}, "history_policy.late_horizon"),
        ({"late_horizon": 0}, "history_policy.late_horizon"),
        ({"input": "effective"}, "history_policy.time"),
        ({"input": "cdc", "time": "s"}, "history_policy.op"),
        ({"op": "op"}, "history_policy.op"),
        ({"absent_keys": "deleted"}, "history_policy.absent_keys"),
        ({"input": "delta", "deletes": "close"}, "history_policy.deletes"),
        ({"late": "refuse"}, "history_policy.late"),
        ({"untracked": "keep"}, "history_policy.untracked"),
        ({"null_string": "x"}, "history_policy.null_string"),
        ({"open_end": "never"}, "history_policy.open_end"),
        ({"open_end": "2020-01-01"}, "history_policy.open_end"),
    ],
)
def test_nonsense_is_refused_naming_the_field(described: object, field: str) -> None:
    with pytest.raises(PolicyProblem) as refused:
        HistoryPolicy.from_dict(described)
    assert refused.value.field == field


def test_a_refused_choice_says_what_is_allowed() -> None:
    with pytest.raises(PolicyProblem, match="must be one of close, ignore, tombstone, not 'drop'"):
        HistoryPolicy.from_dict({"deletes": "drop"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(list(HistoryPolicy.__dataclass_fields__)) | st.text(max_size=5), JSON))
def test_any_json_is_a_policy_or_refused(described: dict) -> None:
    try:
        policy = HistoryPolicy.from_dict(described)
    except PolicyProblem:
        return
    assert HistoryPolicy.from_dict(policy.to_dict()) == policy


COLUMNS = {name: parse(text) for name, text in {"id": "integer", "name": "string", "at": "timestamp"}.items()}


@pytest.mark.parametrize(
    ("described", "field"),
    [
        ({"time": "gone"}, "history_policy.time"),
        ({"time": "name"}, "history_policy.time"),
        ({"track": ["gone"]}, "history_policy.track"),
        ({"track": ["id"]}, "history_policy.track"),
        ({"time": "at", "track": ["at"]}, "history_policy.track"),
        ({"input": "cdc", "time": "at", "op": "id"}, "history_policy.op"),
    ],
)
def test_a_policy_that_does_not_fit_the_columns_is_refused(described: dict, field: str) -> None:
    with pytest.raises(PolicyProblem) as refused:
        HistoryPolicy.from_dict(described).check_against(COLUMNS, business_key=["id"])
    assert refused.value.field == field


def test_a_policy_that_fits_is_taken() -> None:
    HistoryPolicy.from_dict({"time": "at", "track": ["name"]}).check_against(COLUMNS, business_key=["id"])


def test_a_policy_follows_renamed_columns() -> None:
    policy = HistoryPolicy.from_dict({"time": "at", "track": ["name"]})
    assert policy.renamed({"at": "since", "name": "title"}).to_dict() == {"time": "since", "track": ["title"]}
