"""Error pages, problem+json below /api/, and a control database that is away."""

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from django.test import Client

from elevata import problems

pytestmark = pytest.mark.django_db


def away(*args, **kwargs):
    raise OperationalError("could not connect to server: postgres://user:secret@db")


def test_not_found(reader: Client):
    answer = reader.get("/nowhere/")
    assert answer.status_code == 404
    assert "There is no page at this address" in answer.content.decode()
    assert answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "address",
    [
        "/datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/",
        "/datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/sql/",
        "/datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/lineage/",
        "/datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/history/",
        "/sources/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/",
        "/load-runs/nowhere/",
        "/load-runs/a%00b/",
        "/api/v1/load-runs/a%00b/",
        "/api/v1/systems/a%00b/",
        "/api/v1/schemas/a%00b/",
        "/load-runs/nowhere/live/",
        "/reads/77/",
    ],
)
def test_what_is_not_there_is_not_found(reader: Client, address: str):
    assert reader.get(address).status_code == 404


def test_without_permission_there_is_a_page_that_says_so(reader: Client):
    answer = reader.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 403
    assert "Your account may not do this" in answer.content.decode()


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_view_without_database_answers_503(reader: Client, monkeypatch: pytest.MonkeyPatch, error: type):
    def gone(*args, **kwargs):
        raise error("could not connect: postgres://user:secret@db")

    monkeypatch.setattr("loader.views.runs.load_runs", gone)
    answer = reader.get("/load-runs/")
    text = answer.content.decode()
    assert answer.status_code == 503
    assert "The control database does not answer" in text
    assert answer.headers["X-Request-ID"] in text
    assert answer.headers["Retry-After"] == "5"
    assert "secret" not in text


def test_a_session_without_database_answers_503(reader: Client, monkeypatch: pytest.MonkeyPatch):
    """The user is looked up before any view runs."""
    monkeypatch.setattr(SessionStore, "load", away)
    reader.raise_request_exception = False
    answer = reader.get("/load-runs/")
    assert answer.status_code == 503
    assert "The control database does not answer" in answer.content.decode()


def test_health_needs_no_database(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SessionStore, "load", away)
    assert client.get("/healthz").content == b"ok\n"


def test_an_accident_shows_no_traceback(reader: Client, monkeypatch: pytest.MonkeyPatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the inside of it")

    monkeypatch.setattr("loader.views.runs.load_runs", broken)
    reader.raise_request_exception = False
    answer = reader.get("/load-runs/")
    assert answer.status_code == 500
    assert "Something went wrong" in answer.content.decode()
    assert "the inside of it" not in answer.content.decode()
    assert answer.headers["X-Request-ID"] in answer.content.decode()


@pytest.mark.parametrize(
    ("raised", "status", "code"), [(RuntimeError, 500, "server_error"), (OperationalError, 503, "database_down")]
)
def test_api_errors_are_problems(reader: Client, monkeypatch: pytest.MonkeyPatch, raised: type, status: int, code: str):
    def broken(*args, **kwargs):
        raise raised("the inside of it")

    monkeypatch.setattr("loader.api.views.load_runs", broken)
    reader.raise_request_exception = False
    answer = reader.get("/api/v1/load-runs/")
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == problems.CONTENT_TYPE
    assert answer.json()["code"] == code
    assert "the inside of it" not in answer.content.decode()


def test_an_unknown_api_address_is_a_problem(reader: Client):
    answer = reader.get("/api/v1/nowhere/")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == problems.CONTENT_TYPE
    assert answer.json()["request_id"] == answer.headers["X-Request-ID"]


def test_an_answer_to_a_request_that_met_no_middleware():
    request = HttpRequest()
    request.path = "/api/v1/"
    answer = problems.answer(request, status=400, title="Bad request", detail="", code="bad_request")
    assert b'"request_id": ""' in answer.content
