"""Page of one load run, updated while it is active."""

import html
import json
import re

import pytest
from django.test import Client
from django.utils import timezone

from architecture.models import ExecutionOperation
from elevata.jobs.models import Worker
from loader.models import DatasetRun, LoadRun
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of, text_of
from tests.elevata.web.pages import words
from tests.loader.factories import (
    DatasetRunFactory,
    ExecutionFactory,
    ExecutionOperationFactory,
    LoadRunFactory,
    RunEventFactory,
    WorkerFactory,
    loaded,
)

pytestmark = pytest.mark.django_db


def test_page_of_a_finished_run_shows_its_counts_and_does_not_poll(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/good/")
    assert "every 1s" not in text
    assert "28,130 2,135 12,788 2,880 0 13,207 43,860 28,130 6.4 s" in words(text)
    assert "ADD COLUMNS" in words(text)
    assert "comparing" in text
    assert text.index("raw.raw_air_airport") < text.index("rawcore.rc_air_airport")


def test_page_of_a_failed_run_shows_error_file_row_and_hint(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/bad/")
    assert "3 values of elevation do not fit float" in text
    assert "landing/air/airport.csv" in text
    assert "row 1,204" in text
    assert "Correct the delivery." in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "skipped because of raw.raw_air_airport" in words(text)


def test_page_of_an_active_run_polls_for_changes(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/busy/")
    assert 'hx-trigger="every 1s"' in text
    assert "queued after raw.raw_air_airport" in words(text)
    assert "lid string" in words(text)
    assert "half of it came twice" in text


def test_live_part_is_sent_only_after_a_change(reader: Client, warehouse: TargetDataset):
    WorkerFactory()
    state = re.search(r"seen=(\w+)", text_of(reader, "/load-runs/busy/"))[1]
    assert reader.get(f"/load-runs/busy/live/?seen={state}").status_code == 204
    RunEventFactory(run=LoadRun.objects.get(run_id="busy"), message="something new")
    answer = reader.get(f"/load-runs/busy/live/?seen={state}")
    assert answer.status_code == 200
    assert "something new" in html_of(answer)
    assert "<html" not in html_of(answer)


def test_live_part_of_a_finished_run_stops_polling(reader: Client, warehouse: TargetDataset):
    state = re.search(r"seen=(\w+)", text_of(reader, "/load-runs/busy/"))[1]
    LoadRun.objects.filter(run_id="busy").update(status="succeeded", finished_at=timezone.now())
    answer = reader.get(f"/load-runs/busy/live/?seen={state}")
    assert answer.status_code == 200
    assert "every 1s" not in html_of(answer)


def test_page_of_a_queued_run_reports_a_missing_worker(reader: Client):
    LoadRunFactory(run_id="waits", status="queued", started_at=None)
    assert "no worker is running" in text_of(reader, "/load-runs/waits/")
    WorkerFactory()
    assert "no worker is running" not in text_of(reader, "/load-runs/waits/")


def test_only_the_last_lines_of_a_long_log_are_shown(reader: Client):
    run = LoadRunFactory(run_id="long")
    RunEventFactory.create_batch(301, run=run, message="a line")
    text = text_of(reader, "/load-runs/long/")
    assert text.count("a line") == 300
    assert "earlier lines are hidden" in text


def test_run_page_names_a_deleted_dataset(reader: Client, airport: TargetDataset):
    run = LoadRunFactory(run_id="old")
    DatasetRunFactory(run=run, dataset=airport)
    DatasetRun.objects.update(dataset=None)
    assert "rawcore.rc_air_airport" in text_of(reader, "/load-runs/old/")


def graph_of(text: str) -> dict:
    return json.loads(re.search(r'id="run-graph" type="application/json">(.+?)</script>', text)[1])


def test_datasets_are_drawn_as_a_graph_in_their_states(reader: Client, warehouse: TargetDataset):
    graph = graph_of(text_of(reader, "/load-runs/busy/"))
    raw = TargetDataset.objects.get(name="raw_air_airport")
    nodes = {node["title"]: node for node in graph["nodes"]}
    assert {name: node["state"] for name, node in nodes.items()} == {
        "raw_air_airport": "succeeded",
        "rc_air_airport": "queued",
    }
    assert nodes["raw_air_airport"]["sub"] == "3 rows, 6.4 s"
    assert nodes["raw_air_airport"]["url"] == f"#dataset-{raw.key}"
    assert [(edge["start"], edge["end"]) for edge in graph["edges"]] == [(str(raw.key), str(warehouse.key))]


def test_run_page_marks_the_critical_path_and_shows_slack(reader: Client, warehouse: TargetDataset):
    run = LoadRun.objects.get(run_id="good")
    raw, airport = (run.datasets.get(dataset__name=name) for name in ("raw_air_airport", "rc_air_airport"))
    DatasetRun.objects.filter(pk=raw.pk).update(seconds=2.0)
    DatasetRun.objects.filter(pk=airport.pk).update(seconds=9.0, depends_on=[str(raw.dataset_key)])
    text = text_of(reader, "/load-runs/good/")
    marked = [node["title"] for node in graph_of(text)["nodes"] if node.get("marked")]
    assert marked == ["raw_air_airport", "rc_air_airport"]
    assert "Shortest possible run: 11 s; it took 12 s." in words(text)
    assert "rawcore.rc_air_airport critical path" in words(text)
    assert "6.4 s slack 4.6 s" in words(text)


def test_critical_path_of_an_active_run_is_estimated_from_the_previous_run(reader: Client, warehouse: TargetDataset):
    read = words(text_of(reader, "/load-runs/busy/"))
    assert "Critical path, estimated" in read
    assert "about 13 s in total" in read


def test_run_page_draws_the_working_time_of_each_dataset(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/good/")
    assert 'aria-label="From 08:00:00 to 08:00:07"' in text
    assert '<rect class="bar" x="0.00" width="58.33" height="10">' in text


def test_a_run_of_one_dataset_has_no_graph(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="one")
    assert "run-graph" not in text_of(reader, "/load-runs/one/")


@pytest.fixture
def large_run(airport: TargetDataset, monkeypatch: pytest.MonkeyPatch) -> LoadRun:
    """Return a run of five datasets, one of which failed, on pages of two."""
    monkeypatch.setattr("loader.views.runs.run_status.PER_PAGE", 2)
    run = LoadRunFactory(run_id="large", status="running")
    for number in range(5):
        DatasetRunFactory(
            run=run,
            dataset=airport,
            dataset_key=f"{number:032x}",
            qualified_name=f"rawcore.d{number}",
            ordinal=number,
            status="failed" if number == 3 else "succeeded",
        )
    return run


def shown_datasets(text: str) -> list[str]:
    return re.findall(r'class="name" href="/datasets/[^"]+">rawcore\.(d\d)<', text)


def test_datasets_of_a_large_run_are_paged(reader: Client, large_run: LoadRun):
    text = text_of(reader, "/load-runs/large/?page=2")
    assert shown_datasets(text) == ["d2", "d3"]
    assert "3–4 of 5 datasets" in text
    assert len(graph_of(text)["nodes"]) == 5


def test_datasets_of_a_run_are_filtered_by_state(reader: Client, large_run: LoadRun):
    assert shown_datasets(text_of(reader, "/load-runs/large/?state=failed")) == ["d3"]
    assert shown_datasets(text_of(reader, "/load-runs/large/?state=odd")) == ["d0", "d1"]


def test_a_link_to_a_dataset_opens_the_page_that_has_it(reader: Client, large_run: LoadRun):
    key = next(node["id"] for node in graph_of(text_of(reader, "/load-runs/large/"))["nodes"] if node["title"] == "d4")
    assert shown_datasets(text_of(reader, f"/load-runs/large/?dataset={key}")) == ["d4"]


def test_live_part_keeps_the_current_page(reader: Client, large_run: LoadRun):
    page = html.unescape(text_of(reader, "/load-runs/large/?page=2"))
    address = re.search(r'hx-get="(/load-runs/[^"]+)"', page)[1]
    RunEventFactory(run=large_run)
    assert shown_datasets(text_of(reader, address)) == ["d2", "d3"]


def test_live_part_is_sent_after_each_kind_of_change(reader: Client, warehouse: TargetDataset):
    WorkerFactory()
    state = re.search(r"seen=(\w+)", text_of(reader, "/load-runs/busy/"))[1]
    run = LoadRun.objects.get(run_id="busy")
    row = run.datasets.get(status="queued")
    for change in (
        lambda: LoadRun.objects.filter(pk=run.pk).update(phase="changing tables"),
        lambda: DatasetRun.objects.filter(pk=row.pk).update(status="running"),
        lambda: DatasetRun.objects.filter(pk=row.pk).update(phase="comparing"),
        lambda: ExecutionOperationFactory(execution=ExecutionFactory(reason="load run busy"), status="planned"),
        lambda: ExecutionOperation.objects.filter(status="planned").update(status="succeeded"),
        lambda: RunEventFactory(run=run),
        lambda: Worker.objects.all().delete(),
    ):
        change()
        answer = reader.get(f"/load-runs/busy/live/?seen={state}")
        assert answer.status_code == 200
        state = re.search(r"seen=(\w+)", html_of(answer))[1]
        assert reader.get(f"/load-runs/busy/live/?seen={state}").status_code == 204


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"from": {"elevation": "7"}, "to": {"elevation": "9"}}, "read from elevation 7, up to elevation 9"),
        ({"from": None, "to": {"elevation": "9"}}, "read whole, up to elevation 9"),
        ({"from": None, "to": {}}, "read whole, no rows"),
    ],
)
def test_run_shows_its_read_window(reader: Client, warehouse: TargetDataset, window: dict, expected: str):
    DatasetRun.objects.filter(run__run_id="good", kind="raw").update(window=window)
    LoadRun.objects.filter(run_id="good").update(since="7")
    text = words(text_of(reader, "/load-runs/good/"))
    assert expected in text
    assert "Sources with a watermark read since 7" in text


def test_a_history_batch_shows_how_its_files_are_read(reader: Client, warehouse: TargetDataset):
    reading = {"names": {"key": "id"}, "null_string": "none", "rows": {"at": "2026-01-01", "values": {"v": None}}}
    details = {"asked": {"files": {"upsert": ["/in/u.csv"]}, "format": "csv", "reading": reading}}
    LoadRun.objects.filter(run_id="good").update(kind="history_batch", details=details)
    text = words(text_of(reader, "/load-runs/good/"))
    assert "Format csv Upsert files /in/u.csv Names key = id At 2026-01-01 Values v = NULL" in text
