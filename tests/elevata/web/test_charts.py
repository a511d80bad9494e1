"""Charts: table and summary with the same numbers, and the data of the script."""

from datetime import UTC, datetime, timedelta

import pytest

from elevata.web.charts import Chart, Point, Series, has_values

START = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def chart(*values: float | None, **options) -> Chart:
    points = tuple(Point(START + timedelta(days=day), f"run-{day}") for day in range(len(values)))
    return Chart("rows", "Rows", points, (Series("Rows", values),), **options)


def test_the_table_has_the_newest_point_first():
    rows = chart(1000, None, 12.5).rows
    assert [(row.point.label, row.texts) for row in rows] == [
        ("run-2", ("12.50",)),
        ("run-1", ("",)),
        ("run-0", ("1,000",)),
    ]


def test_chart_summary_has_period_values_and_anomalies():
    assert chart(10, 30, 20, anomalies=frozenset({1})).summary == (
        "3 points, 2026-11-21 08:00 to 2026-11-23 08:00 UTC. Rows: newest 20, lowest 10, highest 30. 1 anomaly: run-1."
    )


def test_a_band_is_a_column_of_the_table():
    assert [row.band for row in chart(1, 2, bands=(None, (0.0, 5.0))).rows] == ["0–5", ""]


def test_chart_data_have_a_band_only_if_a_value_has_limits():
    assert "band" not in chart(1, 2, bands=(None, None)).as_json()
    assert chart(1, 2, bands=(None, (0.0, 5.0))).as_json()["band"] == {"low": [None, 0.0], "high": [None, 5.0]}


def test_chart_table_shows_bytes_with_their_unit():
    assert chart(2048, unit="bytes").rows[0].texts == ("2.0 KB",)


def test_a_series_of_another_length_is_refused():
    with pytest.raises(ValueError, match="one value for each of 1 points"):
        Chart("rows", "Rows", (Point(START),), (Series("Rows", (1, 2)),))


def test_charts_without_a_number_are_left_out():
    assert has_values([chart(None, None)]) == []
