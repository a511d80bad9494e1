"""Limits of marks: rows ahead are loaded and counted, and never move the mark beyond the limit."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.mark_limits import Split, Value
from loader.domain.sources.mark_warnings import window_warnings
from loader.domain.sources.marks import (
    DAY,
    INSTANT,
    LOCAL,
    NUMBER,
    Mark,
    Reading,
    Window,
    advance_mark,
    finish_window,
    value_of,
)
from loader.domain.sources.window_texts import window_text
from metadata.domain.sources.intake import Intake

SOURCE = SourceSpec("erp.orders", "orders", "parquet", (DeliveredColumn("k", "n", "bigint"),))
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Rows:
    """Measure of the values of one column."""

    values: tuple[Value, ...]

    def lowest(self, name: str) -> Value | None:
        return min(self.values, default=None)

    def split(self, name: str, limit: Value) -> Split:
        within = [value for value in self.values if value <= limit]
        return Split(max(within, default=None), len(self.values) - len(within), len(self.values))


def read(request: Reading, kind: str, *texts: str, zone: str = "UTC") -> Window:
    """Return the window of a load that reads these values."""
    values = tuple(value_of(text, kind) for text in texts)
    highest = max(zip(values, texts, strict=True), default=(None, None))[1]
    return request.window(SOURCE, {"n": kind}, {"n": highest}, zone, Rows(values))


def after(made: Window, before: tuple[Mark, ...] = ()) -> tuple[Mark, ...]:
    mark = advance_mark(next(iter(before), None), made, own=True)
    assert mark is not None
    return (mark,)


def request(mark: tuple[Mark, ...] = (), *, at: datetime = AT, **intake: Any) -> Reading:
    return Reading(Intake(("n",), **intake), mark, at=at)


@pytest.mark.parametrize(
    ("kind", "zone", "tolerance", "texts", "end", "ahead"),
    [
        (INSTANT, "UTC", None, ("2026-02-28 10:00", "2999-01-01"), "2026-02-28 10:00:00+00:00", 1),
        (INSTANT, "UTC", None, ("2026-03-02 12:00", "2026-03-02 12:00:00.000001"), "2026-03-02 12:00:00+00:00", 1),
        (INSTANT, "UTC", "3 days", ("2026-03-04 12:00", "2026-03-05"), "2026-03-04 12:00:00+00:00", 1),
        (LOCAL, "+05:30", "1 hour", ("2026-03-01 18:30", "2026-03-01 18:31"), "2026-03-01 18:30:00", 1),
        (DAY, "UTC", None, ("2026-03-02", "2026-03-03", "9999-12-31"), "2026-03-02", 2),
        (DAY, "Pacific/Auckland", None, ("2026-03-03",), "2026-03-03", 0),
        (DAY, "UTC", None, ("2026-03-01",), "2026-03-01", 0),
        (INSTANT, "UTC", None, ("2999-01-01",), None, 1),
    ],
)  # fmt: skip
def test_time_mark_never_exceeds_the_run_time_plus_tolerance(kind, zone, tolerance, texts, end, ahead):
    made = read(request(tolerance=tolerance), kind, *texts, zone=zone)
    assert (made.end, made.ahead) == ({} if end is None else {"n": end}, {"n": ahead} if ahead else None)
    assert len(window_warnings(made, "erp.orders", request())) == bool(ahead)


def test_later_rows_are_read_though_a_row_is_dated_in_the_future():
    first = read(request(), INSTANT, "2026-02-27", "2026-02-28", "2999-01-01")
    known = after(first)
    later = request(known, at=AT + timedelta(days=1))
    second = read(later, INSTANT, "2026-02-27", "2026-02-28", "2026-03-02", "2999-01-01")
    assert later.bounds(second) == {"n": "2026-02-28 00:00:00+00:00"}
    assert (second.end, second.ahead) == ({"n": "2026-03-02 00:00:00+00:00"}, {"n": 1})
    third = read(request(after(second, known), at=AT + timedelta(days=2)), INSTANT, "2026-02-27", "2026-03-02")
    assert third.end == second.end


def test_source_that_went_backwards_is_refused_despite_a_row_dated_in_the_future():
    first = read(request(), INSTANT, "2026-02-28", "2999-01-01")
    with pytest.raises(Refusal) as refused:
        read(request(after(first)), INSTANT, "2026-02-20", "2999-01-01")
    assert refused.value.code == "WATERMARK_BACKWARDS"


def test_mark_beyond_the_limit_is_ignored_and_the_source_read_whole():
    poisoned = read(replace(request(), at=None), INSTANT, "2026-02-28", "2999-01-01")
    assert poisoned.end == {"n": "2999-01-01 00:00:00+00:00"}
    made = read(request(after(poisoned)), INSTANT, "2026-02-28", "2999-01-01")
    assert (made.start, made.end) == (None, {"n": "2026-02-28 00:00:00+00:00"})
    assert "read whole" in window_warnings(made, "erp.orders", request())[0]
    assert advance_mark(after(poisoned)[0], made, own=False) == after(made)[0]


@pytest.mark.parametrize(("full", "since"), [(True, ""), (False, "2026-01-01")])
def test_full_or_since_load_excludes_rows_ahead_from_the_mark(full: bool, since: str):
    made = read(replace(request(), full=full, since=since), INSTANT, "2026-02-28", "2999-01-01")
    assert (made.end, made.ahead) == ({"n": "2026-02-28 00:00:00+00:00"}, {"n": 1})


@pytest.mark.parametrize(
    ("first", "texts", "tolerance", "end", "ahead"),
    [
        ((1, 100), (1, 100, 150), None, 150, None),
        ((1, 100), (1, 100, 10_100), None, 10_100, None),
        ((1, 100), (1, 100, 101, 10_101, 99_999), None, 101, 2),
        ((1, 100), (1, 100, 101, 111), 10, 101, 1),
        ((1, 100), (1, 100, 99_999), 1_000_000, 99_999, None),
        ((1_700_000_000, 1_760_000_000), (1_760_000_001, 32_472_144_000), None, 1_760_000_001, 1),
        ((20200101, 20260228), (20260301, 29990101), None, 20260301, 1),
        ((1, 2_000_000), (2_000_001, 12_000_000), None, 12_000_000, None),
    ],
)
def test_a_number_that_jumps_beyond_the_known_range_does_not_move_the_mark(first, texts, tolerance, end, ahead):
    begun = after(read(request(), NUMBER, *map(str, first)))
    made = read(request(begun, tolerance=tolerance), NUMBER, *map(str, texts))
    assert (made.end, made.ahead) == ({"n": str(end)}, {"n": ahead} if ahead else None)


@pytest.mark.parametrize(
    ("texts", "end", "ahead"),
    [
        ((1, 2, 3, 999_999_999), 3, 1),
        ((1, 2, 3, 9_999_999, 9_999_999_999_999), 3, 2),
        ((1, 2, 3, 9_000), 9_000, None),
        (tuple(range(1, 40)) + tuple(range(10**9, 10**9 + 40)), 10**9 + 39, None),
        ((5,), 5, None),
        ((7, 10**15), 10**15, None),
        (tuple(1_700_000_000_000 + n for n in range(50)) + (9_999_999_999_999,), 1_700_000_000_049, 1),
    ],
)
def test_a_few_numbers_far_above_all_others_are_ahead_in_a_first_load(texts, end, ahead):
    made = read(request(), NUMBER, *map(str, texts))
    assert (made.end, bool(made.ahead)) == ({"n": str(end)}, bool(ahead))


def test_mark_keeps_the_lowest_known_number():
    first = after(read(request(), NUMBER, "1000", "1100"))
    second = after(read(request(first), NUMBER, "1100", "1200"), first)
    assert (first[0].lows, second[0].lows) == ({"n": "1000"}, {"n": "1000"})


def test_window_text_counts_rows_ahead():
    window = {"from": {"n": "7"}, "to": {"n": "9"}, "ahead": {"n": 2}}
    assert window_text(window) == "read from n 7, up to n 9, and 2 rows ahead"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=12), st.integers(0, 3))
def test_a_row_in_the_future_hides_no_later_row(days: list[tuple[int, bool]], back: int):
    """Load after each row, of which some are dated in the future; every row is read by a load after it was written."""
    source: list[date] = []
    unread: set[int] = set()
    mark: tuple[Mark, ...] = ()
    today = date(2026, 1, 1)
    for gap, is_future in days:
        today += timedelta(days=gap)
        source.append(date(2999, 1, 1) if is_future else today)
        unread.add(len(source) - 1)
        at = datetime(today.year, today.month, today.day, tzinfo=UTC)
        reading = request(mark, at=at, look_back=f"{back} days" if back else None)
        made = reading.window(SOURCE, {"n": DAY}, {"n": str(max(source))}, "UTC", Rows(tuple(source)))
        least = (reading.bounds(made) or {}).get("n", "0001-01-01")
        unread -= {place for place in unread if source[place] >= date.fromisoformat(least)}
        mark = tuple(known for known in (advance_mark(mark[0] if mark else None, made, own=True),) if known)
        assert not unread


# Endpoints, which return no highest value.


def endpoint_window(reading: Reading, *numbers: int) -> Window:
    values = tuple(Decimal(number) for number in numbers)
    begun = reading.begin_window(SOURCE, {"n": NUMBER})
    highest = {"n": str(max(values)) if values else None}
    return finish_window(begun, "shop.orders", {"n": NUMBER}, highest, reading, Rows(values))


def test_endpoint_with_a_number_ahead_is_read_from_the_mark_below_it():
    first = after(endpoint_window(request(), 1, 2, 3, 999_999_999))
    assert first[0].values == {"n": "3"}
    second = endpoint_window(request(first), 3, 4, 999_999_999)
    assert (second.start, second.end, second.ahead) == ({"n": "3"}, {"n": "4"}, {"n": 1})


def test_endpoint_with_all_rows_below_the_mark_is_refused():
    first = after(endpoint_window(request(), 1, 50))
    with pytest.raises(Refusal) as refused:
        endpoint_window(request(first), 1, 20)
    assert refused.value.code == "WATERMARK_BACKWARDS"
    assert endpoint_window(request(first, look_back=30), 20).end == {"n": "50"}


@pytest.mark.parametrize(("second", "look_back", "warned"), [((50, 60), None, 1), ((51, 60), None, 0), ((60,), 5, 1)])
def test_endpoint_without_the_rows_of_its_mark_gets_a_warning(second, look_back, warned):
    first = after(endpoint_window(request(), 1, 50))
    known = after(replace(endpoint_window(request(first), *second), start=None))
    reading = request(known, look_back=look_back)
    made = endpoint_window(reading)
    assert made.end == {"n": "60"}
    assert len(window_warnings(made, "shop.orders", reading, is_empty=True)) == warned
