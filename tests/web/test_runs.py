"""Load runs: list, live page, starting, cancelling, running again."""

import json
import re
from datetime import UTC, datetime

import pytest
from django.test import Client
from django.utils import timezone

from architecture.models import ExecutionOperation
from loader.models import DatasetRun, LoadRun, Worker
from metadata.models import TargetDataset
from tests.loader_factories import (
    DatasetRunFactory,
    ExecutionFactory,
    ExecutionOperationFactory,
    LoadRunFactory,
    RunEventFactory,
    WorkerFactory,
    loaded,
)

pytestmark = pytest.mark.django_db


def text_of(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def words(html: str) -> str:
    """The page as it reads, without tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


# --- the list ----------------------------------------------------------------------------------


def test_the_list_without_runs_says_what_to_do(reader: Client):
    assert "No load run yet" in text_of(reader, "/load-runs/")


def test_newest_runs_come_first(reader: Client):
    for name in ("run-a", "run-b", "run-c"):
        LoadRunFactory(run_id=name)
    text = text_of(reader, "/load-runs/")
    assert text.index("run-c") < text.index("run-b") < text.index("run-a")


def test_the_list_sums_what_a_run_did(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    assert "28,130 2,135 12,788 2,880 12 s" in words(text_of(reader, "/load-runs/"))


def test_the_list_asks_again_only_while_something_is_under_way(reader: Client):
    LoadRunFactory(run_id="done")
    assert "every 2s" not in text_of(reader, "/load-runs/")
    LoadRunFactory(run_id="busy", status="running")
    assert "every 2s" in text_of(reader, "/load-runs/")


def test_the_list_is_filtered(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    LoadRunFactory(run_id="bad", status="failed")
    assert "bad" not in words(text_of(reader, "/load-runs/?q=goo"))
    assert "good" not in words(text_of(reader, "/load-runs/?status=failed"))
    assert "/load-runs/bad/" not in text_of(reader, "/load-runs/?dataset=rawcore.rc_air_airport")
    assert "No load run fits" in text_of(reader, "/load-runs/?requested_by=nobody")


def test_an_unknown_state_is_said_beside_the_filter(reader: Client):
    assert "Select a valid choice" in text_of(reader, "/load-runs/?status=odd")


def test_pages_keep_the_filter(reader: Client):
    LoadRunFactory.create_batch(30)
    text = text_of(reader, "/load-runs/?status=succeeded")
    assert "1–25 of 30 load runs" in text
    assert 'href="?status=succeeded&amp;page=2"' in text
    assert "26–30 of 30 load runs" in text_of(reader, "/load-runs/?status=succeeded&page=2")
    assert "26–30 of 30 load runs" in text_of(reader, "/load-runs/?page=nonsense99999999&page=99")


# --- starting ------------------------------------------------------------------------------------


def test_who_may_not_start_is_told_why(reader: Client):
    text = text_of(reader, "/load-runs/")
    assert "your account needs the permission" in text
    assert "<fieldset disabled>" in text


def test_starting_everything(operator: Client, airport: TargetDataset):
    answer = operator.post("/start-load/", {"scope": "all"})
    run = LoadRun.objects.get()
    assert answer.url == f"/load-runs/{run.run_id}/"
    assert (run.status, run.scope["kind"], run.requested_by.username) == ("queued", "all", "eve")


def test_starting_one_dataset_as_of_a_time(operator: Client, airport: TargetDataset):
    given = {
        "scope": "dataset",
        "dataset": " rawcore.rc_air_airport ",
        "target_only": "on",
        "load_timestamp": "2026-01-02T03:04",
        "allow_empty": "on",
        "run_id": "mine",
    }
    assert operator.post("/start-load/", given).url == "/load-runs/mine/"
    run = LoadRun.objects.get()
    assert run.scope == {"kind": "dataset", "name": "rawcore.rc_air_airport", "target_only": True}
    assert run.load_timestamp == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert run.allow_empty


@pytest.mark.parametrize(
    ("given", "near", "message"),
    [
        ({"scope": "odd"}, "What to load", "Select a valid choice"),
        ({"scope": "schema"}, "id_start_schema", "Choose a schema"),
        ({"scope": "dataset", "dataset": ""}, "id_start_dataset", "Choose a dataset"),
        ({"scope": "dataset", "dataset": "rawcore.rc_air_airprt"}, "id_start_dataset", "Did you mean"),
        ({"scope": "schema", "schema": "nowhere"}, "id_start_schema", "There is no schema nowhere"),
        ({"scope": "all", "run_id": "a b"}, "id_run_id", "cannot be a run id"),
        ({"scope": "all", "load_timestamp": "yesterday"}, "id_load_timestamp", "not a date and time"),
    ],
)
def test_what_cannot_be_started_is_said_at_its_field(
    operator: Client, airport: TargetDataset, given: dict, near: str, message: str
):
    answer = operator.post("/start-load/", {"allow_empty": "on", **given})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert not LoadRun.objects.exists()
    field = text[text.index(near) :]
    assert message in field[: field.index("</div>") if "What" not in near else None]


def test_nothing_typed_is_lost(operator: Client, airport: TargetDataset):
    given = {"scope": "dataset", "dataset": "<odd>", "target_only": "on", "run_id": "mine", "load_timestamp": "x"}
    text = operator.post("/start-load/", given).content.decode()
    assert 'name="scope" value="dataset" checked' in text
    assert 'name="dataset" value="&lt;odd&gt;"' in text
    assert 'name="target_only" checked' in text
    assert 'name="run_id" value="mine"' in text
    assert 'name="load_timestamp" value="x"' in text
    assert '<details class="panel" id="start" open>' in text


def test_a_run_id_of_another_run_is_refused(operator: Client, airport: TargetDataset):
    LoadRunFactory(run_id="mine", scope={"kind": "schema", "name": "raw", "target_only": False})
    text = operator.post("/start-load/", {"scope": "all", "run_id": "mine"}).content.decode()
    assert "is another one" in text[text.index('id="id_run_id"') :]


def test_a_run_that_is_there_already_is_shown(operator: Client, airport: TargetDataset):
    LoadRunFactory(run_id="mine")
    answer = operator.post("/start-load/", {"scope": "all", "run_id": "mine"}, follow=True)
    assert "This run was there already and is succeeded" in answer.content.decode()


def test_without_metadata_there_is_nothing_to_start(operator: Client):
    answer = operator.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 422
    assert "There is no dataset to load" in answer.content.decode()


def test_a_broker_that_is_away_is_said(
    operator: Client,
    airport: TargetDataset,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("loader.services.runs.wake", lambda task, pk: "connection refused")
    # Only what runs after the commit knows of the broker, and a test never commits.
    monkeypatch.setattr("loader.services.runs.transaction.on_commit", lambda send: send())
    answer = operator.post("/start-load/", {"scope": "all"}, follow=True)
    text = answer.content.decode()
    assert "the broker does not answer: connection refused" in text
    assert "no worker is answering" in text


def test_a_link_opens_the_form_with_its_dataset(operator: Client, airport: TargetDataset):
    text = text_of(operator, "/load-runs/?start=rawcore.rc_air_airport")
    assert 'id="start" open' in text
    assert 'name="dataset" value="rawcore.rc_air_airport"' in text
    assert 'name="scope" value="dataset" checked' in text


def test_the_address_of_the_form_alone_leads_to_the_list(operator: Client):
    assert operator.get("/start-load/").url == "/load-runs/"


# --- one run -------------------------------------------------------------------------------------


def test_a_finished_run_tells_the_whole_story(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/good/")
    assert "hx-trigger" not in text
    assert "28,130 2,135 12,788 2,880 0 13,207 43,860 28,130 6.4 s" in words(text)
    assert "ADD COLUMNS" in words(text)
    assert "comparing" in text
    assert text.index("raw.raw_air_airport") < text.index("rawcore.rc_air_airport")


def test_a_failed_run_says_what_and_where(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/bad/")
    assert "3 values of elevation do not fit float" in text
    assert "landing/air/airport.csv" in text
    assert "row 1,204" in text
    assert "Correct the delivery." in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "skipped because of raw.raw_air_airport" in words(text)


def test_a_run_under_way_is_live(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/busy/")
    assert 'hx-trigger="every 1s"' in text
    assert "queued after raw.raw_air_airport" in words(text)
    assert "lid string" in words(text)
    assert "half of it came twice" in text


def test_the_live_part_comes_only_when_it_changed(reader: Client, warehouse: TargetDataset):
    WorkerFactory()
    seen = re.search(r"seen=(\w+)", text_of(reader, "/load-runs/busy/"))[1]
    assert reader.get(f"/load-runs/busy/live/?seen={seen}").status_code == 204
    RunEventFactory(run=LoadRun.objects.get(run_id="busy"), message="something new")
    answer = reader.get(f"/load-runs/busy/live/?seen={seen}")
    assert answer.status_code == 200
    assert "something new" in answer.content.decode()
    assert "<html" not in answer.content.decode()


def test_the_live_part_of_a_finished_run_stops_asking(reader: Client, warehouse: TargetDataset):
    seen = re.search(r"seen=(\w+)", text_of(reader, "/load-runs/busy/"))[1]
    LoadRun.objects.filter(run_id="busy").update(status="succeeded", finished_at=timezone.now())
    answer = reader.get(f"/load-runs/busy/live/?seen={seen}")
    assert answer.status_code == 200
    assert "hx-trigger" not in answer.content.decode()


def test_a_queued_run_without_worker_says_how_to_get_one(reader: Client):
    LoadRunFactory(run_id="waits", status="queued", started_at=None)
    assert "no worker is answering" in text_of(reader, "/load-runs/waits/")
    WorkerFactory()
    assert "no worker is answering" not in text_of(reader, "/load-runs/waits/")


def test_only_the_last_lines_of_a_long_log_are_shown(reader: Client):
    run = LoadRunFactory(run_id="long")
    RunEventFactory.create_batch(301, run=run, message="a line")
    text = text_of(reader, "/load-runs/long/")
    assert text.count("a line") == 300
    assert "earlier lines are left out" in text


def test_a_dataset_that_is_gone_is_still_named(reader: Client, airport: TargetDataset):
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


def test_the_critical_path_is_marked_and_told(reader: Client, warehouse: TargetDataset):
    run = LoadRun.objects.get(run_id="good")
    raw, airport = (run.datasets.get(dataset__name=name) for name in ("raw_air_airport", "rc_air_airport"))
    DatasetRun.objects.filter(pk=raw.pk).update(seconds=2.0)
    DatasetRun.objects.filter(pk=airport.pk).update(seconds=9.0, depends_on=[str(raw.dataset_key)])
    text = text_of(reader, "/load-runs/good/")
    marked = [node["title"] for node in graph_of(text)["nodes"] if node.get("marked")]
    assert marked == ["raw_air_airport", "rc_air_airport"]
    assert "could not have been shorter than 11 s; it took 12 s" in words(text)
    assert "rawcore.rc_air_airport critical path" in words(text)
    assert "6.4 s slack 4.6 s" in words(text)


def test_while_a_run_goes_on_the_path_is_told_by_the_run_before(reader: Client, warehouse: TargetDataset):
    read = words(text_of(reader, "/load-runs/busy/"))
    assert "Critical path, as far as it can be told" in read
    assert "about 13 s in all" in read


def test_when_a_dataset_was_worked_on_is_drawn(reader: Client, warehouse: TargetDataset):
    text = text_of(reader, "/load-runs/good/")
    assert 'aria-label="From 08:00:00 to 08:00:07"' in text
    assert '<rect class="bar" x="0.00" width="58.33" height="10">' in text


def test_a_run_of_one_dataset_has_no_graph(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="one")
    assert "run-graph" not in text_of(reader, "/load-runs/one/")


@pytest.fixture
def large(airport: TargetDataset, monkeypatch: pytest.MonkeyPatch) -> LoadRun:
    """A run of five datasets, one of which failed, on pages of two."""
    monkeypatch.setattr("loader.views.runlive.PER_PAGE", 2)
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


def shown(text: str) -> list[str]:
    return re.findall(r'class="name" href="/datasets/[^"]+">rawcore\.(d\d)<', text)


def test_many_datasets_come_in_pages(reader: Client, large: LoadRun):
    text = text_of(reader, "/load-runs/large/?page=2")
    assert shown(text) == ["d2", "d3"]
    assert "3–4 of 5 datasets" in text
    assert len(graph_of(text)["nodes"]) == 5


def test_datasets_of_one_state_are_chosen(reader: Client, large: LoadRun):
    assert shown(text_of(reader, "/load-runs/large/?state=failed")) == ["d3"]
    assert shown(text_of(reader, "/load-runs/large/?state=odd")) == ["d0", "d1"]


def test_a_link_to_a_dataset_opens_the_page_that_has_it(reader: Client, large: LoadRun):
    key = next(node["id"] for node in graph_of(text_of(reader, "/load-runs/large/"))["nodes"] if node["title"] == "d4")
    assert shown(text_of(reader, f"/load-runs/large/?dataset={key}")) == ["d4"]


def test_the_live_part_keeps_the_page_that_is_looked_at(reader: Client, large: LoadRun):
    asked = re.search(r'hx-get="([^"]+)"', text_of(reader, "/load-runs/large/?page=2"))[1].replace("&amp;", "&")
    RunEventFactory(run=large)
    assert shown(text_of(reader, asked)) == ["d2", "d3"]


def test_every_change_that_is_shown_is_noticed(reader: Client, warehouse: TargetDataset):
    WorkerFactory()
    seen = re.search(r"seen=(\w+)", text_of(reader, "/load-runs/busy/"))[1]
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
        answer = reader.get(f"/load-runs/busy/live/?seen={seen}")
        assert answer.status_code == 200
        seen = re.search(r"seen=(\w+)", answer.content.decode())[1]
        assert reader.get(f"/load-runs/busy/live/?seen={seen}").status_code == 204


# --- cancelling, running again -----------------------------------------------------------------


def test_cancelling_asks_first(operator: Client):
    LoadRunFactory(run_id="busy", status="running")
    assert "/load-runs/busy/cancel/" in text_of(operator, "/load-runs/busy/")
    assert "Cancel this load run?" in text_of(operator, "/load-runs/busy/cancel/")
    assert LoadRun.objects.get().status == "running"


def test_a_running_run_is_asked_to_stop(operator: Client):
    LoadRunFactory(run_id="busy", status="running")
    assert operator.post("/load-runs/busy/cancel/").url == "/load-runs/busy/"
    assert LoadRun.objects.get().status == "canceling"


def test_a_queued_run_is_canceled_at_once(operator: Client):
    LoadRunFactory(run_id="waits", status="queued")
    answer = operator.post("/load-runs/waits/cancel/", follow=True)
    assert LoadRun.objects.get().status == "canceled"
    assert "The load run is canceled" in answer.content.decode()


def test_a_finished_run_stays_as_it_is(operator: Client):
    LoadRunFactory(run_id="done")
    assert "It has finished already" in text_of(operator, "/load-runs/done/cancel/")
    operator.post("/load-runs/done/cancel/")
    assert LoadRun.objects.get().status == "succeeded"


def test_buttons_that_may_not_be_used_say_why(reader: Client):
    LoadRunFactory(run_id="busy", status="running")
    LoadRunFactory(run_id="bad", status="failed")
    assert 'disabled title="You do not have the permission to cancel' in text_of(reader, "/load-runs/busy/")
    assert 'disabled title="You do not have the permission to start' in text_of(reader, "/load-runs/bad/")


def test_a_failed_run_is_run_again(operator: Client):
    LoadRunFactory(run_id="bad", status="failed")
    assert "Run again" in text_of(operator, "/load-runs/bad/")
    assert operator.post("/load-runs/bad/again/").url == "/load-runs/bad/"
    assert LoadRun.objects.get().status == "queued"


def test_refusals_read_as_sentences(operator: Client, airport: TargetDataset):
    given = {"scope": "dataset", "dataset": "rawcore.rc_air_airprt"}
    text = operator.post("/start-load/", given).content.decode()
    said = re.search(r'id="dataset-error" role="alert">([^<]+)<', text)[1]
    assert said.startswith("There is no dataset rawcore.rc_air_airprt. Did you mean rawcore.rc_air_airport")
    assert said.endswith("?")


@pytest.mark.parametrize("field", ["q", "dataset", "requested_by"])
def test_a_filter_with_a_null_character_finds_nothing_and_breaks_nothing(reader: Client, field: str):
    LoadRunFactory(run_id="good")
    assert reader.get(f"/load-runs/?{field}=a%00b").status_code == 200
