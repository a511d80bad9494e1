"""Versions of the history explorer: changes, gaps, the time line. No database."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architecture.domain.tables import TableSpec, history_table
from elevata.web.templatetags.elevata import duration, number, span
from loader.domain.queries.query_results import found_rows
from loader.domain.queries.time_line import NARROWEST, _widths, time_line
from loader.domain.versions import change_map, instant, versions
from metadata.domain.state import ColumnState, DatasetState

NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def table() -> TableSpec:
    columns = (
        ColumnState("c1", "id", "string", role="business_key"),
        ColumnState("c2", "name", "string"),
        ColumnState("c3", "size", "integer"),
    )
    key = "6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4"
    return history_table(DatasetState(key, "rawcore", "rawcore", "rc_t", columns, historize=True, history_key=key))


def answer(table: TableSpec, *rows: dict, extra: tuple[str, ...] = ()) -> dict:
    columns = [*(column.name for column in table.columns), *extra]
    return {"columns": columns, "rows": [[row.get(name) for name in columns] for row in rows]}


def row(start: str, end: str | None = None, **values: object) -> dict:
    return {"id": "a", "version_started_at": start, "version_ended_at": end, "version_state": "changed", **values}


def test_first_version_has_no_changes(table: TableSpec):
    (only,) = versions(answer(table, row("2024-01-01 00:00:00", name="x")), table)
    assert (only.began, only.changes, only.gap, only.is_open) == ("new", (), None, True)
    assert [field.name for field in only.fields] == ["id", "name", "size"]
    assert [field.is_key for field in only.fields] == [True, False, False]


def test_changes_are_found_field_by_field(table: TableSpec):
    _, second = versions(
        answer(
            table,
            row("2024-01-01 00:00:00", "2024-02-01 00:00:00", name="x", size="1"),
            row("2024-02-01 00:00:00", name=None, size="1", version_state="new"),
        ),
        table,
    )
    assert second.began == "changed"
    assert [(field.name, field.before, field.value) for field in second.changes] == [("name", "x", None)]
    assert [field.name for field in second.kept] == ["id", "size"]


def test_change_map_lists_each_changed_column_with_its_versions(table: TableSpec):
    history = versions(
        answer(
            table,
            row("2024-01-01 00:00:00", "2024-02-01 00:00:00", name="x", size="1"),
            row("2024-02-01 00:00:00", "2024-03-01 00:00:00", name="y", size="1"),
            row("2024-03-01 00:00:00", name="z", size="2"),
        ),
        table,
    )
    assert change_map(history) == [("name", [False, True, True]), ("size", [False, False, True])]


def test_version_after_a_gap_is_a_reappearance(table: TableSpec):
    first, second = versions(
        answer(
            table,
            row("2024-01-01 00:00:00", "2024-02-01 00:00:00", version_state="deleted"),
            row("2024-03-01 00:00:00.5"),
        ),
        table,
    )
    assert first.state == "deleted"
    assert (second.began, second.gap) == ("reappeared", timedelta(days=29, seconds=0.5))
    assert second.changes == ()


def test_columns_that_only_the_answer_contains_are_shown(table: TableSpec):
    (only,) = versions(answer(table, row("2024-01-01 00:00:00", old="kept"), extra=("old",)), table)
    assert ("old", "kept") in [(field.name, field.value) for field in only.fields]


def test_version_with_a_high_end_date_is_open(table: TableSpec):
    end = "9999-12-31 23:59:59.999"
    (by_partition,) = versions(answer(table, row("2024-01-01 00:00:00", "2300-01-01", version_segment="open")), table)
    (by_date,) = versions(answer(table, row("2024-01-01 00:00:00", end)), table)
    assert (by_partition.is_open, by_partition.ended) == (True, None)
    assert (by_date.is_open, by_date.ended) == (True, None)


def test_an_inclusive_end_a_millisecond_before_is_no_gap(table: TableSpec):
    rows = row("2024-01-01 00:00:00", "2024-01-31 23:59:59.999"), row("2024-02-01 00:00:00")
    _, second = versions(answer(table, *rows), table)
    assert (second.began, second.gap) == ("changed", None)


def test_versions_dated_by_numbers_have_no_times(table: TableSpec):
    history = versions(answer(table, row("5", "9"), row("9", "12", name="x"), row("20")), table)
    assert [version.interval for version in history] == [("5", "9"), ("9", "12"), ("20", None)]
    assert [version.began for version in history] == ["new", "changed", "reappeared"]
    assert [version.is_open for version in history] == [False, False, True]
    assert time_line(history, NOW).spans == ()


def test_answer_without_rows_has_no_versions_and_no_time_line(table: TableSpec):
    assert versions(answer(table), table) == []
    assert time_line([], NOW).spans == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-19 00:00:00", datetime(2024, 1, 19, tzinfo=UTC)),
        ("2024-01-19 00:00:00.123456", datetime(2024, 1, 19, 0, 0, 0, 123456, tzinfo=UTC)),
        ("2024-01-19 00:00:00.5", datetime(2024, 1, 19, 0, 0, 0, 500000, tzinfo=UTC)),
        ("2024-01-19T02:00:00+02:00", datetime(2024, 1, 19, tzinfo=UTC)),
        (None, None),
        ("", None),
    ],
)
def test_instant_parses_timestamps_as_utc(text: str | None, expected: datetime | None):
    assert instant(text) == expected


def test_the_time_line_is_to_scale(table: TableSpec):
    history = versions(
        answer(
            table,
            row("2020-01-01 00:00:00", "2021-01-01 00:00:00", version_state="deleted"),
            row("2023-01-01 00:00:00", "2024-01-01 00:00:00"),
            row("2024-01-01 00:00:00"),
        ),
        table,
    )
    line = time_line(history, datetime(2025, 1, 1, tzinfo=UTC))
    assert [span.kind for span in line.spans] == ["deleted", "gap", "closed", "open"]
    widths = [span.width for span in line.spans]
    assert widths[1] == pytest.approx(2 * widths[2], rel=0.01)
    assert line.ticks[0].label == "2020-01-01"
    assert line.ticks[-1].label == "now"


def test_short_version_has_a_minimum_width_on_the_time_line(table: TableSpec):
    history = versions(
        answer(
            table,
            row("2020-01-01 00:00:00", "2020-01-01 00:00:01"),
            row("2020-01-01 00:00:01", "2020-01-01 00:00:01"),
            row("2020-01-01 00:00:01"),
        ),
        table,
    )
    widths = [span.width for span in time_line(history, NOW).spans]
    assert widths[0] == widths[1] == NARROWEST
    assert sum(widths) == pytest.approx(100)


def test_future_version_has_no_negative_width(table: TableSpec):
    (only,) = time_line(versions(answer(table, row("2030-01-01 00:00:00")), table), NOW).spans
    assert (only.x, only.width) == (0, 100)


@given(st.lists(st.floats(0, 1e10), max_size=60))
def test_widths_always_fill_the_line(lengths: list[float]):
    widths = _widths(lengths)
    assert len(widths) == len(lengths)
    if lengths:
        assert sum(widths) == pytest.approx(100, abs=0.1)
        assert min(widths) >= min(NARROWEST, 100 / len(lengths)) - 0.01


def test_found_rows_contain_values_and_the_version_start(table: TableSpec):
    table_rows = found_rows(answer(table, row("2024-01-01 00:00:00", rc_t_key="k", name="x")), table)
    assert table_rows.columns == ("id", "name", "size", "version_started_at")
    assert table_rows.rows[0].entity_key == "k"
    assert dict(table_rows.rows[0].values)["name"] == "x"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")],
)
def test_duration_is_formatted_by_its_length(seconds: float | None, text: str):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(days=400), "1 year 35 days"),
        (timedelta(days=1, hours=2, minutes=3), "1 day 2 h"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(0), "no time"),
    ],
)
def test_span_is_formatted_in_its_largest_units(length: timedelta, text: str):
    assert span(length) == text


def test_number_is_formatted_with_thousands_separators():
    assert (number(28130), number(None), number(0), number("")) == ("28,130", "", "0", "")
