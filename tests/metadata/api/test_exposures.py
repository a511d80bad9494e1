"""Tests of contracts and exposures by the API."""

from typing import Any

import pytest
from django.test import Client

from metadata.models import Exposure, TargetDataset
from tests.metadata.contracts import BOARD, sales_mart

pytestmark = pytest.mark.django_db


@pytest.fixture
def mart(operator: Client) -> TargetDataset:
    return sales_mart()


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    return getattr(client, method)(f"/api/v1/{path}", body or {}, content_type="application/json")


def test_an_exposure_is_created_changed_and_deleted(operator: Client, mart: TargetDataset):
    made = send(operator, "post", "exposures/", BOARD | {"dataset": str(mart.key), "name": "Notebook"})
    assert made.status_code == 201, made.content
    place = f"exposures/{made.json()['key']}/"
    assert send(operator, "patch", place, {"kind": "notebook"}).json()["kind"] == "notebook"
    assert send(operator, "delete", place).status_code == 204
    assert [row.name for row in Exposure.objects.all()] == ["Board"]


def test_exposure_with_an_invalid_link_is_refused(operator: Client, mart: TargetDataset):
    answer = send(operator, "post", "exposures/", BOARD | {"dataset": str(mart.key), "link": "javascript:x"})
    assert (answer.status_code, "must be an http address or a path" in answer.content.decode()) == (422, True)


def test_exposures_are_listed_by_dataset(reader: Client, mart: TargetDataset):
    answer = reader.get(f"/api/v1/exposures/?dataset={mart.key}&kind=dashboard").json()
    assert [(row["dataset_name"], row["link"]) for row in answer["results"]] == [("mart.sales", BOARD["link"])]


def test_contract_is_withdrawn_by_changing_the_dataset(operator: Client, mart: TargetDataset):
    answer = send(operator, "patch", f"datasets/{mart.key}/", {"contract": False})
    assert (answer.status_code, answer.json()["contract"]) == (200, False)


def test_contract_is_returned_with_columns_checks_and_pending_change(reader: Client, mart: TargetDataset):
    (row,) = reader.get("/api/v1/contracts/").json()["results"]
    assert row == reader.get(f"/api/v1/contracts/{mart.key}/").json()
    assert (row["name"], row["owner"], row["in_force"]) == ("mart.sales", "Sales", None)
    assert [column["name"] for column in row["described"]["columns"]] == ["amount", "day"]
    assert [check["name"] for check in row["described"]["checks"]] == ["amounts"]
    assert row["change"] == {"breaks": False, "version": "1.0", "message": "a new contract"}
    assert [exposure["name"] for exposure in row["exposures"]] == ["Board"]
