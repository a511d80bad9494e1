"""The history explorer: questions, waiting, answers."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from architecture.domain.tables import history_table
from loader.models import ReadRequest
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.dataset_states import dataset_state
from tests.elevata.web.html import html_of
from tests.loader.factories import ReadRequestFactory, WorkerFactory, loaded

pytestmark = pytest.mark.django_db
KEY = "a" * 64


@pytest.fixture
def read(airport: TargetDataset, person: User) -> ReadRequest:
    return ReadRequestFactory(dataset=airport, requested_by=person)


def answered_read(airport: TargetDataset, person: User, kind: str, *rows: dict, truncated: bool = False) -> str:
    """Return the address of a read with these rows as its answer."""
    columns = [column.name for column in history_table(dataset_state(airport)).columns]
    plain = {"rc_air_airport_key": KEY, "version_state": "changed", "load_run_id": "good"}
    answer = {
        "table_version": 7,
        "columns": columns,
        "rows": [[({**plain, **row}).get(name) for name in columns] for row in rows],
        "truncated": truncated,
    }
    made = ReadRequestFactory(dataset=airport, requested_by=person, kind=kind, status="succeeded", answer=answer)
    return f"/reads/{made.pk}/"


def ask(client: Client, dataset: TargetDataset, **question: str):
    return client.post(f"/datasets/{dataset.key}/reads/", question, headers={"HX-Request": "true"})


# --- frames ----------------------------------------------------------------------------------


def test_get_of_history_pages_creates_no_read(reader: Client, airport: TargetDataset):
    for part in ("", "as-of/", "as-of/?at=2026-01-01T00:00", f"{KEY}/"):
        assert reader.get(f"/datasets/{airport.key}/history/{part}").status_code == 200
    assert not ReadRequest.objects.exists()


def test_history_page_requests_the_key_search_when_it_opens(reader: Client, airport: TargetDataset):
    text = html_of(reader.get(f'/datasets/{airport.key}/history/?q=ED"D'))
    assert 'hx-trigger="load"' in text
    assert 'name="text" value="ED&quot;D"' in text


def test_history_page_is_available_for_a_history_dataset(reader: Client, airport: TargetDataset):
    assert reader.get(f"/datasets/{airport.history.key}/history/").status_code == 200


def test_dataset_without_history_has_no_history_page(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert reader.get(f"/datasets/{raw.key}/history/").status_code == 404
    assert "/history/" not in html_of(reader.get(f"/datasets/{raw.key}/"))


def test_as_of_offers_the_times_of_loads(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    text = html_of(reader.get(f"/datasets/{airport.key}/history/as-of/"))
    assert "?at=2026-11-21T08:00:00" in text
    assert 'hx-trigger="load"' not in text


def test_offered_load_time_is_rounded_up_to_include_its_versions(reader: Client, airport: TargetDataset):
    loaded(airport, load_timestamp=datetime(2026, 1, 1, 9, 59, 59, 250_000, tzinfo=UTC))
    text = html_of(reader.get(f"/datasets/{airport.key}/history/as-of/"))
    assert "?at=2026-01-01T10:00:00" in text


@pytest.mark.parametrize(("given", "message"), [("", "Choose a date"), ("soon", "not a date and time")])
def test_as_of_page_requires_a_valid_time(reader: Client, airport: TargetDataset, given: str, message: str):
    text = html_of(reader.get(f"/datasets/{airport.key}/history/as-of/?at={given}&find=ED"))
    assert message in text
    assert f'value="{given}"' in text
    assert 'name="find" maxlength="200" value="ED"' in text
    assert 'hx-trigger="load"' not in text


def test_as_of_page_accepts_a_known_at_time(reader: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/history/as-of/?at=2024-01-19T00:00:00&known_at=2026-11-20T12:00:00"
    text = html_of(reader.get(address))
    assert '<input type="hidden" name="known_at" value="2026-11-20T12:00:00">' in text
    assert 'aria-describedby="known-help"' in text
    plain = html_of(reader.get(f"/datasets/{airport.key}/history/as-of/?at=2024-01-19T00:00:00&known_at="))
    assert 'type="hidden" name="known_at"' not in plain
    assert 'hx-trigger="load"' in plain


def test_as_of_page_refuses_an_invalid_known_at_time(reader: Client, airport: TargetDataset):
    text = html_of(reader.get(f"/datasets/{airport.key}/history/as-of/?at=2024-01-19T00:00&known_at=soon"))
    assert 'id="known-error"' in text
    assert 'name="known_at" value="soon"' in text
    assert 'hx-trigger="load"' not in text


@pytest.fixture
def numbered(airport: TargetDataset) -> TargetDataset:
    """Return a history whose versions are dated by a sequence."""
    TargetColumn.objects.filter(dataset=airport, name="elevation").update(data_type="bigint")
    airport.history_policy = {"input": "cdc", "time": "elevation", "op": "op"}
    airport.save(update_fields=["history_policy"])
    return airport


def test_as_of_read_of_a_history_dated_by_numbers_takes_a_number(reader: Client, numbered: TargetDataset):
    text = html_of(reader.get(f"/datasets/{numbered.key}/history/as-of/?at=0"))
    assert 'type="number" step="1" id="id_at" name="at" value="0"' in text
    assert '<input type="hidden" name="at" value="0">' in text
    ask(reader, numbered, kind="as_of", at="0")
    assert ReadRequest.objects.get().arguments == {"at": "0", "limit": 100}


@pytest.mark.parametrize(("given", "message"), [("", "Choose a number"), ("2024-01-19", "a whole number here")])
def test_as_of_page_of_a_history_dated_by_numbers_refuses_dates(
    reader: Client, numbered: TargetDataset, given: str, message: str
):
    text = html_of(reader.get(f"/datasets/{numbered.key}/history/as-of/?at={given}&find=E"))
    assert message in text
    assert 'hx-trigger="load"' not in text


def test_versions_dated_by_numbers_show_the_numbers(reader: Client, numbered: TargetDataset, person: User):
    rows = {"version_started_at": "5", "version_ended_at": "9"}, {"version_started_at": "9"}
    text = html_of(reader.get(answered_read(numbered, person, "versions", *rows)))
    assert "5 – 9" in text
    assert "9 – now" in text
    assert "Time line" not in text


# --- questions ----------------------------------------------------------------------------------


def test_key_search_creates_a_read_and_polls_for_its_answer(reader: Client, airport: TargetDataset, person: User):
    text = html_of(ask(reader, airport, kind="key_search", text="ED"))
    read = ReadRequest.objects.get()
    assert (read.kind, read.dataset, read.requested_by) == ("key_search", airport, person)
    assert read.arguments == {"text": "ED", "limit": 60}
    assert f'hx-get="/reads/{read.pk}/?seen=queued-alone"' in text
    assert 'hx-trigger="every 400ms"' in text


def test_as_of_read_stores_its_time_in_utc(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="as_of", at="2024-01-19T00:00:00")
    assert ReadRequest.objects.get().arguments["at"] == "2024-01-19T00:00:00+00:00"
    assert "known_at" not in ReadRequest.objects.get().arguments


def test_as_of_read_stores_its_known_at_time_in_utc(reader: Client, airport: TargetDataset):
    ask(reader, airport, kind="as_of", at="2024-01-19T00:00:00", known_at="2026-11-20T12:00:00")
    assert ReadRequest.objects.get().arguments["known_at"] == "2026-11-20T12:00:00+00:00"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"kind": "sample", "rows": "7"}, "Select a valid choice"),
        ({"kind": "changes"}, "The question needs a run"),
        ({"kind": "discover"}, "Select a valid choice"),
        ({"kind": "versions"}, "The question needs a key"),
        ({"kind": "versions", "entity_key": "' OR 1=1"}, "not the key of a row"),
        ({"kind": "as_of"}, "The question needs a time"),
        ({"kind": "key_search", "text": "x" * 201}, "at most 200 characters"),
    ],
)
def test_invalid_read_is_refused_with_a_message(reader: Client, airport: TargetDataset, question: dict, message: str):
    assert message in html_of(ask(reader, airport, **question))
    assert not ReadRequest.objects.exists()


def test_versions_read_of_a_view_is_refused(reader: Client, airport: TargetDataset):
    stage = TargetDataset.objects.get(name="stg_air_airport")
    assert "is a view" in html_of(ask(reader, stage, kind="versions", entity_key=KEY))
    assert not ReadRequest.objects.exists()


# --- waiting ---------------------------------------------------------------------------------


def test_waiting_read_reports_a_missing_worker_and_keeps_polling(reader: Client, read: ReadRequest):
    text = html_of(reader.get(f"/reads/{read.pk}/"))
    assert "no worker is running" in text
    assert "every 400ms" in text


def test_poll_of_an_unchanged_read_returns_no_content(reader: Client, read: ReadRequest):
    WorkerFactory()
    state = re.search(r"seen=([\w-]+)", html_of(reader.get(f"/reads/{read.pk}/")))[1]
    assert reader.get(f"/reads/{read.pk}/?seen={state}").status_code == 204
    ReadRequest.objects.update(status="running")
    assert "Reading" in html_of(reader.get(f"/reads/{read.pk}/?seen={state}"))


def test_waiting_read_stops_polling_after_90_seconds(reader: Client, read: ReadRequest):
    ReadRequest.objects.update(requested_at=timezone.now() - timedelta(seconds=91))
    text = html_of(reader.get(f"/reads/{read.pk}/"))
    assert "No result after 90 seconds" in text
    assert "Try again" in text
    assert 'hx-get="/reads/' not in text


def test_answer_is_visible_only_to_its_requester(operator: Client, reader: Client, read: ReadRequest):
    assert operator.get(f"/reads/{read.pk}/").status_code == 404
    assert reader.get(f"/reads/{read.pk}/").status_code == 200


def test_failed_read_shows_its_message_and_hint(reader: Client, read: ReadRequest):
    error = {"code": "READ_TIMEOUT", "message": "It took longer than 60 seconds", "hint": "Ask for less."}
    ReadRequest.objects.update(status="failed", error=error)
    text = html_of(reader.get(f"/reads/{read.pk}/"))
    assert "It took longer than 60 seconds" in text
    assert "Ask for less." in text
    assert 'hx-get="/reads/' not in text


def test_read_of_a_missing_table_reports_that_no_load_has_run(reader: Client, read: ReadRequest):
    error = {"code": "NO_TABLE", "message": "x does not exist yet", "hint": "A load run creates it."}
    ReadRequest.objects.update(status="failed", error=error)
    assert "Nothing loaded yet" in html_of(reader.get(f"/reads/{read.pk}/"))


# --- answers ----------------------------------------------------------------------------------


def test_found_keys_link_to_their_versions(reader: Client, airport: TargetDataset, person: User):
    address = answered_read(airport, person, "key_search", {"icao": "EDDB"}, {"icao": "<b>"})
    text = html_of(reader.get(address))
    assert f'href="/datasets/{airport.key}/history/{KEY}/"' in text
    assert "&lt;b&gt;" in text
    assert "2 keys" in text


def test_key_search_without_a_match_shows_a_message(reader: Client, airport: TargetDataset, person: User):
    assert "No key contains this text" in html_of(reader.get(answered_read(airport, person, "key_search")))


def test_truncated_key_search_asks_for_a_longer_text(reader: Client, airport: TargetDataset, person: User):
    address = answered_read(airport, person, "key_search", {"icao": "EDDB"}, truncated=True)
    assert "type more of the key" in html_of(reader.get(address))


def test_versions_show_their_changed_values(reader: Client, airport: TargetDataset, person: User):
    address = answered_read(
        airport,
        person,
        "versions",
        {
            "icao": "EDDB",
            "name": "Schönefeld",
            "version_started_at": "2020-12-05 00:00:00",
            "version_ended_at": "2021-09-26 00:00:00",
            "closed_by_run_id": "second",
        },
        {"icao": "EDDB", "name": "Berlin", "version_started_at": "2024-01-19 00:00:00", "load_run_id": "third"},
    )
    text = html_of(reader.get(address))
    assert "<del>Schönefeld</del> → <ins>Berlin</ins>" in text
    assert "/load-runs/second/" in text
    assert "/load-runs/third/" in text
    assert "absent for 2 years 115 days" in text
    assert text.index("Version 2") < text.index("Version 1</h3>")
    assert "row_hash" not in text


def test_change_map_shows_the_start_date_of_each_version(reader: Client, airport: TargetDataset, person: User):
    first = {"icao": "EDDB", "name": "Old", "version_started_at": "2020-12-05 00:00:00"}
    second = {"icao": "EDDB", "name": "Berlin", "version_started_at": "2024-01-19 00:00:00"}
    text = html_of(reader.get(answered_read(airport, person, "versions", first, second)))
    heads = re.findall(r"<a href=\"#v(\d)\">v\d</a><br><span[^>]*>([^<]*)<", text)
    assert heads == [("1", "2020-12-05"), ("2", "2024-01-19")]


def test_version_names_a_run_without_a_page_but_does_not_link_it(reader: Client, airport: TargetDataset, person: User):
    row = {"icao": "EDDB", "version_started_at": "2020-12-05 00:00:00", "load_run_id": "<an odd one>"}
    text = html_of(reader.get(answered_read(airport, person, "versions", row)))
    assert "opened by &lt;an odd one&gt;" in text
    assert 'href="/load-runs/&' not in text


def test_answer_is_refused_after_the_dataset_lost_its_history(reader: Client, airport: TargetDataset, person: User):
    address = answered_read(airport, person, "versions")
    TargetDataset.objects.filter(pk=airport.pk).update(historize=False)
    assert "is not historized" in html_of(reader.get(address))


def test_key_without_versions_shows_a_message(reader: Client, airport: TargetDataset, person: User):
    assert "No such key" in html_of(reader.get(answered_read(airport, person, "versions")))


def test_as_of_answer_links_keys_and_reports_truncation(reader: Client, airport: TargetDataset, person: User):
    address = answered_read(airport, person, "as_of", {"icao": "EDDB", "elevation": None}, truncated=True)
    text = html_of(reader.get(address))
    assert f'href="/datasets/{airport.key}/history/{KEY}/"' in text
    assert '<span class="nothing">NULL</span>' in text
    assert "more exist" in text
    assert "row_hash" not in text


def test_as_of_answer_shows_its_known_at_time(reader: Client, airport: TargetDataset, person: User):
    address = answered_read(airport, person, "as_of", {"icao": "EDDB"})
    ReadRequest.objects.update(arguments={"at": "2024-01-19T00:00:00+00:00", "known_at": "2026-11-20T12:00:00+00:00"})
    assert "as known on 2026-11-20T12:00:00 UTC, table version 7" in html_of(reader.get(address))


def test_as_of_answer_without_rows_explains_that_no_version_was_valid(
    reader: Client, airport: TargetDataset, person: User
):
    assert "no version was valid at this time" in html_of(reader.get(answered_read(airport, person, "as_of")))
