"""Many rows by one request: all of it or nothing, everything wrong told by its row."""

from typing import Any
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from metadata.api.bulk import MOST_ROWS
from metadata.models import ChangeLogEntry, SourceColumn, TargetColumn, TargetDataset
from metadata.services.lifecycle import retire_column, retire_dataset
from metadata.services.targets import create_target_column, create_target_dataset, update_target_column
from tests.api.asking import send

pytestmark = pytest.mark.django_db


def bulk(client: Client, what: str, **lists: Any) -> HttpResponse:
    return send(client, "post", f"{what}/bulk/", lists)


def seen(row: Any, **changes: Any) -> dict[str, Any]:
    return {"key": str(row.key), "version": row.version, **changes}


def column(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def test_columns_are_made_changed_and_deleted_at_once(operator: Client, airport: TargetDataset):
    gone = create_target_column(dataset=airport, name="gone", type="string")
    retire_column(column=gone, expected_version=1)
    gone.refresh_from_db()
    answer = bulk(
        operator,
        "columns",
        create=[{"dataset": str(airport.key), "name": "gone", "type": "date"}],
        update=[seen(column(airport, "name"), pii=True), seen(column(airport, "elevation"), type="decimal(9,2)")],
        delete=[seen(gone)],
        changelog_message="Spring cleaning",
    )
    assert answer.status_code == 200, answer.content
    said = answer.json()
    assert [len(said[part]) for part in ("created", "updated", "deleted")] == [1, 2, 1]
    assert [row["version"] for row in said["updated"]] == [2, 2]
    assert str(column(airport, "gone").type) == "date"
    entries = ChangeLogEntry.objects.filter(reason="Spring cleaning")
    assert sorted(entries.values_list("action", flat=True)) == ["changed", "changed", "created", "deleted"]
    assert set(entries.values_list("actor", flat=True)) == {"eve"}


def test_everything_wrong_is_told_by_its_row_and_nothing_is_written(operator: Client, airport: TargetDataset):
    before = ChangeLogEntry.objects.count()
    answer = bulk(
        operator,
        "columns",
        create=[{"dataset": str(airport.key), "name": "new", "type": "decimal(99,2)"}],
        update=[seen(column(airport, "elevation"), pii=True), {"key": str(uuid4()), "version": 1}],
    )
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "bad_rows")
    assert [(row["at"], row["field"]) for row in problem["rows"]] == [("create.0", "type"), ("update.1", "key")]
    assert sorted(problem["errors"]) == ["create.0.type", "update.1.key"]
    assert not column(airport, "elevation").pii
    assert ChangeLogEntry.objects.count() == before


def test_a_row_over_an_older_version_is_named(operator: Client, airport: TargetDataset):
    stale, other = seen(column(airport, "name"), pii=True), seen(column(airport, "elevation"), pii=True)
    update_target_column(column=column(airport, "name"), expected_version=1, description="Somebody was quicker")
    answer = bulk(operator, "columns", update=[other, stale])
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (412, "stale_version")
    assert [row["at"] for row in problem["rows"]] == ["update.1"]
    assert not column(airport, "elevation").pii


def test_fields_are_read_as_one_by_one(operator: Client, airport: TargetDataset):
    answer = bulk(operator, "columns", update=[seen(column(airport, "name"), colour="blue")], create=[{"name": "x"}])
    problem = answer.json()
    assert answer.status_code == 400
    assert sorted(problem["errors"]) == ["create.0.dataset", "create.0.type", "update.0.colour"]


@pytest.mark.parametrize("lists", [{}, {"update": []}, {"delete": [{}] * (MOST_ROWS + 1)}])
def test_a_request_has_rows_and_not_too_many(operator: Client, airport: TargetDataset, lists: dict):
    assert bulk(operator, "columns", **lists).status_code == 400


def test_a_row_is_named_once(operator: Client, airport: TargetDataset):
    row = seen(column(airport, "name"))
    answer = bulk(operator, "columns", update=[row], delete=[row])
    assert (answer.status_code, "twice" in str(answer.json()["errors"])) == (400, True)


def test_columns_change_places_in_the_business_key(operator: Client, airport: TargetDataset):
    second = column(airport, "name")
    update_target_column(column=second, expected_version=1, role="business_key", key_ordinal=2, nullable=False)
    first, second = column(airport, "icao"), column(airport, "name")
    answer = bulk(operator, "columns", update=[seen(first, key_ordinal=2), seen(second, key_ordinal=1)])
    assert answer.status_code == 200, answer.content
    assert [column(airport, name).key_ordinal for name in ("icao", "name")] == [2, 1]


def test_datasets_are_made_changed_and_deleted_at_once(operator: Client, airport: TargetDataset):
    gone = create_target_dataset(schema=airport.schema, name="rc_gone")
    retire_dataset(dataset=gone, expected_version=1)
    gone.refresh_from_db()
    answer = bulk(
        operator,
        "datasets",
        create=[{"schema": "rawcore", "name": "rc_gone", "inputs": [str(airport.key)], "take_columns": True}],
        update=[seen(airport, owner="Tower")],
        delete=[seen(gone)],
    )
    assert answer.status_code == 200, answer.content
    made = TargetDataset.objects.get(key=answer.json()["created"][0]["key"])
    assert (made.name, made.columns.count()) == ("rc_gone", 3)
    airport.refresh_from_db()
    assert airport.owner == "Tower"


def test_an_input_that_is_not_there_is_told_by_its_row(operator: Client, airport: TargetDataset):
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
        update=[seen(source.columns.get(name="name"), description="As signed")],
    )
    assert answer.status_code == 200, answer.content
    assert SourceColumn.objects.get(name="name").description == "As signed"
    assert SourceColumn.objects.filter(name="iata").exists()


def test_what_cannot_be_deleted_one_by_one_is_not_deleted_in_bulk(operator: Client, airport: TargetDataset):
    row = airport.generated_from.columns.first()
    assert bulk(operator, "source-columns", delete=[seen(row)]).json()["errors"].keys() == {"delete"}
    in_use = bulk(operator, "columns", delete=[seen(column(airport, "name"))])
    assert (in_use.status_code, in_use.json()["code"]) == (409, "in_use")


def test_a_source_in_bulk_stands_where_sources_may(operator: Client, airport: TargetDataset):
    made = {"system": "air", "name": "passwd", "location": "/etc/passwd"}
    answer = bulk(operator, "source-datasets", create=[made])
    assert (answer.status_code, answer.json()["code"]) == (422, "place_not_allowed")


def test_a_bulk_request_sent_again_is_done_once(operator: Client, airport: TargetDataset):
    body = {"create": [{"dataset": str(airport.key), "name": "iata", "type": "string(3)"}]}
    first, second = (send(operator, "post", "columns/bulk/", body, **{"Idempotency-Key": "k"}) for _ in range(2))
    assert (first.status_code, second.content) == (200, first.content)
    assert airport.columns.filter(name="iata").count() == 1


def test_who_may_not_change_metadata_changes_nothing_in_bulk(reader: Client, airport: TargetDataset):
    assert bulk(reader, "columns", update=[seen(column(airport, "name"), pii=True)]).status_code == 403
