"""Checks before every load of a history."""

from datetime import UTC, datetime, timedelta

import pytest

from loader.contract.refusals import Refusal
from loader.domain.historization.load_guards import (
    DeleteGuard,
    check_holds_applied,
    check_later,
    check_load_type,
    check_not_ahead,
)
from metadata.domain.history.history_policy import HistoryPolicy


def test_run_that_is_not_later_than_the_newest_is_refused():
    with pytest.raises(Refusal, match="not later") as refused:
        check_later(name="t", at="2024-01-01T00:00:00Z", newest=["2024-01-01T01:00:00+01:00"])
    assert refused.value.code == "NOT_LATER"


def test_a_first_run_is_never_too_early():
    check_later(name="t", at="1970-01-01T00:00:00Z", newest=[None])


def test_load_timestamp_more_than_a_day_ahead_of_the_clock_is_refused():
    now = datetime(2026, 11, 29, tzinfo=UTC)
    check_not_ahead(now + timedelta(days=1), now=now)
    with pytest.raises(Refusal, match="more than a day in the future") as refused:
        check_not_ahead(now + timedelta(days=1, microseconds=1), now=now)
    assert refused.value.code == "LOAD_TIMESTAMP_AHEAD"


@pytest.mark.parametrize(("rows", "would_close", "allowed"), [(1, 5, False), (0, 0, False), (0, 5, True)])
def test_empty_snapshot_is_accepted_if_it_closes_nothing_or_is_allowed(rows, would_close, allowed):
    DeleteGuard(allow_empty=allowed).check(name="t", rows=rows, would_close=would_close, open_keys=5)


@pytest.mark.parametrize("allow_deletes", [False, True])
def test_an_empty_snapshot_that_would_close_versions_is_refused(allow_deletes):
    with pytest.raises(Refusal) as refused:
        DeleteGuard(allow_deletes=allow_deletes).check(name="t", rows=0, would_close=7, open_keys=7)
    assert (refused.value.code, refused.value.count) == ("EMPTY_SNAPSHOT", 7)


@pytest.mark.parametrize(
    ("would_close", "open_keys", "guard"),
    [
        (1000, 1000, DeleteGuard()),
        (2000, 10_000, DeleteGuard()),
        (9000, 10_000, DeleteGuard(allow_deletes=True)),
        (9000, 10_000, DeleteGuard(share=0.9)),
        (9000, 10_000, DeleteGuard(keys=9000)),
    ],
)
def test_snapshot_with_few_absent_keys_or_allowed_deletes_is_accepted(would_close, open_keys, guard):
    guard.check(name="t", rows=1, would_close=would_close, open_keys=open_keys)


def test_a_snapshot_that_lacks_many_keys_is_refused_with_count_and_share():
    with pytest.raises(Refusal) as refused:
        DeleteGuard().check(name="t", rows=7999, would_close=2001, open_keys=10_000)
    assert (refused.value.code, refused.value.count) == ("TOO_MANY_DELETES", 2001)
    assert "lacks 2001 of the 10000 open keys (20%)" in refused.value.message
    assert "--allow-deletes" in refused.value.hint


@pytest.mark.parametrize(
    ("applied", "newest", "run"),
    [(None, None, 1), (None, 3, 4), (3, 3, 4), (3, 4, 5), (3, 3, 3)],
    ids=["never loaded", "control database restored", "as it was left", "a run died after its commit", "run again"],
)
def test_a_table_with_the_newest_applied_run_is_loaded(applied, newest, run):
    check_holds_applied(name="t", applied=applied, held=newest, run=run)


@pytest.mark.parametrize(("newest", "message"), [(None, "no run"), (2, "up to number 2")])
def test_a_table_without_the_newest_applied_run_is_refused(newest, message):
    with pytest.raises(Refusal, match=message) as refused:
        check_holds_applied(name="t", applied=3, held=newest, run=4)
    assert (refused.value.code, "accept_table" in refused.value.hint) == ("TABLE_BEHIND", True)


def test_a_policy_that_needs_versions_is_refused_without_a_history():
    policy = HistoryPolicy.from_dict({"input": "cdc", "time": "t", "op": "op", "deletes": "tombstone"})
    with pytest.raises(Refusal, match="deletes of its history policy needs versions") as refused:
        check_load_type(name="t", policy=policy, historized=False)
    assert refused.value.code == "LOAD_TYPE"
    check_load_type(name="t", policy=policy, historized=True)


def test_append_input_refuses_a_history():
    policy = HistoryPolicy(input="append")
    with pytest.raises(Refusal, match="input of its history policy append only adds rows"):
        check_load_type(name="t", policy=policy, historized=True)
    check_load_type(name="t", policy=policy, historized=False)
