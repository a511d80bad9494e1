"""Masking of a table: masked columns, hashed columns, and queries that would reveal a value."""

from dataclasses import replace

import pytest

from architecture.domain.tables import event_log_table
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import Sensitive, masking_of, must_not_tell, without_examples, without_values
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sensitivity import MASK, MASK_CHANGED
from tests.loader.harness import Dataset, stable


def table_of(sensitive: str, policy: dict | None = None, kind: str = "history_spec"):
    item = Dataset(None, None, columns={"id": "integer", "v": "string", "at": "timestamp"}, policy=policy or {})
    keys = {name: stable("item", name) for name in ("id", "v", "at")}
    others = frozenset(keys) - {sensitive}
    classification = Sensitive(frozenset({keys[sensitive]}), frozenset({sensitive}), frozenset(keys.values()), others)
    table = getattr(item, kind)
    return table, masking_of(table, classification, HistoryPolicy.from_dict(policy or {}), "secret")


def visibility_of(table, masking) -> dict[str, str]:
    states = {}
    for column in table.columns:
        state = "shown" if column.key in masking.shown else "hashed" if column.key in masking.hashed else "masked"
        states[column.purpose if column.name not in ("id", "v", "at") else column.name] = state
    return states


@pytest.mark.parametrize("kind", ["history_spec", "rawcore_spec"])
def test_sensitive_attribute_and_the_row_hash_are_masked(kind: str):
    states = visibility_of(*table_of("v", kind=kind))
    assert {name for name, state in states.items() if state == "masked"} == {"v", "row_hash"}
    assert "hashed" not in states.values()


@pytest.mark.parametrize("kind", ["history_spec", "rawcore_spec"])
def test_row_hash_is_masked_while_a_sensitive_column_is_retired(kind: str):
    item = Dataset(None, None, columns={"id": "integer", "v": "string"})
    retired, known = stable("item", "salary"), frozenset(stable("item", name) for name in ("id", "v", "salary"))
    sensitive = Sensitive(frozenset({retired}), frozenset({"salary"}), known)
    table = getattr(item, kind)
    states = visibility_of(table, masking_of(table, sensitive, HistoryPolicy.from_dict({}), "secret"))
    assert {name for name, state in states.items() if state != "shown"} == {"row_hash"}


def test_all_times_of_an_event_log_are_masked_if_a_sensitive_column_dates_its_events():
    policy = {"input": "effective", "time": "at"}
    item = Dataset(None, None, columns={"id": "integer", "v": "string", "at": "timestamp"}, policy=policy)
    table, keys = event_log_table(item.state), {name: stable("item", name) for name in ("id", "v", "at")}
    sensitive = Sensitive(frozenset({keys["at"]}), frozenset({"at"}), frozenset(keys.values()))
    states = visibility_of(table, masking_of(table, sensitive, HistoryPolicy.from_dict(policy), "secret"))
    assert {name for name, state in states.items() if state != "shown"} == {"at", "event_at", "event_own"}


def test_technical_keys_of_a_sensitive_business_key_are_hashed_again():
    states = visibility_of(*table_of("id"))
    assert {name for name, state in states.items() if state == "hashed"} == {"entity_key", "history_key"}
    assert states["id"] == "masked"


@pytest.mark.parametrize("argument", ["text", "after", "business_key"])
def test_search_by_a_masked_key_is_refused(argument: str):
    table, masking = table_of("id")
    with pytest.raises(Refusal) as refused:
        must_not_tell("as_of", {argument: "x"}, table, masking)
    assert refused.value.code == "MASKED_COLUMN"
    must_not_tell("versions", {"entity_key": "a" * 64}, table, masking)
    must_not_tell("key_search", {"text": ""}, table, masking)


def test_search_by_a_key_is_permitted_while_only_attributes_are_masked():
    table, masking = table_of("v")
    must_not_tell("as_of", {"text": "x", "after": {"id": "1"}}, table, masking)


def test_a_text_is_searched_in_the_columns_of_the_key_that_are_not_masked():
    item = Dataset(None, None, columns={"id": "integer", "v": "string"}, keys=("id", "v"))
    table, known = item.history_spec, frozenset(stable("item", name) for name in ("id", "v"))
    sensitive = Sensitive(frozenset({stable("item", "v")}), frozenset({"v"}), known)
    masking = masking_of(table, sensitive, HistoryPolicy.from_dict({}), "secret")
    must_not_tell("key_search", {"text": "x"}, table, masking)
    with pytest.raises(Refusal, match="v is masked for you"):
        must_not_tell("key_search", {"after": {"id": "1", "v": "x"}}, table, masking)


@pytest.mark.parametrize("argument", ["sort", "column"])
@pytest.mark.parametrize("kind", ["sample", "as_of", "changes"])
def test_filter_or_sort_by_a_masked_column_is_refused(kind: str, argument: str):
    table, masking = table_of("v")
    with pytest.raises(Refusal, match="v is masked for you"):
        must_not_tell(kind, {argument: "v"}, table, masking)
    must_not_tell(kind, {argument: "id", "find": "x"}, table, masking)


