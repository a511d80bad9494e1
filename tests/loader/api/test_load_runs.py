"""Load runs by REST: request, cancellation, repeated request."""

from typing import Any

import pytest
from django.test import Client

from loader.models import LoadRun
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db


def post(client: Client, path: str, **body: Any) -> Any:
    return client.post(f"/api/v1/load-runs/{path}", body, content_type="application/json")


def test_load_request_repeated_under_one_run_id_queues_one_run(operator: Client, airport: Any):
    scope = {"kind": "dataset", "name": str(airport)}
    made = post(operator, "", run_id="r1", scope=scope, changelog_message="first")
    assert (made.status_code, made.headers["Location"]) == (202, "http://testserver/api/v1/load-runs/r1/")
    assert (made.json()["status"], made.json()["who"], made.json()["reason"]) == ("queued", "eve", "first")
    assert post(operator, "", run_id="r1", scope=scope).status_code == 202
    refused = post(operator, "", run_id="r1")
    assert (post(operator, "", run_id="r1", scope={"kind": "all"}).status_code, refused.status_code) == (409, 202)
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
def test_invalid_load_request_is_refused(operator: Client, airport: Any, body: dict, status: int):
    assert post(operator, "", **body).status_code == status
    assert not LoadRun.objects.exists()


def test_cancelled_run_is_queued_again_once(operator: Client, airport: Any):
    post(operator, "", run_id="r1")
    assert post(operator, "r1/cancel/").json()["status"] == "canceled"
    assert post(operator, "r1/cancel/").json()["code"] == "RUN_FINISHED"
    assert post(operator, "r1/again/").json()["status"] == "queued"
    assert post(operator, "r1/again/").status_code == 409


def test_allow_deletes_is_set_when_a_run_is_requested_or_repeated(operator: Client, airport: Any):
    assert post(operator, "", run_id="r1", allow_deletes=True).json()["allow_deletes"] is True
    assert post(operator, "", run_id="r2").json()["allow_deletes"] is False
    post(operator, "r2/cancel/")
    assert post(operator, "r2/again/", allow_deletes=True).json()["allow_deletes"] is True
    assert LoadRun.objects.get(run_id="r2").events.last().message == "deletes beyond the guard allowed by eve"


def test_load_run_requests_require_the_permission_to_start_loads(reader: Client, airport: Any):
    LoadRunFactory(run_id="r1", status="queued")
    assert {post(reader, path).status_code for path in ("", "r1/cancel/", "r1/again/")} == {403}
