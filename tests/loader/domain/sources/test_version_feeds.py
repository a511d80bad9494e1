"""Versions of a Delta table that a feed reads: each once; the whole table in the first run or on request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import CHANGES, WHOLE, FeedLog, FeedRange, choose_versions

TABLE, ID = "file:/lake/item", "table-1"


def log_of(*ranges: FeedRange) -> FeedLog:
    return FeedLog("raw", runs={f"run-{read.number}": read.number for read in ranges}, ranges=ranges)


def whole(end: int, number: int, table_id: str = ID) -> FeedRange:
    return FeedRange(TABLE, table_id, WHOLE, 0, end, number)


def changes(start: int, end: int, number: int) -> FeedRange:
    return FeedRange(TABLE, ID, CHANGES, start, end, number)


def version_ranges(log: FeedLog, newest: int, *, applied: int | None = None, table_id: str = ID, full: bool = False):
    choice = choose_versions(
        "lake.item", log, TABLE, table_id, newest, applied=log.newest if applied is None else applied, full=full
    )
    return [(read.partition, read.start, read.end, read.base) for read in choice.ranges], choice.replaced


def test_the_first_load_reads_the_whole_table_and_later_ones_the_versions_since():
    assert version_ranges(log_of(), 4) == ([(WHOLE, 0, 5, 0)], ())
    assert version_ranges(log_of(whole(5, 1)), 4) == ([], ())
    assert version_ranges(log_of(whole(5, 1)), 7) == ([(CHANGES, 5, 8, 0)], ())
    assert version_ranges(log_of(whole(5, 1), changes(5, 8, 2)), 8) == ([(CHANGES, 8, 9, 0)], ())


def test_versions_of_a_run_that_died_before_the_history_are_read_again():
    assert version_ranges(log_of(whole(5, 1), changes(5, 8, 2)), 9, applied=1) == ([(CHANGES, 5, 10, 0)], ("run-2",))
    assert version_ranges(log_of(whole(5, 1)), 6, applied=0) == ([(WHOLE, 0, 7, 0)], ("run-1",))


@pytest.mark.parametrize(
    ("newest", "table_id", "reason"), [(3, ID, "ends at version 3"), (9, "table-2", "created again")]
)
def test_replaced_table_is_refused_until_a_full_load_with_later_numbers(newest, table_id, reason):
    log = log_of(whole(5, 1), changes(5, 8, 2))
    with pytest.raises(Refusal, match=reason) as refused:
        version_ranges(log, newest, table_id=table_id)
    assert (refused.value.code, "--full" in refused.value.hint) == ("TABLE_REPLACED", True)
    assert version_ranges(log, newest, table_id=table_id, full=True) == ([(WHOLE, 0, newest + 1, 8)], ())
    after = log_of(*log.ranges, whole(newest + 1, 3, table_id))
    assert version_ranges(after, newest + 2, table_id=table_id) == ([(CHANGES, newest + 1, newest + 3, 8)], ())


def test_full_load_of_an_unreplaced_table_keeps_its_numbers():
    assert version_ranges(log_of(whole(5, 1), changes(5, 8, 2)), 9, full=True) == ([(WHOLE, 0, 10, 0)], ())


def test_another_location_is_read_whole():
    assert version_ranges(log_of(FeedRange("file:/elsewhere", ID, WHOLE, 0, 5, 1)), 2) == ([(WHOLE, 0, 3, 0)], ())


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["run", "run", "dies", "full", "replaced"])), max_size=12))
def test_each_version_is_read_once_in_increasing_order_in_any_sequence_of_runs(happened):
    newest, table, applied, ranges, last = 0, 1, 0, [], -1
    for number, (added, what) in enumerate(happened, start=1):
        newest, table = (added, table + 1) if what == "replaced" else (newest + added, table)
        log, full = log_of(*ranges), what in ("full", "replaced")
        choice = choose_versions("lake.item", log, TABLE, f"table-{table}", newest, applied=applied, full=full)
        ranges = [read for read in ranges if f"run-{read.number}" not in choice.replaced]
        for read in choice.ranges:
            ranges.append(FeedRange(read.topic, read.topic_id, read.partition, read.start, read.end, number))
            first, end = (read.end - 1 if read.partition == WHOLE else read.start) + read.base, read.end + read.base
            assert first > last or (read.partition == WHOLE and first == last)
            if what != "dies":
                last = end - 1
        if what != "dies":
            applied = number if choice.ranges else applied
