"""Cron lines: meaning, due times, and errors in invalid lines."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.core.errors import MetadataError
from loader.schedules.cron import SHORTHANDS, read

SATURDAY = datetime(2026, 11, 21, 8, tzinfo=UTC)


def times(cron: str, zone: str = "UTC", after: datetime = SATURDAY, count: int = 3) -> list[str]:
    return [f"{time:%a %Y-%m-%d %H:%M}" for time in read(cron, zone).first(count, after=after)]


def refused(cron: str, zone: str = "UTC") -> MetadataError:
    with pytest.raises(MetadataError) as error:
        read(cron, zone)
    return error.value


# --- due times -----------------------------------------------------------------------------------


def test_due_times_are_computed_in_the_time_zone_and_returned_in_utc():
    assert read("30 6 * * 1-5", "Europe/Berlin").next_after(SATURDAY) == datetime(2026, 11, 23, 5, 30, tzinfo=UTC)
    assert times("30 6 * * 1-5", "Europe/Berlin") == [
        "Mon 2026-11-23 06:30",
        "Tue 2026-11-24 06:30",
        "Wed 2026-11-25 06:30",
    ]


def test_next_time_is_strictly_after_the_given_instant():
    assert read("0 8 * * *", "UTC").next_after(SATURDAY) == SATURDAY + timedelta(days=1)
    assert read("0 8 * * *", "UTC").next_after(SATURDAY - timedelta(microseconds=1)) == SATURDAY


def test_letter_l_means_the_last_day_of_the_month():
    assert times("0 22 L * *", count=2) == ["Mon 2026-11-30 22:00", "Thu 2026-12-31 22:00"]


def test_cron_line_ignores_spaces_and_case():
    assert read("  0   6 *  * mon ", "UTC").words == read("0 6 * * MON", "UTC").words


def test_cron_line_is_described_in_words():
    assert read("30 6 * * 1-5", "UTC").words == "At 06:30 on Monday through Friday"


# --- clocks that change ---------------------------------------------------------------------------


def test_time_inside_the_daylight_saving_gap_moves_to_the_end_of_the_gap():
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert times("30 2 * * *", "Europe/Berlin", before, 2) == ["Sun 2026-03-29 03:00", "Mon 2026-03-30 02:30"]


def test_time_that_occurs_twice_when_clocks_go_back_is_due_once():
    before = datetime(2026, 10, 24, 12, tzinfo=UTC)
    moments = read("30 2 * * *", "Europe/Berlin").first(2, after=before)
    assert [time.astimezone(UTC) for time in moments] == [
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        datetime(2026, 10, 26, 1, 30, tzinfo=UTC),
    ]


def test_repeated_hour_does_not_make_a_past_time_due_again():
    """Check the second 02:10 of a night: the first 02:30 is past, although its clock time is later."""
    between = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert read("30 2 * * *", "Europe/Berlin").next_after(between) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_frequent_times_are_due_in_both_repeated_hours():
    before = datetime(2026, 10, 24, 23, 40, tzinfo=UTC)
    moments = read("*/30 * * * *", "Europe/Berlin").first(5, after=before)
    assert {later - earlier for earlier, later in pairwise(time.astimezone(UTC) for time in moments)} == {
        timedelta(minutes=30)
    }


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
LINES = ("30 2 * * *", "*/20 * * * *", "0 */3 * * *", "15 1-3 * * SUN", "0 0 1 * *", "59 23 L * *")


@given(
    st.sampled_from(LINES),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
)
def test_due_times_are_in_the_future_and_increasing(line, zone, instant):
    """Check that no due time is in the past, since it would start a run again and again."""
    moments = [instant, *(time.astimezone(UTC) for time in read(line, zone).first(4, after=instant))]
    assert all(earlier < later for earlier, later in pairwise(moments))


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "cause"),
    [
        ("61 * * * *", 'the minute cannot be "61": it is 0 to 59'),
        ("0 25 * * *", 'the hour cannot be "25": it is 0 to 23'),
        ("0 0 0 * *", 'the day of the month cannot be "0": it is 1 to 31'),
        ("0 0 * 13 *", 'the month cannot be "13": it is 1 to 12, or JAN to DEC'),
        ("0 0 * * 8", 'the day of the week cannot be "8"'),
        ("*/0 * * * *", 'the minute cannot be "*/0"'),
        ("0 6-2 * * *", 'the hour cannot be "6-2"'),
        ("0 0 30 2 *", "there is no day 30 in month 2"),
        ("* * */20 * 1L", "no such time in fifty years"),
        ("0 6 * *", "and here are 4"),
        ("0 0 6 * * *", "and here are 6; seconds and years are not told"),
        ("tomorrow", "and here is 1"),
        ("", "cron has five fields"),
        ("0 6 ? * *", "there is no ? here; write *"),
        ("² * * * *", 'the minute cannot be "²"'),
    ],
)
def test_invalid_cron_line_is_refused_with_the_cause_and_an_example(cron: str, cause: str):
    problem = refused(cron)
    assert (problem.code, problem.field) == ("bad_cron", "cron")
    assert cause in problem.message
    assert "for example 30 6 * * 1-5 (06:30 from Monday to Friday)" in problem.message


@pytest.mark.parametrize(("short", "line"), SHORTHANDS.items())
def test_shorthand_is_refused_with_the_equivalent_cron_line(short: str, line: str):
    assert f"{short} is written {line} here" in refused(short).message
    assert read(line, "UTC").first(1, after=SATURDAY)


@pytest.mark.parametrize(
    ("zone", "suggestion"),
    [
        ("berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("", "write it like Europe/Berlin or UTC"),
        ("Mars", "write it like Europe/Berlin or UTC"),
        ("../etc/passwd", "write it like Europe/Berlin or UTC"),
    ],
)
def test_unknown_time_zone_is_refused_with_a_suggestion(zone: str, suggestion: str):
    problem = refused("0 6 * * *", zone)
    assert (problem.code, problem.field) == ("bad_time_zone", "time_zone")
    assert suggestion in problem.message
