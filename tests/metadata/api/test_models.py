"""Tests of models by REST: created, changed, and a SELECT described without saving it."""

import pytest
from django.test import Client

from metadata.models import TargetDataset
from tests.factories import TargetColumnFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def orders() -> TargetDataset:
    TargetSchemaFactory(name="bizcore")
    dataset = TargetDatasetFactory(name="orders")
    TargetColumnFactory(dataset=dataset, name="id", data_type="bigint", nullable=False, key_ordinal=1)
    return dataset


def post(client: Client, path: str, body: dict):
    return client.post(f"/api/v1/{path}", body, content_type="application/json")


def test_a_model_is_created_and_changed(operator: Client) -> None:
    body = {"schema": "bizcore", "name": "sales", "select": "SELECT id FROM rawcore.orders", "business_key": ["id"]}
    created = post(operator, "datasets/", body)
    assert created.status_code == 201, created.content
    assert [(each["name"], each["role"]) for each in created.json()["columns"] if not each["computed"]] == [
        ("id", "business_key")
    ]
    address = created.headers["Location"]
    change = {"select": "SELECT id, 1 AS one FROM rawcore.orders", "increment": {"by": "key"}}
    changed = operator.patch(address, change, content_type="application/json", headers={"If-Match": created["ETag"]})
    assert changed.status_code == 200, changed.content
    assert changed.json()["increment"] == {"by": "key"}
    assert [each["name"] for each in changed.json()["columns"] if not each["computed"]] == ["id", "one"]


def test_refused_select_is_reported_with_line_and_column(operator: Client) -> None:
    answer = post(
        operator, "datasets/", {"schema": "bizcore", "name": "sales", "select": "SELECT no FROM rawcore.orders"}
    )
    assert answer.status_code == 422
    assert "line 1, column 8" in answer.content.decode()


def test_a_select_is_described_without_saving_it(operator: Client) -> None:
    answer = post(operator, "datasets/describe/", {"select": "SELECT id, id + 1 AS next FROM rawcore.orders"})
    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "reads": ["rawcore.orders"],
        "columns": [
            {
                "name": name,
                "type": "bigint",
                "nullable": False,
                "expression": expression,
                "inputs": [{"dataset": "rawcore.orders", "column": "id"}],
                "passes": expression == "id",
            }
            for name, expression in (("id", "id"), ("next", "id + 1"))
        ],
    }
    assert TargetDataset.objects.count() == 1


def test_only_editors_describe_a_select(viewer: Client) -> None:
    assert post(viewer, "datasets/describe/", {"select": "SELECT 1 AS x"}).status_code == 403
