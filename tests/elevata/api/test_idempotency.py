"""Idempotency keys: a POST with the same key has its effect once."""

from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from elevata.api.models import StoredResponse
from elevata.api.services import GIVEN_UP_AFTER, KEPT_FOR, delete_old_responses
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetSchema
from metadata.services.datasets import targets

pytestmark = pytest.mark.django_db

MART = {"name": "mart", "layer": "serving"}


def post(client: Client, body: dict, key: str = "k1", path: str = "schemas/") -> HttpResponse:
    return client.post(f"/api/v1/{path}", body, content_type="application/json", headers={"Idempotency-Key": key})


def test_repeated_request_replays_its_response_and_is_done_once(operator: Client):
    first, second = post(operator, MART), post(operator, MART)
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json() == first.json()
    assert (second.headers["ETag"], second.headers["Location"]) == (first.headers["ETag"], first.headers["Location"])
    assert ("Idempotent-Replayed" in first.headers, second.headers["Idempotent-Replayed"]) == (False, "true")
    assert TargetSchema.objects.count() == ChangeLogEntry.objects.filter(subject_kind="schema").count() == 1


def test_idempotency_key_with_another_body_is_refused(operator: Client):
    post(operator, MART)
    answer = post(operator, MART | {"name": "other"})
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert TargetSchema.objects.count() == 1


def test_idempotency_key_with_another_address_is_refused(operator: Client):
    post(operator, MART)
    assert post(operator, MART, path="systems/").status_code == 422


def test_repeated_request_in_flight_returns_409_with_retry_after(operator: Client):
    post(operator, MART)
    StoredResponse.objects.update(status=None)
    answer = post(operator, MART)
    assert (answer.status_code, answer.json()["code"]) == (409, "request_in_flight")
    assert answer.headers["Retry-After"] == "2"


def test_repeated_request_is_done_if_the_first_died(operator: Client):
    post(operator, MART)
    TargetSchema.objects.all().delete()
    StoredResponse.objects.update(status=None, started_at=timezone.now() - GIVEN_UP_AFTER - timedelta(seconds=1))
    assert post(operator, MART).status_code == 201
    assert TargetSchema.objects.count() == 1


def test_refusal_is_replayed_like_any_response(operator: Client):
    wrong = MART | {"layer": "attic"}
    first, second = post(operator, wrong), post(operator, wrong)
    assert (first.status_code, second.status_code) == (400, 400)
    assert second.content == first.content
    assert second.headers["Content-Type"] == "application/problem+json"


def test_failed_request_stores_no_response_and_can_be_repeated(operator: Client, monkeypatch):
    operator.raise_request_exception = False

    def broken(row):
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(targets, "store", broken)
        assert post(operator, MART).status_code == 500
    assert not StoredResponse.objects.exists()
    assert post(operator, MART).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_invalid_idempotency_key_is_refused(operator: Client, key: str):
    answer = post(operator, MART, key=key)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["Idempotency-Key"])


def test_stored_responses_are_deleted_after_a_day(operator: Client):
    post(operator, MART)
    assert delete_old_responses() == 0
    StoredResponse.objects.update(started_at=timezone.now() - KEPT_FOR - timedelta(seconds=1))
    assert delete_old_responses() == 1
