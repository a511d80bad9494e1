"""Tests of references by the API: created, read, retired, restored."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from metadata.models import Reference, TargetDataset

pytestmark = pytest.mark.django_db


@pytest.fixture
def reference(airport: TargetDataset, add_routes: Callable) -> Reference:
    return add_routes(airport).references.get()


def post(client: Client, path: str, body: Any = None, **headers: str) -> HttpResponse:
    return client.post(f"/api/v1/{path}", body or {}, content_type="application/json", headers=headers)


def test_reference_is_returned_with_its_datasets_pairs_and_column(reader: Client, reference: Reference):
    body = reader.get(f"/api/v1/references/{reference.key}/").json()
    assert (body["child_name"], body["parent_name"]) == ("rawcore.rc_net_route", "rawcore.rc_air_airport")
    assert (body["column"], body["active"]) == ("origin_key", True)
    assert body["pairs"] == [{"child_column": "origin_icao", "parent_column": "icao"}]


@pytest.mark.parametrize(("query", "count"), [("", 1), ("active=false", 0), ("active=true", 1)])
def test_references_are_listed_by_their_end_and_state(reader: Client, reference: Reference, query: str, count: int):
    for side in ("child", "parent"):
        key = getattr(reference, side).key
        assert reader.get(f"/api/v1/references/?{side}={key}&{query}").json()["count"] == count


def test_reference_retirement_requires_the_current_etag_and_logs_the_reason(operator: Client, reference: Reference):
    path = f"references/{reference.key}/retire/"
    etag = operator.get(f"/api/v1/references/{reference.key}/").headers["ETag"]
    answer = post(operator, path, {"changelog_message": "no airports"}, **{"If-Match": etag})
    assert (answer.status_code, answer.json()["active"]) == (200, False)
    assert ChangeLogEntry.objects.get(subject_kind="reference", action="retired").reason == "no airports"
    assert post(operator, path, **{"If-Match": etag}).status_code == 412


def test_a_retired_reference_is_restored(operator: Client, reference: Reference):
    post(operator, f"references/{reference.key}/retire/")
    assert post(operator, f"references/{reference.key}/restore/").json()["active"] is True


def test_reference_impact_lists_dependents_and_retires_nothing(reader: Client, reference: Reference):
    impact = reader.get(f"/api/v1/references/{reference.key}/impact/").json()
    assert [(dependent["effect"], dependent["what"]) for dependent in impact["dependents"]] == [
        ("follows", "foreign key"),
        ("follows", "history"),
        ("stays", "column origin_icao"),
        ("stays", "business key"),
    ]
    assert (impact["refused"], impact["downstream"]) == (False, [])
    assert Reference.objects.get().active


def body_for(reference: Reference, **over: Any) -> dict[str, Any]:
    pairs = [{"child_column": "origin_icao", "parent_column": "icao"}]
    ends = {"child": str(reference.child.key), "parent": str(reference.parent.key)}
    return {**ends, "role_name": "landing", "pairs": pairs, **over}


def test_second_reference_to_a_parent_gets_a_column_of_its_role(operator: Client, reference: Reference):
    answer = post(operator, "references/", body_for(reference))
    assert (answer.status_code, answer.json()["column"]) == (201, "landing_key")
    assert operator.get(answer.headers["Location"]).json() == answer.json()


@pytest.mark.parametrize(
    ("over", "status", "field"),
    [
        ({"pairs": []}, 400, "pairs"),
        ({"pairs": [{"child_column": "nowhere", "parent_column": "icao"}]}, 400, "pairs"),
        ({"pairs": [{"child_column": "origin_icao", "parent_column": "name"}]}, 422, "columns"),
        ({"role_name": "origin"}, 409, "role_name"),
    ],
)
def test_invalid_reference_is_refused_with_its_field(
    operator: Client, reference: Reference, over: dict, status: int, field: str
):
    answer = post(operator, "references/", body_for(reference, **over))
    assert (answer.status_code, list(answer.json()["errors"])) == (status, [field])
    assert Reference.objects.count() == 1


def test_reference_is_created_with_a_rule_for_unknown_parents(operator: Client, reference: Reference):
    answer = post(operator, "references/", body_for(reference, unknown_parent="ghost"))
    assert (answer.status_code, answer.json()["unknown_parent"]) == (201, "ghost")


def test_rule_for_unknown_parents_requires_the_current_etag_and_logs_the_reason(operator: Client, reference: Reference):
    path = f"/api/v1/references/{reference.key}/"
    etag = operator.get(path).headers["ETag"]
    body = {"unknown_parent": "null", "changelog_message": "early orders"}
    answer = operator.patch(path, body, content_type="application/json", headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["unknown_parent"]) == (200, "null")
    assert ChangeLogEntry.objects.filter(subject_kind="reference").latest("pk").reason == "early orders"
    again = operator.patch(path, body, content_type="application/json", headers={"If-Match": etag})
    assert again.status_code == 412


def test_rule_that_does_not_fit_the_parent_is_refused_with_its_field(operator: Client, reference: Reference):
    reference.parent.columns.filter(role="attribute").update(nullable=False)
    path, body = f"/api/v1/references/{reference.key}/", {"unknown_parent": "ghost"}
    answer = operator.patch(path, body, content_type="application/json")
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["unknown_parent"])


@pytest.mark.parametrize("verb", ["retire", "restore"])
def test_reader_cannot_retire_or_restore_a_reference(reader: Client, reference: Reference, verb: str):
    assert post(reader, f"references/{reference.key}/{verb}/").status_code == 403
    assert Reference.objects.get().active
