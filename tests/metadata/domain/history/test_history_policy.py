"""Tests of history policies: defaults, strict parsing, and checks against a dataset's columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.history.history_policy import HistoryPolicy, PolicyProblem
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
    {"input": "delta", "delete_flag": "gone", "deletes": "tombstone"},
    {"input": "append"},
    {"input": "batch_files", "time": "_fivetran_start", "null_string": "N", "unmodified_string": "U"},
    {"profile": "dbt", "state_labels": {"new": "I", "deleted": "D"}, "views": ["current", "changes"]},
]


@pytest.mark.parametrize("described", POLICIES)
def test_a_policy_survives_being_written_and_read(described: dict) -> None:
    policy = HistoryPolicy.from_dict(described)
    assert HistoryPolicy.from_dict(policy.to_dict()) == policy


def test_default_policy_is_written_as_an_empty_dictionary() -> None:
    assert HistoryPolicy.from_dict({"input": "snapshot", "time": "load", "deletes": "close"}).to_dict() == {}


@pytest.mark.parametrize(
    ("described", "deletes"),
    [
        ({}, "close"),
        ({"input": "delta"}, "ignore"),
        ({"input": "cdc", "time": "s", "op": "op"}, "close"),
        ({"input": "effective", "time": "s"}, "ignore"),
        ({"input": "effective", "time": "s", "absent_keys": "deleted"}, "close"),
        ({"input": "delta", "delete_detection": "window"}, "close"),
        ({"input": "delta", "delete_flag": "gone"}, "close"),
        ({"input": "append"}, "ignore"),
    ],
)
def test_default_of_deletes_follows_the_input(described: dict, deletes: str) -> None:
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
        ({"delete_detection": "window"}, "history_policy.delete_detection"),
        ({"input": "delta", "time": "at", "delete_detection": "key_list"}, "history_policy.delete_detection"),
        ({"input": "delta", "delete_detection": "key_list", "deletes": "ignore"}, "history_policy.deletes"),
        ({"input": "delta", "deletes": "close"}, "history_policy.deletes"),
        ({"late": "refuse"}, "history_policy.late"),
        ({"delete_flag": "gone"}, "history_policy.delete_flag"),
        ({"input": "append", "time": "s"}, "history_policy.time"),
        ({"input": "append", "track": ["a"]}, "history_policy.track"),
        ({"untracked": "keep"}, "history_policy.untracked"),
        ({"null_string": "x"}, "history_policy.null_string"),
        ({"open_end": "never"}, "history_policy.open_end"),
        ({"open_end": "2020-01-01"}, "history_policy.open_end"),
        ({"open_end": "9999-12-31T23:59:59-10:00"}, "history_policy.open_end"),
        ({"input": "batch_files", "time": "s", "open_end": "9999-12-31"}, "history_policy.open_end"),
        ({"profile": "kimball"}, "history_policy.profile"),
        ({"input": "batch_files", "time": "s", "profile": "scd2"}, "history_policy.profile"),
        ({"state_labels": ["new"]}, "history_policy.state_labels"),
        ({"state_labels": {"reopened": "R"}}, "history_policy.state_labels.reopened"),
        ({"state_labels": {"new": " "}}, "history_policy.state_labels.new"),
        ({"state_labels": {"new": 1}}, "history_policy.state_labels.new"),
        ({"state_labels": {"new": "I", "live": "I"}}, "history_policy.state_labels"),
        ({"state_labels": {"new": "changed"}}, "history_policy.state_labels"),
        ({"views": "current"}, "history_policy.views"),
        ({"views": ["newest"]}, "history_policy.views"),
        ({"views": ["current", "current"]}, "history_policy.views"),
    ],
)
def test_invalid_policy_is_refused_with_its_field(described: object, field: str) -> None:
    with pytest.raises(PolicyProblem) as refused:
        HistoryPolicy.from_dict(described)
    assert refused.value.field == field


def test_refused_choice_lists_the_allowed_values() -> None:
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
        ({"input": "delta", "delete_flag": "name"}, "history_policy.delete_flag"),
        ({"input": "delta", "delete_flag": "id"}, "history_policy.delete_flag"),
    ],
)
def test_a_policy_that_does_not_fit_the_columns_is_refused(described: dict, field: str) -> None:
    with pytest.raises(PolicyProblem) as refused:
        HistoryPolicy.from_dict(described).check_against(COLUMNS, business_key=["id"])
    assert refused.value.field == field


def test_policy_that_fits_the_columns_is_accepted() -> None:
    HistoryPolicy.from_dict({"time": "at", "track": ["name"]}).check_against(COLUMNS, business_key=["id"])


CDC = {"input": "cdc", "time": "at", "op": "op"}
FILES = {"input": "batch_files", "time": "_fivetran_start"}


@pytest.mark.parametrize(
    ("described", "columns", "field"),
    [
        (CDC, {"at": "timestamp"}, "op"),
        ({**CDC, "late_horizon": 30}, {"at": "bigint", "op": "string"}, "late_horizon"),
        ({**CDC, "open_end": "9999-12-31"}, {"at": "bigint", "op": "string"}, "open_end"),
        ({"input": "effective", "time": "at", "absent_keys": "deleted"}, {"at": "integer"}, "absent_keys"),
        ({"time": "at"}, {"at": "bigint"}, "time"),
        ({"time": "at", "open_end": "9999-12-31T12:00:00"}, {"at": "date"}, "open_end"),
        (FILES, {"_fivetran_start": "timestamp"}, "input"),
        (FILES, {"_Fivetran_Synced": "timestamp"}, "input"),
    ],
)
def test_policy_that_does_not_fit_the_described_columns_is_refused_with_its_field(
    described: dict, columns: dict, field: str
) -> None:
    known = {name: parse(type_) for name, type_ in {"id": "integer", **columns}.items()}
    with pytest.raises(PolicyProblem) as refused:
        HistoryPolicy.from_dict(described).check_described(known, ["id"])
    assert refused.value.field == f"history_policy.{field}"


@pytest.mark.parametrize(
    ("described", "columns", "delivered"),
    [
        (CDC, {"at": "bigint"}, {"op"}),
        (CDC, {"at": "bigint", "op": "string"}, set()),
        ({"time": "at", "deletes": "ignore"}, {"at": "bigint"}, set()),
        ({"time": "at", "open_end": "9999-12-31"}, {"at": "date"}, set()),
        ({**CDC, "late_horizon": 30, "open_end": "9999-12-31"}, {"at": "timestamp", "op": "string"}, set()),
        (FILES, {"name": "string"}, set()),
    ],
)
def test_policy_that_fits_the_described_columns_is_accepted(described: dict, columns: dict, delivered: set) -> None:
    known = {name: parse(type_) for name, type_ in {"id": "integer", **columns}.items()}
    HistoryPolicy.from_dict(described).check_described(known, ["id"], delivered)


def test_state_label_replaces_the_default_name() -> None:
    policy = HistoryPolicy.from_dict({"state_labels": {"new": "I"}})
    assert (policy.label("new"), policy.label("changed")) == ("I", "changed")


def test_state_labels_may_swap_names() -> None:
    policy = HistoryPolicy.from_dict({"state_labels": {"new": "live", "live": "new"}})
    assert policy.label("live") == "new"


def test_equal_labels_and_views_are_written_identically() -> None:
    document = {"state_labels": {"deleted": "D", "new": "I", "changed": "changed"}, "views": ["changes", "current"]}
    policy = HistoryPolicy.from_dict(document)
    assert hash(policy) == hash(HistoryPolicy.from_dict(policy.to_dict()))
    assert policy.to_dict() == {"state_labels": {"new": "I", "deleted": "D"}, "views": ["current", "changes"]}
    assert HistoryPolicy.from_dict({"state_labels": {"new": "new"}, "views": []}).to_dict() == {}


def test_fields_naming_lists_the_fields_that_name_a_column() -> None:
    policy = HistoryPolicy.from_dict({**CDC, "track": ["name"]})
    assert [policy.fields_naming(name) for name in ("at", "op", "name", "id")] == [("time",), ("op",), ("track",), ()]


def test_column_named_load_does_not_date_versions() -> None:
    dated, by_load = HistoryPolicy(time="t", input="effective"), HistoryPolicy()
    assert (dated.time_column, by_load.time_column) == ("t", None)
    by_load.renamed({"a": "load"}).check_against({"load": parse("integer")})
    HistoryPolicy(track=("load",)).check_against({"load": parse("integer")})


def test_time_column_cannot_be_renamed_to_load() -> None:
    with pytest.raises(PolicyProblem, match="cannot be called 'load'"):
        HistoryPolicy(time="t", input="effective").renamed({"t": "load"})


def test_a_policy_follows_renamed_columns() -> None:
    policy = HistoryPolicy.from_dict({"time": "at", "track": ["name"]})
    assert policy.renamed({"at": "since", "name": "title"}).to_dict() == {"time": "since", "track": ["title"]}
