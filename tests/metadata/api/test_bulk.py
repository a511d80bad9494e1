"""Tests of bulk requests: all rows are written or none, and every error names its row."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.models import RoleGrant
from elevata.audit.models import ChangeLogEntry
from metadata.api.bulk import MOST_ROWS
from metadata.models import SourceColumn, System, TargetColumn, TargetDataset, TargetSchema
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    update_schema,
    update_target_column,
)
from metadata.services.lifecycle import retire_column, retire_dataset
from tests.elevata.api.requests import send
from tests.factories import SystemFactory

pytestmark = pytest.mark.django_db


def bulk(client: Client, what: str, **lists: Any) -> HttpResponse:
    return send(client, "post", f"{what}/bulk/", lists)


def changed_row(row: Any, **changes: Any) -> dict[str, Any]:
    return {"key": str(row.key), "version": row.version, **changes}


def column(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def test_columns_are_made_changed_and_deleted_at_once(operator: Client, airport: TargetDataset):
    retired = create_target_column(dataset=airport, name="gone", type="string")
    retire_column(column=retired, expected_version=1)
    retired.refresh_from_db()
    answer = bulk(
        operator,
        "columns",
        create=[{"dataset": str(airport.key), "name": "gone", "type": "date"}],
        update=[
            changed_row(column(airport, "name"), pii=True),
            changed_row(column(airport, "elevation"), type="decimal(9,2)"),
        ],
        delete=[changed_row(retired)],
        changelog_message="Spring cleaning",
    )
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert [len(body[part]) for part in ("created", "updated", "deleted")] == [1, 2, 1]
    assert [row["version"] for row in body["updated"]] == [2, 2]
    assert str(column(airport, "gone").type) == "date"
    entries = ChangeLogEntry.objects.filter(reason="Spring cleaning")
    assert sorted(entries.values_list("action", flat=True)) == ["changed", "changed", "created", "deleted"]
    assert set(entries.values_list("actor", flat=True)) == {"eve"}


def test_bulk_reports_every_invalid_row_and_writes_none(operator: Client, airport: TargetDataset):
    before = ChangeLogEntry.objects.count()
    answer = bulk(
        operator,
        "columns",
        create=[{"dataset": str(airport.key), "name": "new", "type": "decimal(99,2)"}],
        update=[changed_row(column(airport, "elevation"), pii=True), {"key": str(uuid4()), "version": 1}],
    )
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "bad_rows")
    assert [(row["at"], row["field"]) for row in problem["rows"]] == [("create.0", "type"), ("update.1", "key")]
    assert sorted(problem["errors"]) == ["create.0.type", "update.1.key"]
    assert not column(airport, "elevation").pii
    assert ChangeLogEntry.objects.count() == before


def test_bulk_names_a_row_of_a_stale_version(operator: Client, airport: TargetDataset):
    stale, other = changed_row(column(airport, "name"), pii=True), changed_row(column(airport, "elevation"), pii=True)
    update_target_column(column=column(airport, "name"), expected_version=1, description="Somebody was quicker")
    answer = bulk(operator, "columns", update=[other, stale])
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (412, "stale_version")
    assert [row["at"] for row in problem["rows"]] == ["update.1"]
    assert not column(airport, "elevation").pii


def test_bulk_checks_the_fields_of_rows_like_single_requests(operator: Client, airport: TargetDataset):
    answer = bulk(
        operator, "columns", update=[changed_row(column(airport, "name"), colour="blue")], create=[{"name": "x"}]
    )
    problem = answer.json()
    assert answer.status_code == 400
    assert sorted(problem["errors"]) == ["create.0.dataset", "create.0.type", "update.0.colour"]


@pytest.mark.parametrize("lists", [{}, {"update": []}, {"delete": [{}] * (MOST_ROWS + 1)}])
def test_bulk_refuses_no_rows_and_too_many_rows(operator: Client, airport: TargetDataset, lists: dict):
    assert bulk(operator, "columns", **lists).status_code == 400


def test_bulk_refuses_a_row_named_twice(operator: Client, airport: TargetDataset):
    row = changed_row(column(airport, "name"))
    answer = bulk(operator, "columns", update=[row], delete=[row])
    assert (answer.status_code, "twice" in str(answer.json()["errors"])) == (400, True)


def test_columns_change_places_in_the_business_key(operator: Client, airport: TargetDataset):
    second = column(airport, "name")
    update_target_column(column=second, expected_version=1, role="business_key", key_ordinal=2, nullable=False)
    first, second = column(airport, "icao"), column(airport, "name")
    answer = bulk(operator, "columns", update=[changed_row(first, key_ordinal=2), changed_row(second, key_ordinal=1)])
    assert answer.status_code == 200, answer.content
    assert [column(airport, name).key_ordinal for name in ("icao", "name")] == [2, 1]


def test_datasets_are_made_changed_and_deleted_at_once(operator: Client, airport: TargetDataset):
    retired = create_target_dataset(schema=airport.schema, name="rc_gone")
    retire_dataset(dataset=retired, expected_version=1)
    retired.refresh_from_db()
    answer = bulk(
        operator,
        "datasets",
        create=[{"schema": "rawcore", "name": "rc_gone", "inputs": [str(airport.key)], "take_columns": True}],
        update=[changed_row(airport, owner="Tower")],
        delete=[changed_row(retired)],
    )
    assert answer.status_code == 200, answer.content
    made = TargetDataset.objects.get(key=answer.json()["created"][0]["key"])
    assert (made.name, made.columns.count()) == ("rc_gone", 3)
    airport.refresh_from_db()
    assert airport.owner == "Tower"


def test_bulk_names_the_row_of_an_unknown_input(operator: Client, airport: TargetDataset):
    made = {"schema": "rawcore", "name": "x", "inputs": [str(uuid4())]}
    answer = bulk(operator, "datasets", create=[made, {"schema": "rawcore", "name": "y"}])
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["create.0.inputs"])
    assert not TargetDataset.objects.filter(name="y").exists()


def test_source_columns_are_made_and_changed_at_once(operator: Client, airport: TargetDataset):
    source = airport.generated_from
    answer = bulk(
        operator,
        "source-columns",
        create=[{"source_dataset": str(source.key), "name": "iata", "type": "string(3)"}],
        update=[changed_row(source.columns.get(name="name"), description="As signed")],
    )
    assert answer.status_code == 200, answer.content
    assert SourceColumn.objects.get(name="name").description == "As signed"
    assert SourceColumn.objects.filter(name="iata").exists()


def test_bulk_refuses_deletions_that_single_requests_refuse(operator: Client, airport: TargetDataset):
    row = airport.generated_from.columns.first()
    assert bulk(operator, "source-columns", delete=[changed_row(row)]).json()["errors"].keys() == {"delete"}
    in_use = bulk(operator, "columns", delete=[changed_row(column(airport, "name"))])
    assert (in_use.status_code, in_use.json()["code"]) == (409, "in_use")


def test_bulk_refuses_a_source_in_a_forbidden_location(operator: Client, airport: TargetDataset):
    made = {"system": "air", "name": "passwd", "location": "/etc/passwd"}
    answer = bulk(operator, "source-datasets", create=[made])
    assert (answer.status_code, answer.json()["code"]) == (422, "place_not_allowed")


def test_a_bulk_request_sent_again_is_done_once(operator: Client, airport: TargetDataset):
    body = {"create": [{"dataset": str(airport.key), "name": "iata", "type": "string(3)"}]}
    first, second = (send(operator, "post", "columns/bulk/", body, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, second.content) == (200, first.content)
    assert airport.columns.filter(name="iata").count() == 1


def test_bulk_refuses_a_user_without_permission(reader: Client, airport: TargetDataset):
    assert bulk(reader, "columns", update=[changed_row(column(airport, "name"), pii=True)]).status_code == 403


# --- systems and schemas, which are identified by their names ---------------------------------------


def named(row: System | TargetSchema, **changes: Any) -> dict[str, Any]:
    return {"key": row.short_name if isinstance(row, System) else row.name, "version": row.version, **changes}


def test_systems_are_made_changed_and_deleted_at_once(operator: Client, airport: TargetDataset):
    retired, air = SystemFactory(short_name="gone"), System.objects.get(short_name="air")
    answer = bulk(
        operator,
        "systems",
        create=[{"name": "Gone again", "short_name": "gone"}, {"name": "Sea", "short_name": "sea"}],
        update=[named(air, owner="Tower")],
        delete=[named(retired)],
        changelog_message="Spring cleaning",
    )
    assert answer.status_code == 200, answer.content
    assert answer.json() == {
        "created": [{"key": "gone", "version": 1}, {"key": "sea", "version": 1}],
        "updated": [{"key": "air", "version": air.version + 1}],
        "deleted": ["gone"],
    }
    assert System.objects.get(short_name="air").owner == "Tower"
    assert System.objects.get(short_name="gone").pk != retired.pk
    entries = ChangeLogEntry.objects.filter(reason="Spring cleaning", subject_kind="system")
    assert sorted(entries.values_list("action", flat=True)) == ["changed", "created", "created", "deleted"]


def test_schemas_are_made_changed_and_deleted_at_once(operator: Client, airport: TargetDataset):
    retired, mart = create_schema(name="gone", layer="bizcore"), create_schema(name="mart", layer="serving")
    answer = bulk(
        operator,
        "schemas",
        create=[{"name": "gone", "layer": "serving"}],
        update=[named(mart, ordinal=7)],
        delete=[named(retired)],
    )
    assert answer.status_code == 200, answer.content
    assert dict(TargetSchema.objects.filter(name__in=("gone", "mart")).values_list("name", "layer")) == {
        "gone": "serving",
        "mart": "serving",
    }
    assert TargetSchema.objects.get(name="mart").ordinal == 7


def test_bulk_returns_the_new_name_of_a_schema_as_its_key(operator: Client, db: None):
    mart = create_schema(name="mart", layer="serving")
    assert bulk(operator, "schemas", update=[named(mart, name="shop")]).json()["updated"] == [
        {"key": "shop", "version": 2}
    ]


def test_bulk_changes_no_system_if_a_row_is_refused(operator: Client, airport: TargetDataset):
    air, other = System.objects.get(short_name="air"), SystemFactory(short_name="other")
    answer = bulk(
        operator,
        "systems",
        create=[{"name": "Twice", "short_name": "other"}, {"name": "Bad", "short_name": "not good"}],
        update=[named(other, owner="Tower"), {"key": "nobody", "version": 1}],
        delete=[named(air)],
    )
    rows = {row["at"]: (row["code"], row["field"]) for row in answer.json()["rows"]}
    assert answer.status_code == 409
    assert rows.keys() == {"create.0", "create.1", "update.1", "delete.0"}
    assert (rows["update.1"], rows["delete.0"]) == (("gone", "key"), ("in_use", ""))
    other.refresh_from_db()
    assert (other.owner, other.version) == ("", 1)


def test_bulk_refuses_a_stale_version_of_a_schema(operator: Client, db: None):
    mart = create_schema(name="mart", layer="serving")
    update_schema(schema=mart, expected_version=1, ordinal=3)
    answer = bulk(operator, "schemas", update=[named(mart, ordinal=4)])
    assert (answer.status_code, answer.json()["code"]) == (412, "stale_version")


def test_bulk_refuses_other_schemas_to_an_editor_of_one_schema(db: None):
    mart, shop = create_schema(name="mart", layer="serving"), create_schema(name="shop", layer="serving")
    ada = User.objects.create(username="ada")
    RoleGrant.objects.create(user=ada, role="editor", schema=mart)
    client = Client()
    client.force_login(ada)
    answer = bulk(client, "schemas", update=[named(mart, ordinal=1), named(shop, ordinal=2)])
    assert answer.status_code == 403, answer.content
    assert [row["at"] for row in answer.json()["rows"]] == ["update.1"]
    mart.refresh_from_db()
    assert (mart.ordinal, mart.version) == (0, 1)


def test_bulk_refuses_system_changes_of_a_reader(reader: Client, airport: TargetDataset):
    air = System.objects.get(short_name="air")
    assert bulk(reader, "systems", update=[named(air, owner="Tower")]).status_code == 403


def test_system_cannot_be_named_like_the_bulk_address(operator: Client, db: None):
    answer = send(operator, "post", "systems/", {"name": "Bulk", "short_name": "bulk"})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["short_name"])


def test_an_empty_system_is_deleted_by_its_name(operator: Client, db: None):
    SystemFactory(short_name="gone")
    answer = operator.delete("/api/v1/systems/gone/?changelog_message=Spring")
    assert answer.status_code == 204
    assert ChangeLogEntry.objects.get(action="deleted").reason == "Spring"


def test_system_with_datasets_cannot_be_deleted(operator: Client, airport: TargetDataset):
    answer = operator.delete("/api/v1/systems/air/")
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert "needs it" in answer.json()["detail"]


def test_schema_with_a_granted_role_cannot_be_deleted(operator: Client, db: None):
    mart = create_schema(name="mart", layer="serving")
    RoleGrant.objects.create(user=User.objects.create(username="ada"), role="editor", schema=mart)
    answer = operator.delete("/api/v1/schemas/mart/")
    assert (answer.status_code, answer.json()["code"]) == (409, "in_use")
    assert "ada has a role for it" in answer.json()["detail"]
    assert RoleGrant.objects.exists()
