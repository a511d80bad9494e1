"""Charts of loads: on the page of a dataset, of the list of runs, and on the home page."""

import re
from datetime import timedelta

import pytest
from django.test import Client

from architecture.services.environments import current_environment
from loader.models import DatasetRun, LoadRun
from loader.selectors.charts import freshness_chart, largest_comparable_group, run_charts, warehouse_disk_chart
from loader.selectors.dataset_charts import dataset_charts
from loader.selectors.runs import newest_runs, with_totals
from metadata.models import TargetDataset
from metadata.services.quality import create_check
from tests.elevata.web.html import text_of
from tests.loader.factories import COUNTS, STARTED, DatasetRunFactory, LoadRunFactory
from tests.loader.views.datasets.test_quality import add_result

pytestmark = pytest.mark.django_db


def load(dataset: TargetDataset, day: int, *, rows: int = 1000, seconds: float = 10, **run) -> DatasetRun:
    """Return a dataset's part of a run of its own, on a day."""
    at = STARTED + timedelta(days=day)
    made = LoadRunFactory(
        run_id=f"day-{day}", load_timestamp=at, started_at=at, finished_at=at + timedelta(seconds=seconds), **run
    )
    LoadRun.objects.filter(pk=made.pk).update(requested_at=at)
    return DatasetRunFactory(run=made, dataset=dataset, counts=COUNTS | {"rows": rows}, seconds=seconds, finished_at=at)


@pytest.fixture
def week(airport: TargetDataset) -> TargetDataset:
    """Return a dataset with seven equal loads and an eighth of far fewer rows."""
    for day in range(7):
        load(airport, day)
    load(airport, 7, rows=3)
    return airport


def of(charts, key: str):
    return next(chart for chart in charts if chart.key == key)


def test_a_load_outside_the_band_of_the_loads_before_is_an_anomaly(week):
    rows = of(dataset_charts(week), "rows")
    assert [rows.points[place].label for place in rows.anomalies] == ["day-7"]
    assert rows.bands[7] == (950.0, 1050.0)


def test_freshness_is_the_time_between_loads(week):
    freshness = of(dataset_charts(week), "freshness")
    assert freshness.series[0].values[:8] == (None, *[24.0] * 7)
    assert freshness.points[-1].label == "now"


def test_reverted_loads_are_not_drawn(week):
    load(week, 8, rows=7)
    DatasetRun.objects.filter(run__run_id="day-8").update(reverted_by=LoadRun.objects.get(run_id="day-7"))
    assert "day-8" not in [point.label for point in of(dataset_charts(week), "rows").points]


def test_a_history_has_the_charts_of_its_base(week):
    assert [chart.title for chart in dataset_charts(week.history)] == [chart.title for chart in dataset_charts(week)]


def test_a_check_of_values_is_drawn_with_its_limits(week):
    check = create_check(dataset=week, name="enough", kind="row_count", arguments={"minimum": "10"})
    run = LoadRun.objects.get(run_id="day-7")
    add_result(check, run=run.run_id, failed=None, total=None, value=3.0, low=10.0)
    drawn = of(dataset_charts(week), f"check-{check.key}")
    assert (drawn.series[0].values, drawn.bands, drawn.anomalies) == ((3.0,), ((10.0, None),), frozenset({0}))


def measure(dataset: TargetDataset, day: int, size: int) -> None:
    """Store the measures of a vacuum."""
    row = load(dataset, day, kind="vacuum")
    DatasetRun.objects.filter(pk=row.pk).update(
        counts={"current_bytes": size, "former_bytes": 50, "log_bytes": 7, "files_removed": 1}
    )


def test_disk_use_is_drawn_from_vacuums(week):
    measure(week, 9, 100)
    disk = of(dataset_charts(week), "disk")
    assert [series.values for series in disk.series] == [(100,), (50,), (7,)]


def test_warehouse_disk_chart_adds_the_newest_measure_of_each_dataset_by_day(reader: Client, airport: TargetDataset):
    stage = TargetDataset.objects.get(name="raw_air_airport")
    for dataset, day, size in ((airport, 1, 100), (stage, 2, 40), (airport, 3, 70)):
        measure(dataset, day, size)
    disk = warehouse_disk_chart(current_environment())
    assert [series.values for series in disk.series] == [(100, 140, 110), (50, 100, 100), (7, 14, 14)]
    assert "2 datasets measured by vacuums" in text_of(reader, "/home/charts/")


def test_runs_are_compared_with_runs_of_the_same_scope(week):
    scope = {"kind": "dataset", "name": str(week), "target_only": False}
    load(week, 8, rows=3, scope=scope)
    rows = of(run_charts(with_totals(newest_runs())), "rows")
    assert [rows.points[place].label for place in rows.anomalies] == ["day-7"]


def test_datasets_are_counted_by_the_day_of_their_last_load(week):
    assert [row.texts for row in freshness_chart(current_environment()).rows] == [("1",)]


def test_charts_are_absent_before_the_first_load(airport: TargetDataset):
    assert dataset_charts(airport) == []
    assert freshness_chart(current_environment()) is None
    assert warehouse_disk_chart(current_environment()) is None


def test_each_chart_has_a_summary_a_table_and_links_to_its_runs(reader: Client, week):
    html = text_of(reader, f"/datasets/{week.key}/charts/")
    assert "Rows: newest 3, lowest 3, highest 1,000. 1 anomaly: day-7." in html
    assert 'href="/load-runs/day-7/"' in html
    assert " style=" not in html


def test_the_charts_of_runs_follow_the_filters(reader: Client, week):
    assert "8 points" in text_of(reader, "/load-runs-over-time/")
    assert "1 point," in text_of(reader, "/load-runs-over-time/?q=day-3")


def test_the_home_page_has_the_charts(reader: Client, week):
    html = text_of(reader, "/home/charts/")
    for title in ("Rows", "Changes", "Duration", "Freshness"):
        assert re.search(f'-head">\\s*{title}', html)


def test_runs_of_one_chart_have_the_kind_and_scope_that_most_have():
    scopes = ({"kind": "all"}, {"kind": "dataset", "name": "raw.a"}, {"kind": "all"})
    runs = [LoadRun(kind="load", scope=scope) for scope in scopes]
    assert largest_comparable_group(runs) == [runs[0], runs[2]]
    assert largest_comparable_group([]) == []
