"""Event streams of running work: events, resumption, end, and limits."""

import json
import logging
import os
import runpy
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.signals import request_finished
from django.db import close_old_connections
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.models import ServiceAccount
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import ensure_user
from elevata.api import progress
from elevata.api.progress import LINES_AT_ONCE, Patience, Places, Work, progress_events
from elevata.core.errors import ProductError
from tests.loader.factories import ExecutionFactory, LoadRunFactory, RunEventFactory

STREAM = {"Accept": "text/event-stream"}


class Slow:
    """Simulated work that advances with every wait; the clock advances by a fixed amount."""

    def __init__(self, *states: str, lines: int = 0, each: float = 1.0) -> None:
        self.states, self.total, self.each, self.time = list(states), lines, each, 0.0

    def wait(self, _seconds: float) -> None:
        self.time += self.each
        if len(self.states) > 1:
            self.states.pop(0)

    def work(self) -> Work:
        return Work(
            lambda: ({"status": self.states[0]}, self.states[0] == "done"),
            lambda after: [{"id": number} for number in range(after + 1, self.total + 1)][:LINES_AT_ONCE],
        )

    def patience(self, **seconds: float) -> Patience:
        return Patience(**{"whole": 100.0, "silence": 50.0, **seconds}, now=lambda: self.time, wait=self.wait)


def events(text: list[str]) -> list[tuple[str, Any]]:
    """Return name and id (of a log line) or data of each event, and the text of comments."""
    entries = []
    for block in text:
        fields = dict(line.split(": ", 1) for line in block.strip().splitlines() if not line.startswith(":"))
        if "event" in fields:
            entries.append((fields["event"], int(fields["id"]) if "id" in fields else json.loads(fields["data"])))
        elif block.startswith(":"):
            entries.append(("comment", block.strip()))
    return entries


def test_stream_sends_log_lines_and_states_until_the_end():
    slow = Slow("queued", "running", "done", lines=2)
    assert events(list(progress_events(slow.work(), 0, slow.patience()))) == [
        ("log", 1),
        ("log", 2),
        ("status", {"status": "queued"}),
        ("status", {"status": "running"}),
        ("status", {"status": "done"}),
        ("end", {"status": "done"}),
    ]


def test_stream_resumes_after_the_last_received_line():
    slow = Slow("done", lines=3)
    assert [name for name, data in events(list(progress_events(slow.work(), 2, slow.patience()))) if name == "log"] == [
        "log"
    ]


def test_stream_sends_a_long_log_completely_before_the_end():
    slow = Slow("done", lines=LINES_AT_ONCE * 2 + 1)
    entries = events(list(progress_events(slow.work(), 0, slow.patience())))
    assert [number for name, number in entries if name == "log"] == list(range(1, LINES_AT_ONCE * 2 + 2))
    assert entries[-1][0] == "end"


def test_silent_stream_sends_keepalive_comments():
    slow = Slow("running")
    names = [name for name, _ in events(list(progress_events(slow.work(), 0, slow.patience(whole=30, silence=10))))]
    assert names == ["status", "comment", "comment", "comment"]


def test_stream_ends_without_an_end_event_when_its_time_is_over():
    slow = Slow("running")
    assert events(list(progress_events(slow.work(), 0, slow.patience(whole=3)))) == [("status", {"status": "running"})]


def test_slow_reader_does_not_extend_the_time_of_a_stream():
    slow = Slow("running", lines=LINES_AT_ONCE * 3)
    text = progress_events(slow.work(), 0, slow.patience(whole=50))
    heard = []
    for block in text:
        heard.append(block)
        slow.time += 10
    assert [number for name, number in events(heard) if name == "log"] == [1, 2, 3, 4]


def test_stream_slots_are_limited_and_reusable():
    places = Places(most=1, seconds=60)
    place = places.take()
    with pytest.raises(ProductError) as caught:
        places.take()
    assert caught.value.code == "TOO_MANY_STREAMS"
    places.give_back(place)
    assert places.take()


def test_stream_slots_of_one_user_are_limited():
    places = Places(most=3, seconds=60, each=2)
    places.take("ada"), places.take("ada")
    with pytest.raises(ProductError) as caught:
        places.take("ada")
    assert (caught.value.code, str(caught.value.message).partition(";")[0]) == (
        "TOO_MANY_STREAMS",
        "you have too many open streams",
    )
    assert places.take("eve")
    with pytest.raises(ProductError, match="3 event streams are already open"):
        places.take("joan")


def test_released_stream_slot_of_a_user_can_be_taken_again():
    places = Places(most=2, seconds=60, each=1)
    places.give_back(places.take("ada"))
    assert places.take("ada")


