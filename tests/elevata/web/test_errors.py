"""Error pages, problem+json of the API, and an unreachable control database."""

import re

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.web import problems
from loader.schedules.services import create_schedule, delete_schedule
from metadata.models import TargetDataset
from metadata.services.deletion import delete_column, delete_dataset
from metadata.services.lifecycle import retire_column, retire_dataset
from tests.architecture.world import World, person
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words

pytestmark = pytest.mark.django_db


def fail(*args, **kwargs):
    raise OperationalError("could not connect to server: postgres://user:secret@db")


def test_unknown_page_returns_404_with_an_explanation(reader: Client):
    answer = reader.get("/nowhere/")
    assert answer.status_code == 404
    assert "No page exists at this address" in html_of(answer)
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
def test_unknown_object_returns_404(reader: Client, address: str):
    assert reader.get(address).status_code == 404


def delete(dataset: TargetDataset, *columns: str) -> None:
    """Retire and delete the dataset, or these columns of it, as Mia."""
    with acting_as(person("mia", Role.EDITOR)):
        if not columns:
            retired = retire_dataset(dataset=dataset, expected_version=dataset.version)
            delete_dataset(dataset=retired, expected_version=retired.version, reason="nobody reads it")
        for name in columns:
            column = dataset.columns.get(name=name)
            retired = retire_column(column=column, expected_version=column.version)
            delete_column(column=retired, expected_version=retired.version)


def test_a_deleted_dataset_is_named_with_who_deleted_it_and_why(world: World, viewer: Client):
    dataset = TargetDataset.objects.get(name="rc_crm_customer")
    pages = [f"/datasets/{dataset.key}/", f"/datasets/{dataset.key}/lineage/"]
    delete(dataset)
    for page in pages:
        text = read(viewer, page, 404)
        assert "rawcore.rc_crm_customer was deleted" in words(text)
        assert "deleted by mia on 20" in words(text)
        assert "“nobody reads it”" in text
    way_on = re.search(r'href="(/changes/\?q=[^"]+)"', text)[1]
    assert "deleted" in words(read(viewer, way_on))


def test_a_deleted_column_leads_to_its_dataset(world: World, editor: Client):
    dataset = TargetDataset.objects.get(name="rc_crm_customer")
    column = dataset.columns.get(name="balance")
    delete(dataset, "balance")
    text = read(editor, f"/columns/{column.key}/edit/", 404)
    assert "rawcore.rc_crm_customer.balance was deleted" in words(text)
    assert f'href="/datasets/{dataset.key}/"' in text


def test_page_of_a_column_deleted_with_its_dataset_shows_who_deleted_it(world: World, editor: Client):
    dataset = TargetDataset.objects.get(name="rc_crm_customer")
    column = dataset.columns.get(name="balance")
    delete(dataset)
    text = words(read(editor, f"/columns/{column.key}/edit/", 404))
    assert "rc_crm_customer.balance" in text
    assert "by mia" in text


def test_a_deleted_schedule_is_named(operator: Client, airport: TargetDataset):
    schedule = create_schedule(name="nightly", cron="0 6 * * *")
    page = f"/schedules/{schedule.key}/"
    delete_schedule(schedule=schedule, expected_version=schedule.version)
    assert "nightly in dev was deleted" in words(read(operator, page, 404))


def test_page_of_a_deleted_dataset_requires_sign_in(world: World, client: Client):
    dataset = TargetDataset.objects.get(name="rc_crm_customer")
    delete(dataset)
    assert client.get(f"/datasets/{dataset.key}/").status_code == 302


def test_get_of_a_form_only_address_returns_405_with_an_explanation(reader: Client):
    answer = reader.get("/sign-out/")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]
    assert "accepts forms only" in html_of(answer)


def test_refused_page_names_the_required_role_and_the_contact(reader: Client, settings):
    settings.CONTACT = "data-team@example.org"
    answer = reader.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 403
    assert "Ask data-team@example.org for the permission." in words(html_of(answer))
    assert "Your account does not have the permission" in html_of(answer)
    assert "Starting loads needs the operator role." in html_of(answer)
    assert "start_load" not in html_of(answer)


def test_refused_page_names_administrators_where_no_contact_is_set(reader: Client, settings):
    settings.CONTACT = ""
    person("root", Role.ADMIN)
    person("olga", Role.OPERATOR)
    answer = reader.post("/start-load/", {"scope": "all"})
    assert "Ask an administrator of this installation (root) for the permission." in words(html_of(answer))


