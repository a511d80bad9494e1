"""Tests of quality checks by the API: created, changed, retired, deleted."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from metadata.models import QualityCheck, TargetDataset
from metadata.services.quality import create_check

pytestmark = pytest.mark.django_db


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
    call = getattr(client, method)
    return call(f"/api/v1/quality-checks/{path}", body or {}, content_type="application/json", headers=headers)


def body(dataset: TargetDataset, **changes: Any) -> dict[str, Any]:
    fields = {"dataset": str(dataset.key), "name": "named", "kind": "not_null", "arguments": {"columns": ["name"]}}
    return fields | changes


@pytest.fixture
def check(airport: TargetDataset) -> QualityCheck:
    return create_check(dataset=airport, name="named", kind="not_null", arguments={"columns": ["name"]})


def test_a_check_is_created_and_read(operator: Client, airport: TargetDataset):
    answer = send(operator, "post", "", body(airport, severity="stop"))
    assert answer.status_code == 201, answer.content
    read = operator.get(answer.headers["Location"]).json()
    assert (read["dataset_name"], read["kind"], read["severity"]) == ("rawcore.rc_air_airport", "not_null", "stop")
    assert (read["arguments"], read["summary"], read["active"]) == ({"columns": ["name"]}, "name", True)


def test_a_check_of_an_unknown_column_is_refused_by_its_field(operator: Client, airport: TargetDataset):
    answer = send(operator, "post", "", body(airport, arguments={"columns": ["former"]}))
    assert answer.status_code == 422
    assert "no column of the dataset" in answer.content.decode()


def test_check_change_requires_the_current_etag(operator: Client, check: QualityCheck):
    etag = operator.get(f"/api/v1/quality-checks/{check.key}/").headers["ETag"]
    answer = send(operator, "patch", f"{check.key}/", {"severity": "stop"}, **{"If-Match": etag})
    assert (answer.status_code, answer.json()["severity"]) == (200, "stop")
    assert send(operator, "patch", f"{check.key}/", {"severity": "warn"}, **{"If-Match": etag}).status_code == 412


def test_a_check_is_retired_restored_and_deleted(operator: Client, check: QualityCheck):
    assert send(operator, "post", f"{check.key}/retire/").json()["active"] is False
    assert send(operator, "post", f"{check.key}/restore/").json()["active"] is True
    assert send(operator, "delete", f"{check.key}/").status_code == 204
    assert not QualityCheck.objects.exists()


def test_checks_are_listed_by_dataset_kind_and_state(operator: Client, check: QualityCheck):
    for query, count in (("", 1), ("&kind=range", 0), ("&active=true", 1), ("&active=false", 0)):
        answer = operator.get(f"/api/v1/quality-checks/?dataset={check.dataset.key}{query}")
        assert answer.json()["count"] == count


def test_a_reader_may_not_write_checks(reader: Client, airport: TargetDataset, check: QualityCheck):
    assert send(reader, "post", "", body(airport, name="other")).status_code == 403
    assert send(reader, "delete", f"{check.key}/").status_code == 403
