"""Load runs: the list, starting, cancelling, running again."""

import re
from datetime import UTC, datetime

import pytest
from django.test import Client

from loader.models import LoadRun
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of, text_of
from tests.elevata.web.pages import words
from tests.loader.factories import REFUSAL, DatasetRunFactory, LoadRunFactory, loaded

pytestmark = pytest.mark.django_db


# --- the list ----------------------------------------------------------------------------------


def test_empty_run_list_shows_a_message(reader: Client):
    assert "No load runs yet" in text_of(reader, "/load-runs/")


def test_newest_runs_come_first(reader: Client):
    for name in ("run-a", "run-b", "run-c"):
        LoadRunFactory(run_id=name)
    text = text_of(reader, "/load-runs/")
    assert text.index("run-c") < text.index("run-b") < text.index("run-a")


def test_run_list_shows_the_summed_counts_of_a_run(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    assert "28,130 2,135 12,788 2,880 12 s" in words(text_of(reader, "/load-runs/"))


def test_run_list_polls_only_while_a_run_is_active(reader: Client):
    LoadRunFactory(run_id="done")
    assert "every 2s" not in text_of(reader, "/load-runs/")
    LoadRunFactory(run_id="busy", status="running")
    assert "every 2s" in text_of(reader, "/load-runs/")


def test_run_list_is_filtered_by_text_status_dataset_and_user(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    LoadRunFactory(run_id="bad", status="failed")
    assert "bad" not in words(text_of(reader, "/load-runs/?q=goo"))
    assert "good" not in words(text_of(reader, "/load-runs/?status=failed"))
    assert "/load-runs/bad/" not in text_of(reader, "/load-runs/?dataset=rawcore.rc_air_airport")
    assert "No load runs match" in text_of(reader, "/load-runs/?requested_by=nobody")


def test_run_list_refuses_an_unknown_status_filter(reader: Client):
    assert "Select a valid choice" in text_of(reader, "/load-runs/?status=odd")


def test_pages_keep_the_filter(reader: Client):
    LoadRunFactory.create_batch(30)
    text = text_of(reader, "/load-runs/?status=succeeded")
    assert "1–25 of 30 load runs" in text
    assert 'href="?status=succeeded&amp;page=2"' in text
    assert "26–30 of 30 load runs" in text_of(reader, "/load-runs/?status=succeeded&page=2")
    assert "26–30 of 30 load runs" in text_of(reader, "/load-runs/?page=nonsense99999999&page=99")


# --- starting ------------------------------------------------------------------------------------


def test_start_form_is_disabled_with_the_reason_without_permission(reader: Client):
    text = text_of(reader, "/load-runs/")
    assert "Ask for the operator role to start loads." in text
    assert "<fieldset disabled>" in text


def test_start_form_starts_a_load_of_all_datasets(operator: Client, airport: TargetDataset):
    answer = operator.post("/start-load/", {"scope": "all"})
    run = LoadRun.objects.get()
    assert answer.url == f"/load-runs/{run.run_id}/"
    assert (run.status, run.scope["kind"], run.requested_by.username) == ("queued", "all", "eve")


def test_start_form_starts_a_load_of_one_dataset_with_its_options(operator: Client, airport: TargetDataset):
    given = {
        "scope": "dataset",
        "dataset": " rawcore.rc_air_airport ",
        "target_only": "on",
        "load_timestamp": "2026-01-02T03:04",
        "allow_empty": "on",
        "allow_deletes": "on",
        "run_id": "mine",
    }
    assert operator.post("/start-load/", given).url == "/load-runs/mine/"
    run = LoadRun.objects.get()
    assert run.scope == {"kind": "dataset", "name": "rawcore.rc_air_airport", "target_only": True}
    assert run.load_timestamp == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert (run.allow_empty, run.allow_deletes) == (True, True)


@pytest.mark.parametrize(
    ("given", "near", "message"),
    [
        ({"scope": "odd"}, "<legend>Scope</legend>", "Select a valid choice"),
        ({"scope": "schema"}, "id_start_schema", "Choose a schema"),
        ({"scope": "dataset", "dataset": ""}, "id_start_dataset", "Choose a dataset"),
        ({"scope": "dataset", "dataset": "rawcore.rc_air_airprt"}, "id_start_dataset", "Did you mean"),
        ({"scope": "schema", "schema": "nowhere"}, "id_start_schema", "There is no schema nowhere"),
        ({"scope": "all", "run_id": "a b"}, "id_start_run_id", "cannot be a run id"),
        ({"scope": "all", "full": "on", "since": "5"}, "id_start_since", "not both"),
        ({"scope": "all", "since": "5"}, "<legend>Scope</legend>", "source of this load has a watermark"),
        ({"scope": "all", "load_timestamp": "yesterday"}, "id_start_load_timestamp", "not a date and time"),
    ],
)
def test_invalid_start_of_a_load_is_refused_at_its_field(
    operator: Client, airport: TargetDataset, given: dict, near: str, message: str
):
    answer = operator.post("/start-load/", {"allow_empty": "on", **given})
    text = html_of(answer)
    assert answer.status_code == 422
    assert not LoadRun.objects.exists()
    field = text[text.index(near) :]
    assert message in field[: field.index("</div>") if near.startswith("id_") else None]


def test_refused_start_form_keeps_the_input(operator: Client, airport: TargetDataset):
    given = {"scope": "dataset", "dataset": "<odd>", "target_only": "on", "run_id": "mine", "load_timestamp": "x"}
    text = html_of(operator.post("/start-load/", given))
    assert 'name="scope" value="dataset" checked' in text
    assert 'name="dataset" value="&lt;odd&gt;"' in text
    assert re.search(r'name="target_only"[^>]* checked', text)
    assert 'name="run_id" value="mine"' in text
    assert 'name="load_timestamp" value="x"' in text
    assert '<details class="panel" id="start" open>' in text


def test_a_run_id_of_another_run_is_refused(operator: Client, airport: TargetDataset):
    LoadRunFactory(run_id="mine", scope={"kind": "schema", "name": "raw", "target_only": False})
    text = html_of(operator.post("/start-load/", {"scope": "all", "run_id": "mine"}))
    assert "is another one" in text[text.index('id="id_start_run_id"') :]


def test_start_with_the_id_of_an_existing_run_shows_the_run(operator: Client, airport: TargetDataset):
    LoadRunFactory(run_id="mine")
    answer = operator.post("/start-load/", {"scope": "all", "run_id": "mine"}, follow=True)
    assert "The run already exists and is succeeded" in html_of(answer)


def test_start_of_a_load_without_metadata_is_refused(operator: Client):
    answer = operator.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 422
    assert "There is no dataset to load" in html_of(answer)


def test_started_run_shows_that_the_broker_does_not_answer(
    operator: Client,
    airport: TargetDataset,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "connection refused")
    # The wake-up is sent after the commit, and a test never commits.
    monkeypatch.setattr("loader.services.loads.load_runs.transaction.on_commit", lambda send: send())
    answer = operator.post("/start-load/", {"scope": "all"}, follow=True)
    text = html_of(answer)
    assert "the broker does not answer: connection refused" in text
    assert "no worker is running" in text


def test_a_link_opens_the_form_with_its_dataset(operator: Client, airport: TargetDataset):
    text = text_of(operator, "/load-runs/?start=rawcore.rc_air_airport")
    assert 'id="start" open' in text
    assert 'name="dataset" value="rawcore.rc_air_airport"' in text
    assert 'name="scope" value="dataset" checked' in text


def test_get_of_the_start_address_redirects_to_the_open_form(operator: Client):
    assert operator.get("/start-load/").url == "/load-runs/?start=#start"


# --- cancelling, running again -----------------------------------------------------------------


def test_cancel_requires_a_confirmation(operator: Client):
    LoadRunFactory(run_id="busy", status="running")
    assert "/load-runs/busy/cancel/" in text_of(operator, "/load-runs/busy/")
    assert "Cancel this load run?" in text_of(operator, "/load-runs/busy/cancel/")
    assert LoadRun.objects.get().status == "running"


def test_cancel_of_a_running_run_marks_it_as_cancelling(operator: Client):
    LoadRunFactory(run_id="busy", status="running")
    assert operator.post("/load-runs/busy/cancel/").url == "/load-runs/busy/"
    assert LoadRun.objects.get().status == "canceling"


def test_a_queued_run_is_canceled_at_once(operator: Client):
    LoadRunFactory(run_id="waits", status="queued")
    answer = operator.post("/load-runs/waits/cancel/", follow=True)
    assert LoadRun.objects.get().status == "canceled"
    assert "The load run is canceled" in html_of(answer)


def test_cancel_of_a_finished_run_keeps_its_status(operator: Client):
    LoadRunFactory(run_id="done")
    assert "It has finished already" in text_of(operator, "/load-runs/done/cancel/")
    operator.post("/load-runs/done/cancel/")
    assert LoadRun.objects.get().status == "succeeded"


def test_buttons_without_permission_are_disabled_with_the_reason(reader: Client):
    LoadRunFactory(run_id="busy", status="running")
    LoadRunFactory(run_id="bad", status="failed")
    assert 'disabled title="Ask for the operator role to cancel' in text_of(reader, "/load-runs/busy/")
    assert 'disabled title="Ask for the operator role to start' in text_of(reader, "/load-runs/bad/")


def test_a_failed_run_is_run_again(operator: Client):
    LoadRunFactory(run_id="bad", status="failed")
    assert "Run again" in text_of(operator, "/load-runs/bad/")
    assert operator.post("/load-runs/bad/again/").url == "/load-runs/bad/"
    assert LoadRun.objects.get().status == "queued"


@pytest.mark.parametrize(
    ("code", "button", "decision"),
    [
        ("TOO_MANY_DELETES", "Allow deletes and reload", "allow_deletes"),
        ("EMPTY_SNAPSHOT", "Allow empty and reload", "allow_empty"),
        ("WATERMARK_BACKWARDS", "Read whole and reload", "full"),
    ],
)
def test_a_run_that_needs_a_decision_is_run_again_with_it(
    operator: Client, reader: Client, airport: TargetDataset, code: str, button: str, decision: str
):
    run = LoadRunFactory(run_id="bad", status="failed")
    DatasetRunFactory(run=run, dataset=airport, status="failed", error=REFUSAL | {"code": code})
    assert button in words(text_of(operator, "/load-runs/bad/"))
    assert button not in words(text_of(reader, "/load-runs/bad/"))
    assert reader.post("/load-runs/bad/again/", {decision: "on"}).status_code == 403
    assert operator.post("/load-runs/bad/again/", {decision: "on"}).status_code == 302
    run.refresh_from_db()
    assert (run.status, getattr(run, decision)) == ("queued", True)
    assert run.allow_empty + run.allow_deletes + run.full == 1
    assert button not in words(text_of(operator, "/load-runs/bad/"))
    note = "read whole by eve" if decision == "full" else "allowed by eve"
    assert note in words(text_of(operator, "/load-runs/bad/"))


def test_a_table_that_a_load_refused_is_accepted(operator: Client, reader: Client, airport: TargetDataset):
    run = LoadRunFactory(run_id="bad", status="failed")
    DatasetRunFactory(run=run, dataset=airport, status="failed", error=REFUSAL | {"code": "TABLE_BEHIND"})
    page = f"/datasets/{airport.key}/accept/"
    assert page in text_of(operator, "/load-runs/bad/")
    assert page not in text_of(reader, "/load-runs/bad/")
    assert "Missing runs count as reverted" in words(text_of(operator, page))
    assert operator.post(page, {"reason": " "}).status_code == 422
    assert (reader.get(page).status_code, reader.post(page, {"reason": "x"}).status_code) == (403, 403)
    answer = operator.post(page, {"reason": "restored from the backup"})
    made = LoadRun.objects.get(kind="accept")
    assert answer.url == f"/load-runs/{made.run_id}/"
    assert (made.scope["name"], made.reason) == (str(airport), "restored from the backup")


def test_run_with_another_failure_offers_no_decision(operator: Client, airport: TargetDataset):
    DatasetRunFactory(
        run=LoadRunFactory(run_id="bad", status="failed"), dataset=airport, status="failed", error=REFUSAL
    )
    assert "and reload" not in words(text_of(operator, "/load-runs/bad/"))


def test_refusals_read_as_sentences(operator: Client, airport: TargetDataset):
    given = {"scope": "dataset", "dataset": "rawcore.rc_air_airprt"}
    text = html_of(operator.post("/start-load/", given))
    message = re.search(r'id="id_start_dataset_error">\s*<p class="field-error">([^<]+)<', text)[1]
    assert message.startswith("There is no dataset rawcore.rc_air_airprt. Did you mean rawcore.rc_air_airport")
    assert message.endswith("?")


@pytest.mark.parametrize("field", ["q", "dataset", "requested_by"])
def test_run_list_accepts_a_filter_with_a_null_character(reader: Client, field: str):
    LoadRunFactory(run_id="good")
    assert reader.get(f"/load-runs/?{field}=a%00b").status_code == 200