def test_unreleased_stream_slot_is_free_when_its_time_is_over():
    places = Places(most=1, seconds=0)
    places.take()
    assert places.take()


# --- routes --------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_run_events_stream_from_a_line_to_the_end(reader: Client):
    run = LoadRunFactory(run_id="r1")
    first, second = RunEventFactory.create_batch(2, run=run)
    answer = reader.get("/api/v1/load-runs/r1/events/", headers={**STREAM, "Last-Event-ID": str(first.pk)})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert answer.headers["Cache-Control"] == "private, no-store"
    blocks = answer.getvalue().decode().split("\n\n")
    assert [name for name, _ in events(blocks)] == ["log", "status", "end"]
    assert events(blocks)[0] == ("log", second.pk)
    assert events(blocks)[-1][1]["run_id"] == "r1"


@pytest.mark.django_db
def test_execution_events_stream_until_the_end(reader: Client):
    execution = ExecutionFactory()
    answer = reader.get(f"/api/v1/executions/{execution.pk}/events/", headers=STREAM)
    assert [name for name, _ in events(answer.getvalue().decode().split("\n\n"))] == ["status", "end"]


@pytest.mark.django_db
def test_run_events_are_paged_without_the_event_stream_header(reader: Client):
    line = RunEventFactory(run=LoadRunFactory(run_id="r1"))
    assert reader.get("/api/v1/load-runs/r1/events/").json()["results"][0]["id"] == line.pk


@pytest.mark.django_db
@pytest.mark.parametrize("number", ["x", "-1", "9" * 20])
def test_invalid_last_event_id_is_refused(reader: Client, number: str):
    LoadRunFactory(run_id="r1")
    answer = reader.get("/api/v1/load-runs/r1/events/", headers={**STREAM, "Last-Event-ID": number})
    assert answer.status_code == 400


@pytest.mark.django_db
def test_stream_above_the_limit_returns_429_with_retry_after(reader: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "PLACES", Places(most=1, seconds=60))
    LoadRunFactory(run_id="r1")
    open_one = reader.get("/api/v1/load-runs/r1/events/", headers=STREAM)
    refused = reader.get("/api/v1/load-runs/r1/events/", headers=STREAM)
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (
        429,
        "TOO_MANY_STREAMS",
        "2",
    )
    # The end of a request would close the connection of the test.
    request_finished.disconnect(close_old_connections)
    open_one.close()
    request_finished.connect(close_old_connections)
    assert reader.get("/api/v1/load-runs/r1/events/", headers=STREAM).status_code == 200


@pytest.fixture
def two_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLACES", Places(most=2, seconds=60, each=1))
    LoadRunFactory(run_id="r1")


def follow(client: Client, **more: Any) -> int:
    return client.get("/api/v1/load-runs/r1/events/", headers=STREAM | more.pop("headers", {}), **more).status_code


@pytest.mark.django_db
def test_user_with_an_open_stream_leaves_the_other_slots_to_others(two_slots: None, reader: Client, operator: Client):
    assert [follow(reader), follow(reader), follow(operator)] == [200, 429, 200]


@pytest.mark.django_db
def test_service_account_streams_in_the_slot_of_its_owner(two_slots: None, person: User, reader: Client):
    account = ensure_user(name="nightly", roles=["viewer"])
    ServiceAccount.objects.create(user=account, owner=person)
    with acting_as(person):
        _token, text = create_token(user=account, name="follows")
    program = {"Authorization": f"Token {text}"}
    assert [follow(Client(), headers=program), follow(reader)] == [200, 429]


@pytest.mark.django_db
def test_stream_sets_a_send_timeout_on_its_socket(two_slots: None, reader: Client):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        follow(reader, **{"gunicorn.socket": ours})
        assert ours.gettimeout() == Patience().hear


@pytest.mark.parametrize(
    ("wanted", "threads", "left"), [("9", 4, "2"), ("", 2, "1"), ("", 1, "0"), ("", 16, ""), ("3", 16, "3")]
)
def test_streams_are_limited_to_half_of_the_threads(monkeypatch, wanted: str, threads: int, left: str):
    monkeypatch.setenv("ELEVATA_API_STREAMS", wanted)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")
    server = SimpleNamespace(cfg=SimpleNamespace(threads=threads), log=logging.getLogger("gunicorn.error"))
    runpy.run_path(str(settings.BASE_DIR / "gunicorn.conf.py"))["on_starting"](server)
    assert os.environ["ELEVATA_API_STREAMS"] == left
