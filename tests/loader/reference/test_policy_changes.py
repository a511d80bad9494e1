"""Change of the history policy of an existing history: old versions stay, new rows follow the new policy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.reference import ReferenceEngine, violations
from metadata.domain.history.history_policy import HistoryPolicy
from tests.loader.reference.test_properties import COLUMNS, INPUTS, apply, batch, engine

EFFECTIVE = {"input": "effective", "time": "t"}
SMALL = {"id": "integer", "a": "string", "v": "string", "t": "bigint"}


def effective(**more) -> ReferenceEngine:
    return ReferenceEngine({"keys": ["id"], "columns": SMALL, "policy": EFFECTIVE | more})


def bring(table: ReferenceEngine, n: int, *rows: tuple[str, str, int]) -> None:
    table.apply(batch(n, [{"id": 1, "a": a, "v": v, "t": t} for a, v, t in rows]))


def change(table: ReferenceEngine, **more) -> None:
    table.change_policy(HistoryPolicy.from_dict(EFFECTIVE | more))


def intervals(table: ReferenceEngine) -> list[tuple]:
    versions = [(row["valid_from"], row["valid_to"], row["a"], row["v"]) for row in table.rows()]
    return sorted(versions, key=lambda version: version[0])


def tracked_a() -> ReferenceEngine:
    """Return a table of two rows that differ only in an untracked column: one version, updated in place."""
    table = effective(track=["a"])
    bring(table, 1, ("x", "u1", 1))
    bring(table, 2, ("x", "u2", 5))
    return table


def test_untracked_change_opens_no_version_after_its_column_becomes_tracked():
    table = tracked_a()
    change(table)
    bring(table, 3, ("y", "u2", 9))
    assert intervals(table) == [(1, 9, "x", "u2"), (9, None, "y", "u2")]


def test_newly_tracked_column_opens_versions():
    table = tracked_a()
    change(table)
    bring(table, 3, ("x", "u3", 9))
    assert intervals(table) == [(1, 9, "x", "u2"), (9, None, "x", "u3")]


def test_column_that_is_no_longer_tracked_keeps_its_versions():
    table = effective()
    bring(table, 1, ("x", "u1", 1))
    bring(table, 2, ("x", "u2", 5))
    change(table, track=["a"])
    bring(table, 3, ("x", "u3", 9))
    assert intervals(table) == [(1, 5, "x", "u1"), (5, None, "x", "u3")]


def test_row_received_under_the_old_policy_updates_the_version_of_a_late_row():
    table = tracked_a()
    change(table)
    bring(table, 3, ("x", "u9", 3))
    # The row of 5 changes only an untracked column, so it was applied in place when it was received.
    assert intervals(table) == [(1, 3, "x", "u1"), (3, None, "x", "u2")]


def test_restored_policy_applies_to_later_rows():
    table = tracked_a()
    change(table)
    bring(table, 3, ("x", "u3", 9))
    change(table, track=["a"])
    bring(table, 4, ("x", "u4", 12))
    assert intervals(table) == [(1, 9, "x", "u2"), (9, None, "x", "u4")]


@pytest.mark.parametrize("other", [{"input": "snapshot"}, EFFECTIVE | {"open_end": "9999-12-31"}])
def test_policy_that_changes_the_form_of_versions_is_refused(other):
    table = tracked_a()
    with pytest.raises(Refusal) as refused:
        table.change_policy(HistoryPolicy.from_dict(other))
    assert refused.value.code == "HISTORY_POLICY_CHANGED"


tracked = st.sampled_from([{}, {"track": ["a"]}, {"track": ["b"]}, {"track": ["a"], "untracked": "keep"}])


def versions_of(table: ReferenceEngine) -> dict[tuple, object]:
    """Return every version by key and start, as the engine finds rows to add and remove."""
    fold = table.table.fold
    return {
        (key, version.valid_from): version for key, log in table.table.logs.items() for version in fold.versions(log)
    }


@pytest.mark.parametrize("name", ["effective", "cdc", "effective, absent deleted", "snapshot"])
@settings(max_examples=80)
@given(data=st.data())
def test_applying_only_differences_gives_the_history_across_policy_changes(name, data):
    """Apply differences one by one and compare with the history after every change."""
    policy_of, row_of, time_type = INPUTS[name]
    first = {k: v for k, v in data.draw(policy_of).items() if k not in ("track", "untracked")}
    table = engine(first | data.draw(tracked), time_type)
    stored: dict[tuple, object] = {}
    for n, content in enumerate(data.draw(st.lists(st.lists(row_of, max_size=6), max_size=5))):
        if n:
            table.change_policy(HistoryPolicy.from_dict(first | data.draw(tracked)))
        before = versions_of(table)
        assert before == stored
        if not apply(table, batch(3 * n, content)):
            continue
        after = versions_of(table)
        for place in before.keys() - after.keys():
            del stored[place]
        stored |= {place: version for place, version in after.items() if before.get(place) != version}
        assert stored == after
        known = table.table
        assert violations(table.rows(), known.policy, ["id"], set(COLUMNS) - {"id"}, known.former) == []


@settings(max_examples=80)
@given(st.data())
def test_a_change_of_policy_alone_alters_nothing(data):
    table = engine(EFFECTIVE | data.draw(tracked))
    for n, content in enumerate(data.draw(st.lists(st.lists(INPUTS["effective"][1], max_size=6), max_size=4))):
        apply(table, batch(n, content))
    before = versions_of(table)
    table.change_policy(HistoryPolicy.from_dict(EFFECTIVE | data.draw(tracked)))
    assert versions_of(table) == before
