"""Marks of readers, windows of runs, and the rows after any sequence of runs, deaths and reverts."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.contract.manifest.sources import ApiSpec, DatabaseSpec, DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.marks import (
    DAY,
    INSTANT,
    LOCAL,
    NUMBER,
    Mark,
    Reading,
    Window,
    advance_mark,
    digest_of,
    finish_window,
    lower_marks,
    marks_in,
    marks_note,
    text_of,
    value_of,
)
from metadata.domain.sources.database_locations import DatabasePlace
from metadata.domain.sources.intake import Intake
from metadata.domain.sources.rest_addresses import parse_api

SOURCE = SourceSpec(
    "erp.orders",
    "sales.orders",
    "table",
    (DeliveredColumn("k", "id", "integer"), DeliveredColumn("n", "n", "integer")),
    database=DatabaseSpec(DatabasePlace("db", 5432, "erp", "reader")),
)
N = {"n": NUMBER}
DIGEST = digest_of(SOURCE, N)
RAW = "raw"


def mark(number: int | None) -> Mark | None:
    return None if number is None else Mark(DIGEST, {"n": str(number)})


def reading(*numbers: int | None, look_back: int | None = None, **by_hand: Any) -> Reading:
    return Reading(Intake(("n",), look_back), tuple(mark(number) for number in numbers), **by_hand)


def window(request: Reading, highest: int | None) -> Window:
    return request.window(SOURCE, N, {"n": None if highest is None else str(highest)})


def refused(request: Reading, highest: int) -> Refusal:
    with pytest.raises(Refusal) as caught:
        window(request, highest)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("7", NUMBER, "7"),
        ("1E+3", NUMBER, "1000"),
        ("0.10", NUMBER, "0.10"),
        ("2024-02-29", DAY, "2024-02-29"),
        ("2024-01-01 12:00:00.123456", LOCAL, "2024-01-01 12:00:00.123456"),
        ("2024-01-01T12:00:00.1234567", LOCAL, "2024-01-01 12:00:00.123456"),
        ("2024-01-01 12:00:00.123456+00", INSTANT, "2024-01-01 12:00:00.123456+00:00"),
        ("2024-01-01T12:00:00+02:00", INSTANT, "2024-01-01 10:00:00+00:00"),
        (" 2024-01-01 12:00:00Z", INSTANT, "2024-01-01 12:00:00+00:00"),
    ],
)
def test_values_have_one_text_that_keeps_microseconds(text: str, kind: str, expected: str):
    assert text_of(value_of(text, kind)) == expected
    assert text_of(value_of(expected, kind)) == expected


def test_zoned_time_is_converted_to_the_zone_of_local_times():
    assert text_of(value_of("2024-07-01T10:00:00Z", LOCAL, "Europe/Berlin")) == "2024-07-01 12:00:00"
    assert text_of(value_of("2024-07-01T10:00:00Z", LOCAL, "+05:30")) == "2024-07-01 15:30:00"


@pytest.mark.parametrize(
    ("text", "kind"), [("NaN", NUMBER), ("Infinity", NUMBER), ("infinity", INSTANT), ("0044-03-15 BC", DAY), ("", DAY)]
)
def test_highest_value_that_cannot_be_ordered_is_refused(text: str, kind: str):
    with pytest.raises(Refusal) as caught:
        reading().window(SOURCE, {"n": kind}, {"n": text})
    assert (caught.value.code, caught.value.column) == ("VALUE_DOES_NOT_FIT", "n")


@pytest.mark.parametrize(
    ("marks", "start"), [((), None), ((None,), None), ((5,), "5"), ((5, 3), "3"), ((5, None), None)]
)
def test_run_reads_from_the_lowest_mark_or_everything_if_a_reader_has_no_mark(marks: tuple, start: str | None):
    made = window(reading(*marks), 9)
    assert (made.start, made.end) == (None if start is None else {"n": start}, {"n": "9"})


def test_mark_of_another_source_is_ignored():
    other = Reading(Intake(("n",)), (Mark("other", {"n": "5"}),))
    assert window(other, 3).start is None


@pytest.mark.parametrize(
    ("intake", "kind", "known", "bound"),
    [
        (Intake(("n",), 3), NUMBER, "5", {"n": "2"}),
        (Intake(("n",), "2 days"), DAY, "2024-03-01", {"n": "2024-02-28"}),
        (Intake(("n",), "90 minutes"), LOCAL, "2024-01-01 01:00:00.5", {"n": "2023-12-31 23:30:00.500000"}),
        (Intake(("n",), "1 second"), INSTANT, "2024-01-01 00:00:00Z", {"n": "2023-12-31 23:59:59+00:00"}),
        (Intake(("n",), "2 days"), DAY, "0001-01-01", {}),
    ],
)
def test_the_look_back_is_read_again(intake: Intake, kind: str, known: str, bound: dict):
    kinds = {"n": kind}
    known_mark = Mark(digest_of(SOURCE, kinds), {"n": text_of(value_of(known, kind))})
    request = Reading(intake, (known_mark,))
    made = request.window(SOURCE, kinds, {"n": known})
    assert (made.start, request.bounds(made)) == (known_mark.values, bound)


def test_a_source_that_went_backwards_is_refused_unless_within_the_look_back():
    refusal = refused(reading(5, 7), 6)
    assert (refusal.code, refusal.column, refusal.samples) == ("WATERMARK_BACKWARDS", "n", ("highest: 6", "mark: 7"))
    assert window(reading(5, look_back=2), 3).end == {"n": "3"}
    assert refused(reading(5, look_back=2), 2).code == "WATERMARK_BACKWARDS"


def test_an_emptied_source_has_not_gone_backwards():
    assert window(reading(5), None).end == {}


def test_full_or_since_run_ignores_the_mark_and_the_look_back():
    assert window(reading(5, full=True), 3).start is None
    request = reading(5, look_back=2, since="4")
    assert request.bounds(window(request, 3)) == {"n": "4"}
    refusal = refused(reading(5, since="yesterday"), 3)
    assert (refusal.code, refusal.column) == ("BAD_SINCE", "n")


@pytest.mark.parametrize(
    ("known", "start", "end", "by_hand", "own", "after"),
    [
        (5, 5, 9, False, True, 9),
        (5, 3, 9, False, False, 9),
        (5, 5, 4, False, True, 5),
        (5, 6, 9, False, True, 5),
        (None, 5, 9, False, True, None),
        (None, None, 9, False, True, 9),
        (9, None, 5, False, True, 9),
        (9, None, 5, True, False, 5),
        (5, 7, 8, True, True, 8),
        (5, 7, 8, True, False, 5),
    ],
)
def test_a_mark_moves_only_with_a_window_that_reaches_back_to_it(known, start, end, by_hand, own, after):
    made = Window(DIGEST, None if start is None else {"n": str(start)}, {"n": str(end)}, by_hand)
    assert advance_mark(mark(known), made, own=own) == mark(after)


def test_several_columns_have_their_own_marks():
    kinds = {"a": NUMBER, "b": DAY}
    digest = digest_of(SOURCE, kinds)
    first, second = Mark(digest, {"a": "10"}), Mark(digest, {"a": "9", "b": "2024-01-01"})
    made = Reading(Intake(("a", "b")), (first, second)).window(SOURCE, kinds, {"a": "11", "b": "2024-01-02"})
    assert (made.start, made.end) == ({"a": "9"}, {"a": "11", "b": "2024-01-02"})
    assert advance_mark(second, made, own=True) == Mark(digest, made.end)


ENDPOINT = SourceSpec(
    "shop.orders",
    "days/2024-01-01",
    "rest",
    SOURCE.columns,
    {"parameters": "day=2024-01-01", "path": "items"},
    api=ApiSpec(parse_api("https://api.example.org/v1")),
    undated=("days/{run_date}", "day={run_date}"),
)


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({"location": "days/2024-01-02", "options": {"parameters": "day=2024-01-02", "path": "items"}}, True),
        ({"undated": ("days/{run_date}", "until={run_date}")}, False),
        ({"undated": ("orders/{run_date}", "day={run_date}")}, False),
        ({"options": ENDPOINT.options | {"path": "deleted"}}, False),
        ({"api": ApiSpec(parse_api("https://api.example.org/v2"))}, False),
    ],
)
def test_endpoint_mark_survives_another_date_but_not_another_request(changes: dict, is_same: bool):
    assert (digest_of(replace(ENDPOINT, **changes), N) == digest_of(ENDPOINT, N)) == is_same


def test_marks_and_windows_survive_a_round_trip_through_their_notes():
    marks = {RAW: Mark(DIGEST, {"n": "5"})}
    assert marks_in(marks_note(marks)) == marks
    assert (marks_note({}), marks_in(None), Window.of_note({})) == ({}, {}, None)
    made = Window(DIGEST, None, {"n": "5"}, True)
    assert Window.of_note(made.as_note()) == made


def test_lower_marks_returns_the_lower_mark_and_none_where_either_is_missing():
    five, seven = {RAW: mark(5)}, {RAW: mark(7)}
    assert lower_marks(five, seven) == lower_marks(seven, five) == five
    assert lower_marks(five, {}) == lower_marks({}, five) == {}
    assert lower_marks(five, {RAW: Mark("other", {"n": "3"})}) == {}


# Any sequence of changes, runs, deaths and reverts.


@dataclass
class Reader:
    """Table of a delta, with the rows and notes of each version."""

    rows: dict[int, int] = field(default_factory=dict)
    mark: Mark | None = None
    versions: list[tuple[dict[int, int], Mark | None]] = field(default_factory=list)

    def take(self, rows: dict[int, int], made: Window, *, own: bool) -> None:
        self.versions.append((dict(self.rows), self.mark))
        self.rows |= rows
        self.mark = advance_mark(self.mark, made, own=own)

    def revert(self) -> None:
        if self.versions:
            self.rows, self.mark = self.versions.pop()


@dataclass
class World:
    """Source, raw table and two readers; a row is a key with the number of its newest change."""

    look_back: int | None = None
    source: dict[int, int] = field(default_factory=dict)
    readers: tuple[Reader, Reader] = field(default_factory=lambda: (Reader(), Reader()))
    raw: tuple[dict[int, int], Window] | None = None
    clock: int = 0

    def change(self, key: int) -> None:
        self.clock += 1
        self.source[key] = self.clock

    def run(self, chosen: list[int], *, dies_after: int, full: bool = False) -> None:
        """Read the source for some readers; the run dies after ``dies_after`` of them."""
        marks = tuple(self.readers[number].mark for number in chosen)
        request = Reading(Intake(("n",), self.look_back), marks, full)
        made = window(request, max(self.source.values(), default=None))
        bounds = request.bounds(made)
        least = 0 if bounds is None else int(bounds.get("n", 0))
        self.raw = {key: n for key, n in self.source.items() if n >= least}, made
        for number in chosen[:dies_after]:
            self.readers[number].take(*self.raw, own=True)

    def take_again(self, number: int) -> None:
        """Load a reader from the rows in raw of any run (``--target-only``)."""
        if self.raw is not None:
            self.readers[number].take(*self.raw, own=False)


@st.composite
def days(draw) -> tuple:
    """Draw the events of one day: changed keys, the run's readers, its death, and a user's action after it."""
    return (
        draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)),
        draw(st.sampled_from([[0], [1], [0, 1]])),
        draw(st.sampled_from([2, 2, 2, 1, 0])),
        draw(st.sampled_from([False, False, False, False, True])),
        draw(st.sampled_from(["take again", "revert", ""])),
        draw(st.integers(0, 1)),
    )


@settings(max_examples=300)
@given(st.lists(days(), min_size=2, max_size=8), st.none() | st.integers(1, 3))
def test_any_sequence_of_runs_deaths_and_reverts_ends_with_the_rows_of_one_full_load(happened, look_back):
    world = World(look_back)
    for keys, chosen, dies_after, full, then, number in happened:
        for key in keys:
            world.change(key)
        world.run(chosen, dies_after=dies_after, full=full)
        if then == "revert":
            world.readers[number].revert()
        elif then == "take again":
            world.take_again(number)
    world.run([0, 1], dies_after=2)
    assert [reader.rows for reader in world.readers] == [world.source, world.source]


@pytest.mark.parametrize(
    ("marked", "read", "end"), [(None, "7", "7"), (5, "7", "7"), (5, None, "5"), (5, "4", "5"), (None, None, None)]
)
def test_the_window_of_a_source_without_highest_values_ends_at_its_rows(marked: int | None, read: str, end: str):
    begun = reading(marked).begin_window(SOURCE, N)
    assert begun.start == (None if marked is None else {"n": str(marked)})
    assert finish_window(begun, "erp.orders", N, {"n": read}).end == ({} if end is None else {"n": end})