def test_read_of_versions_dated_by_a_sensitive_column_is_refused():
    policy = {"input": "effective", "time": "at"}
    table, masking = table_of("at", policy)
    assert visibility_of(table, masking)["started_at"] == visibility_of(table, masking)["ended_at"] == "masked"
    for kind in ("versions", "as_of", "changes"):
        with pytest.raises(Refusal, match="dated"):
            must_not_tell(kind, {}, table, masking)
    must_not_tell("sample", {}, table, masking)
    with pytest.raises(Refusal, match="dated"):
        must_not_tell("origin", {"at": "2024-01-01"}, table, masking)
    assert visibility_of(table, masking)["history_key"] == "hashed"


def test_versions_dated_by_a_sensitive_column_are_masked_while_the_table_has_its_former_name():
    policy = {"input": "effective", "time": "at"}
    table, _ = table_of("at", policy)
    keys = {name: stable("item", name) for name in ("id", "v", "at")}
    others = frozenset({"id", "v"})
    renamed = Sensitive(frozenset({keys["at"]}), frozenset({"moment"}), frozenset(keys.values()), others)
    masking = masking_of(table, renamed, HistoryPolicy.from_dict(policy | {"time": "moment"}), "secret")
    assert {visibility_of(table, masking)[name] for name in ("at", "started_at", "ended_at")} == {"masked"}


@pytest.mark.parametrize(
    ("names", "other_names", "masked"),
    [
        ({"v"}, {"id", "at"}, {"v"}),
        ({"now"}, {"id", "at"}, {"v"}),  # v is a former name of it
        ({"now"}, {"id", "at", "v"}, set()),
        (set(), set(), {"id", "v", "at"}),
    ],
)
def test_columns_with_unknown_stable_keys_are_shown_only_by_names_of_other_columns(names, other_names, masked):
    table, _ = table_of("v")
    described = Sensitive(frozenset({"k"}), frozenset(names), frozenset({"k", "l"}), frozenset(other_names))
    masking = masking_of(table, described, HistoryPolicy.from_dict({}), "secret")
    states = visibility_of(table, masking)
    assert {name for name in ("id", "v", "at") if states[name] != "shown"} == masked


def test_mask_of_a_changed_value_contains_the_mask():
    assert MASK in MASK_CHANGED


# --- refusals ----------------------------------------------------------------------------------


def refused(code: str, column: str = "") -> Refusal:
    return Refusal(code, "rows of it: ada@x is wrong", column=column, count=2, samples=("ada@x",), hint="Correct it.")


@pytest.mark.parametrize("code", ["NULL_KEY", "CONFLICTING_ROWS", "RAGGED_ROW", "LATE_ROWS", "NULLS_FOUND", "ANYTHING"])
def test_a_refusal_about_a_dataset_with_a_sensitive_column_has_no_examples(code: str):
    refusal = without_values(refused(code), ["mail"])
    assert (refusal.samples, refusal.count) == ((), 2)
    assert "masked" in refusal.hint


@pytest.mark.parametrize("code", ["VALUE_DOES_NOT_FIT", "CAST_FAILS"])
def test_refusal_keeps_the_examples_of_another_column(code: str):
    assert without_values(refused(code, "age"), ["mail"]).samples == ("ada@x",)
    assert without_values(refused(code, "MAIL"), ["mail"]).samples == ()


def test_faults_of_other_columns_keep_their_examples():
    faults = (refused("VALUE_DOES_NOT_FIT", "mail"), refused("VALUE_DOES_NOT_FIT", "age"), refused("NULL_KEY", "id"))
    refusal = without_values(replace(faults[0], faults=faults), ["mail"])
    assert refusal.samples == ()
    assert [fault.samples for fault in Refusal.from_json(refusal.as_json()).faults] == [(), ("ada@x",), ()]
    safe = without_examples(replace(faults[1], faults=faults).as_json(), "raw.t")
    assert [(fault["column"], "samples" in fault) for fault in safe["faults"]] == [
        ("mail", False),
        ("age", False),
        ("id", False),
    ]


def test_examples_with_a_sensitive_key_are_left_out():
    by_key = Refusal("VALUE_DOES_NOT_FIT", "t: 1 value", column="age", samples=("Mail=ada@x: old",))
    assert without_values(by_key, ["mail"]).samples == ()
    assert without_values(by_key, ["phone"]).samples == ("Mail=ada@x: old",)


@pytest.mark.parametrize("code", ["UNEXPECTED", "STEP_FAILED"])
def test_refusal_omits_the_message_of_spark(code: str):
    assert "ada@x" not in without_values(refused(code), ["mail"]).message


def test_refusal_with_a_known_cause_omits_the_text_of_spark_and_the_file():
    refusal = without_values(Refusal("DISK_FULL", "t: no space is left on the disk: at ada@x", file="/ada@x"), ["mail"])
    assert refusal.message == "t: no space is left on the disk; Spark's own message may contain sensitive values"
    assert refusal.file == ""


def test_refusal_without_a_sensitive_column_is_unchanged():
    refusal = refused("NULL_KEY")
    assert without_values(refusal, ()) is refusal
