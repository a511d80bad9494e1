"""Preview of a history policy: five sample rows for every input, and their outcomes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.domain.historization.policy_outcome import Outcome, outcome
from loader.domain.historization.policy_sample import make_sample
from metadata.domain.history.history_policy import OPERATIONS, STATES, VIEWS, HistoryPolicy
from metadata.domain.types import DataType, parse

COLUMNS = {
    "id": "integer",
    "name": "string",
    "city": "string(4)",
    "seen_at": "timestamp",
    "day": "date",
    "sequence": "bigint",
    "op": "string",
}
EFFECTIVE = {"input": "effective", "time": "seen_at"}
FEED = {"input": "cdc", "time": "sequence", "op": "op"}
FILES = {"input": "batch_files", "time": "_fivetran_start"}
POLICIES = [
    {},
    {"time": "seen_at"},
    {"deletes": "tombstone"},
    {"input": "delta"},
    {"input": "delta", "delete_detection": "key_list"},
    {"input": "delta", "delete_detection": "window", "deletes": "tombstone"},
    {"input": "delta", "time": "day"},
    EFFECTIVE,
    EFFECTIVE | {"absent_keys": "deleted"},
    FEED,
    FEED | {"deletes": "tombstone", "profile": "dbt"},
    FILES,
    FILES | {"null_string": "N", "unmodified_string": "U"},
]


def types(columns: dict[str, str]) -> dict[str, DataType]:
    return {name: parse(text) for name, text in columns.items()}


def outcome_of(
    policy: dict[str, Any], columns: dict[str, str] | None = None, keys: tuple[str, ...] = ("id",)
) -> Outcome:
    return outcome(make_sample(HistoryPolicy.from_dict(policy), keys, types(columns or COLUMNS)))


def row_outcomes(policy: dict[str, Any]) -> list[str]:
    """Return the outcomes of the five sample rows, in order."""
    return [fate.became for batch in outcome_of(policy).batches for fate in batch.rows]


def absent_key_outcomes(policy: dict[str, Any]) -> str:
    return " ".join(batch.absent for batch in outcome_of(policy).batches).strip()


def intervals(policy: dict[str, Any]) -> list[tuple]:
    """Return per version: start, end, state, and the rows that opened and closed it."""
    return [(row.started, row.ended, row.state, row.opened_by, row.closed_by) for row in outcome_of(policy).versions]


# --- the rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_sample_has_five_rows_numbered_in_order(policy: dict):
    assert [row.number for row in outcome_of(policy).sample.rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_policy_always_has_the_same_outcome(policy: dict):
    assert outcome_of(policy) == outcome_of(policy)


@pytest.mark.parametrize("policy", POLICIES)
def test_sample_loads_are_ordered_by_time(policy: dict):
    times = [batch.at for batch in outcome_of(policy).sample.batches]
    assert times == sorted(set(times))


@pytest.mark.parametrize("policy", [{"time": "seen_at"}, EFFECTIVE, FEED, FILES])
def test_sample_has_a_late_row_where_rows_carry_a_time(policy: dict):
    assert "late" in [row.kind for row in outcome_of(policy).sample.rows]


@pytest.mark.parametrize("policy", [{}, {"input": "delta"}])
def test_sample_has_no_late_row_where_the_load_sets_the_time(policy: dict):
    assert "late" not in [row.kind for row in outcome_of(policy).sample.rows]


def test_sample_shows_only_a_few_of_many_columns():
    many = {"id": "integer"} | {f"c{n}": "string" for n in range(300)}
    assert outcome_of({}, many).sample.columns == ("id", "c0", "c1")


def test_sample_shows_a_tracked_and_an_untracked_column():
    many = {"id": "integer"} | {f"c{n}": "string" for n in range(300)}
    sample = outcome_of({"track": ["c200"]}, many).sample
    assert (sample.changing, sample.aside) == ("c200", "c0")
    assert sample.columns == ("id", "c0", "c200")


def test_boolean_column_is_not_chosen_to_show_changes():
    assert outcome_of({}, {"id": "integer", "flag": "boolean", "name": "string"}).sample.changing == "name"


def test_sample_of_a_key_without_attributes_has_no_changed_row():
    result = outcome_of({}, {"id": "integer"})
    assert [row.kind for row in result.sample.rows] == ["new", "new", "same", "same", "same"]


# --- outcomes -------------------------------------------------------------------------------------


def test_snapshot_closes_versions_of_absent_keys():
    assert row_outcomes({}) == [
        "Opens version 1.",
        "Opens version 3.",
        "Ends version 1, opens version 2.",
        "Opens nothing and changes nothing.",
        "Opens nothing and changes nothing.",
    ]
    assert absent_key_outcomes({}) == "id 2 is absent. Ends version 3."
    assert intervals({}) == [
        ("2026-01-01 20:00", "2026-01-03 20:00", "changed", 1, 3),
        ("2026-01-03 20:00", "NULL", "changed", 3, None),
        ("2026-01-01 20:00", "2026-01-05 20:00", "deleted", 2, None),
    ]


def test_delta_keeps_versions_of_absent_keys_open():
    assert absent_key_outcomes({"input": "delta"}) == "id 2 is absent. That means nothing."
    assert [version.is_open for version in outcome_of({"input": "delta"}).versions] == [False, True, True]


def test_tombstone_is_an_open_inactive_version_of_a_deleted_key():
    *_, stone = outcome_of({"deletes": "tombstone", "profile": "scd2"}).versions
    assert (stone.state, stone.is_open, stone.active, stone.opened_in) == ("deleted", True, False, "delivery 3")
    assert stone.values == outcome_of({"deletes": "tombstone"}).versions[2].values


def test_a_late_row_splits_the_version_of_its_time():
    assert row_outcomes(EFFECTIVE)[4] == "Ends version 1, opens version 2."
    assert [row[0] for row in intervals(EFFECTIVE)[:3]] == ["2026-01-01 08:00", "2026-01-02 08:00", "2026-01-03 08:00"]


def test_a_late_row_refuses_its_delivery_with_the_reason():
    *_, last = outcome_of(EFFECTIVE | {"late": "refuse"}).batches
    assert last.refusal.code == "LATE_ROWS"
    assert [(fate.became, fate.refused) for fate in last.rows] == [("Refused, with the whole delivery.", True)]
    assert outcome_of(EFFECTIVE | {"late": "refuse"}).summary.endswith("1 of the deliveries is refused.")


def test_a_late_row_that_is_ignored_is_counted():
    assert row_outcomes(EFFECTIVE | {"late": "ignore"})[4] == "Counted and left out."


def test_late_row_beyond_the_horizon_is_skipped():
    assert row_outcomes(EFFECTIVE | {"late_horizon": 1})[4].startswith("Turned away")
    assert row_outcomes(EFFECTIVE | {"late_horizon": 30})[4] == "Ends version 1, opens version 2."


def test_a_feed_ends_a_version_at_its_delete():
    assert intervals(FEED) == [
        ("10", "20", "changed", 1, 5),
        ("20", "30", "changed", 5, 2),
        ("30", "50", "deleted", 2, 4),
    ]


def test_a_delete_that_is_ignored_is_skipped():
    assert row_outcomes(FEED | {"deletes": "ignore"})[3] == "Skipped and counted."


def test_batch_files_open_and_end_versions_as_delivered():
    assert row_outcomes(FILES) == [
        "Opens version 1.",
        "Ends version 1.",
        "Opens version 3.",
        "Ends version 1, opens version 2.",
        "Ends version 3.",
    ]
    assert [version.ended for version in outcome_of(FILES).versions] == [
        "2026-01-02 07:59:59.999",
        "2026-01-03 07:59:59.999",
        "2026-01-05 08:00",
    ]


def test_null_and_unmodified_marks_are_shown_as_delivered_and_stored_as_values():
    result = outcome_of(
        FILES | {"null_string": "N", "unmodified_string": "U"},
        {"id": "integer", "a": "string", "b": "date", "c": "integer"},
    )
    update = result.batches[1].rows[1]
    assert dict(update.named)["b"] == "N"
    assert dict(update.named)["c"] == "U"
    version = dict(result.versions[2].values)
    assert (version["b"], version["c"]) == ("NULL", dict(result.versions[0].values)["c"])


@pytest.mark.parametrize(
    ("untracked", "outcome"), [("update_in_place", "Updates version 3 in place."), ("keep", "Opens nothing")]
)
def test_change_of_an_untracked_column_opens_no_version(untracked: str, outcome: str):
    policy = {"track": ["name"], "untracked": untracked}
    assert row_outcomes(policy)[3].startswith(outcome)
    assert outcome_of(policy).versions[2].updated_by == ((4,) if untracked == "update_in_place" else ())


def test_versions_use_the_open_end_and_state_labels_of_the_policy():
    result = outcome_of({"open_end": "9999-12-31", "state_labels": {"changed": "U"}})
    assert [(version.ended, version.state) for version in result.versions][1] == ("9999-12-31 00:00", "U")


def test_versions_use_the_column_names_of_the_profile():
    assert dict(outcome_of({"profile": "dbt"}).names) == {
        "started_at": "dbt_valid_from",
        "ended_at": "dbt_valid_to",
        "state": "version_state",
    }


def test_columns_named_like_version_columns_keep_their_values():
    columns = {"state": "string", "valid_from": "timestamp", "active": "boolean", "opened_by": "integer"}
    result = outcome_of({"time": "valid_from"}, columns, keys=("state",))
    assert [dict(version.values)["state"] for version in result.versions] == ["state 1"] * 3 + ["state 2"]
    assert [version.state for version in result.versions] == ["changed"] * 3 + ["deleted"]


# --- any policy, any columns ----------------------------------------------------------------------

TYPES = [
    "string",
    "string(1)",
    "string(40)",
    "integer",
    "bigint",
    "decimal(1,0)",
    "decimal(1,1)",
    "decimal(12,2)",
    "float",
]
TYPES += ["boolean", "date", "time", "timestamp", "binary", "uuid", "json"]


@st.composite
def columns_and_policies(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, Any]]:
    """Draw columns and a matching history policy."""
    columns = {"id": draw(st.sampled_from(TYPES)), "at": draw(st.sampled_from(["timestamp", "date", "bigint"]))}
    columns |= {f"c{n}": draw(st.sampled_from(TYPES)) for n in range(draw(st.integers(0, 4)))}
    policy = draw(
        st.sampled_from([{}, {"time": "at"}, {"input": "delta"}, {"input": "effective", "time": "at"}, FILES])
    )
    policy = dict(draw(st.sampled_from([policy, {"input": "cdc", "time": "at", "op": "op"}])))
    named = [name for name in columns if name.startswith("c")]
    if named and draw(st.booleans()):
        policy["track"] = draw(st.lists(st.sampled_from(named), min_size=1, unique=True))
    if policy.get("input") == "cdc":
        policy["deletes"] = draw(st.sampled_from(["close", "ignore", "tombstone"]))
    views = [view for view in VIEWS if view != OPERATIONS or "time" not in policy]
    policy["views"] = draw(st.lists(st.sampled_from(views), unique=True))
    policy["state_labels"] = {word: word.upper() for word in STATES}
    if policy.get("time") == "at" and not policy.get("input") and columns["at"] == "bigint":
        policy["deletes"] = "ignore"
    return columns, policy


@settings(max_examples=60, deadline=None)
@given(columns_and_policies())
def test_sample_of_any_columns_refuses_no_delivery_and_explains_every_version(given_: tuple):
    columns, policy = given_
    result = outcome_of(policy, columns)
    assert [batch.refusal for batch in result.batches if batch.refusal] == []
    assert result.versions
    assert all(version.opened_by or version.opened_in for version in result.versions)
    assert all(fate.became for batch in result.batches for fate in batch.rows)