@pytest.mark.parametrize("address", ["/nowhere/", "/users/"])
def test_refusal_pages_keep_the_navigation(reader: Client, address: str):
    text = html_of(reader.get(address))
    assert 'aria-label="Main"' in text
    assert "Your input was not saved" in text


def test_unknown_page_has_no_navigation_for_visitors(client: Client):
    answer = client.get("/nowhere/")
    assert answer.status_code == 404
    assert 'aria-label="Main"' not in html_of(answer)


def test_refused_password_sign_in_does_not_mention_an_account(client: Client, settings):
    settings.PASSWORD_SIGN_IN = False
    answer = client.post("/sign-in/", {"username": "ada", "password": "analytical engine"})
    assert answer.status_code == 403
    assert "sign in by single sign-on" in html_of(answer)
    assert "Your account" not in html_of(answer)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_view_without_database_answers_503(reader: Client, monkeypatch: pytest.MonkeyPatch, error: type):
    def lose_database(*args, **kwargs):
        raise error("could not connect: postgres://user:secret@db")

    monkeypatch.setattr("loader.views.runs.load_runs.load_runs", lose_database)
    answer = reader.get("/load-runs/")
    text = html_of(answer)
    assert answer.status_code == 503
    assert "The control database does not respond" in text
    assert answer.headers["X-Request-ID"] in text
    assert answer.headers["Retry-After"] == "5"
    assert "secret" not in text


def test_a_session_without_database_answers_503(reader: Client, monkeypatch: pytest.MonkeyPatch):
    """Check the error, which occurs in the lookup of the user before any view runs."""
    monkeypatch.setattr(SessionStore, "load", fail)
    reader.raise_request_exception = False
    answer = reader.get("/load-runs/")
    assert answer.status_code == 503
    assert "The control database does not respond" in html_of(answer)


def test_health_needs_no_database(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SessionStore, "load", fail)
    assert client.get("/healthz").content == b"ok\n"


def test_unexpected_error_page_shows_the_request_id_and_no_traceback(reader: Client, monkeypatch: pytest.MonkeyPatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the inside of it")

    monkeypatch.setattr("loader.views.runs.load_runs.load_runs", broken)
    reader.raise_request_exception = False
    answer = reader.get("/load-runs/")
    assert answer.status_code == 500
    assert "Something went wrong" in html_of(answer)
    assert "the inside of it" not in html_of(answer)
    assert answer.headers["X-Request-ID"] in html_of(answer)


@pytest.mark.parametrize(
    ("raised", "status", "code"), [(RuntimeError, 500, "server_error"), (OperationalError, 503, "database_down")]
)
def test_api_returns_unexpected_errors_as_problem_json(
    reader: Client, monkeypatch: pytest.MonkeyPatch, raised: type, status: int, code: str
):
    def broken(*args, **kwargs):
        raise raised("the inside of it")

    monkeypatch.setattr("loader.api.load_runs.load_runs", broken)
    reader.raise_request_exception = False
    answer = reader.get("/api/v1/load-runs/")
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == problems.CONTENT_TYPE
    assert answer.json()["code"] == code
    assert "the inside of it" not in html_of(answer)


@pytest.mark.parametrize("message", ["database or disk is full", 'could not extend file "x": No space left on device'])
@pytest.mark.parametrize("address", ["/load-runs/", "/api/v1/load-runs/"])
def test_a_full_disk_is_named(reader: Client, monkeypatch: pytest.MonkeyPatch, message: str, address: str):
    def broken(*args, **kwargs):
        raise OperationalError(message)

    module = "api" if "/api/" in address else "views.runs"
    monkeypatch.setattr(f"loader.{module}.load_runs.load_runs", broken)
    reader.raise_request_exception = False
    answer = reader.get(address)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "No space is left on the disk of the control database" in html_of(answer)


def test_unknown_api_address_returns_404_as_problem_json(reader: Client):
    answer = reader.get("/api/v1/nowhere/")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == problems.CONTENT_TYPE
    assert answer.json()["request_id"] == answer.headers["X-Request-ID"]


def test_problem_answer_without_middleware_has_an_empty_request_id():
    request = HttpRequest()
    request.path = "/api/v1/"
    answer = problems.answer(request, status=400, title="Bad request", detail="", code="bad_request")
    assert b'"request_id": ""' in answer.content
