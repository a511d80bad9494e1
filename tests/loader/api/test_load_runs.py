"""Load runs by REST: asked for, cancelled, asked again."""

from typing import Any

import pytest
from django.test import Client

from loader.models import LoadRun
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db


def post(client: Client, path: str, **body: Any) -> Any:
    return client.post(f"/api/v1/load-runs/{path}", body, content_type="application/json")


def test_a_load_is_asked_for_once_under_its_id(operator: Client, airport: Any):
    scope = {"kind": "dataset", "name": str(airport)}
    made = post(operator, "", run_id="r1", scope=scope, changelog_message="first")
    assert (made.status_code, made.headers["Location"]) == (202, "http://testserver/api/v1/load-runs/r1/")
    assert (made.json()["status"], made.json()["who"], made.json()["reason"]) == ("queued", "eve", "first")
    assert post(operator, "", run_id="r1", scope=scope).status_code == 202
    taken = post(operator, "", run_id="r1")
    assert (post(operator, "", run_id="r1", scope={"kind": "all"}).status_code, taken.status_code) == (409, 202)
    assert LoadRun.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"scope": {"kind": "dataset", "name": "raw.nowhere"}}, 422),
        ({"scope": {"kind": "dataset"}}, 400),
        ({"scope": {"kind": "all", "name": "x"}}, 400),
        ({"scope": {"kind": "all", "colour": "red"}}, 400),
        ({"colour": "red"}, 400),
        ({"run_id": "../x"}, 400),
    ],
)
def test_what_names_nothing_is_not_loaded(operator: Client, airport: Any, body: dict, status: int):
    assert post(operator, "", **body).status_code == status
    assert not LoadRun.objects.exists()


def test_a_run_is_cancelled_and_asked_again(operator: Client, airport: Any):
    post(operator, "", run_id="r1")
    assert post(operator, "r1/cancel/").json()["status"] == "canceled"
    assert post(operator, "r1/cancel/").json()["code"] == "RUN_FINISHED"
    assert post(operator, "r1/again/").json()["status"] == "queued"
    assert post(operator, "r1/again/").status_code == 409


def test_deletes_are_allowed_with_a_new_run_or_when_one_is_asked_again(operator: Client, airport: Any):
    assert post(operator, "", run_id="r1", allow_deletes=True).json()["allow_deletes"] is True
    assert post(operator, "", run_id="r2").json()["allow_deletes"] is False
    post(operator, "r2/cancel/")
    assert post(operator, "r2/again/", allow_deletes=True).json()["allow_deletes"] is True
    assert LoadRun.objects.get(run_id="r2").events.last().message == "deletes beyond the guard allowed by eve"


def test_who_may_not_start_loads_asks_for_none(reader: Client, airport: Any):
    LoadRunFactory(run_id="r1", status="queued")
    assert {post(reader, path).status_code for path in ("", "r1/cancel/", "r1/again/")} == {403}
