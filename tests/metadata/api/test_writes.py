"""Tests of metadata written by the API: the services' refusals become problem documents."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from metadata.models import SourceDataset, System, TargetColumn, TargetDataset, TargetSchema
from metadata.services.datasets.targets import update_target_column

pytestmark = pytest.mark.django_db


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
    return getattr(client, method)(
        f"/api/v1/{path}", {} if body is None else body, content_type="application/json", headers=headers
    )


def column_of(dataset: TargetDataset, name: str = "name") -> TargetColumn:
    return dataset.columns.get(name=name)


# --- creation ----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def landing(settings, tmp_path: Path) -> str:
    """Return the only folder that sources may be in."""
    settings.SOURCE_ROOTS = [str(tmp_path)]
    return str(tmp_path)


def test_api_creates_a_system_and_generates_its_datasets(operator: Client, landing: str):
    """Check the creation of a system up to its generated datasets, by the API only."""
    system = {"short_name": "air", "name": "Airports", "location": landing}
    assert send(operator, "post", "systems/", system).status_code == 201
    made = send(
        operator,
        "post",
        "source-datasets/",
        {"system": "air", "name": "airport", "location": "airport.csv", "historize": True},
    ).json()
    column = {"source_dataset": made["key"], "name": "icao", "type": "string(4)", "key_ordinal": 1, "nullable": False}
    assert send(operator, "post", "source-columns/", column).status_code == 201
    generated = send(operator, "post", f"source-datasets/{made['key']}/generate/")
    assert generated.status_code == 200, generated.content
    assert len(generated.json()["generated"]) >= 3
    assert TargetDataset.objects.filter(name="rc_air_airport_hist").exists()


def test_created_object_is_returned_with_its_location_and_etag(operator: Client):
    answer = send(operator, "post", "schemas/", {"name": "mart", "layer": "serving"})
    assert answer.headers["Location"] == "http://testserver/api/v1/schemas/mart/"
    again = operator.get(answer.headers["Location"])
    assert again.headers["ETag"] == answer.headers["ETag"]
    assert again.json() == answer.json()


def test_dataset_takes_the_columns_of_its_input(operator: Client, airport: TargetDataset):
    TargetSchema.objects.create(name="bizcore", layer="bizcore")
    body = {"schema": "bizcore", "name": "bc_airport", "inputs": [str(airport.key)], "take_columns": True}
    made = send(operator, "post", "datasets/", body).json()
    described = [column["name"] for column in made["columns"] if not column["computed"]]
    assert described == ["icao", "name", "elevation"]


def test_dataset_with_an_unknown_input_is_refused_with_its_key(operator: Client, airport: TargetDataset):
    key = uuid4()
    answer = send(operator, "post", "datasets/", {"schema": "rawcore", "name": "x", "inputs": [str(key)]})
    assert (answer.status_code, answer.json()["errors"]) == (400, {"inputs": [f"There is no dataset {key}."]})


# --- refusals ------------------------------------------------------------------------------------


def test_unknown_fields_are_refused_with_the_known_ones(operator: Client):
    answer = send(operator, "post", "schemas/", {"name": "mart", "layer": "serving", "colour": "blue"})
    problem = answer.json()
    assert (answer.status_code, list(problem["errors"])) == (400, ["colour"])
    assert "known are" in problem["errors"]["colour"][0]
    assert not TargetSchema.objects.exists()


def test_read_only_fields_are_refused(operator: Client, airport: TargetDataset):
    column = column_of(airport)
    answer = send(operator, "patch", f"columns/{column.key}/", {"key": str(uuid4()), "version": 7})
    assert (answer.status_code, sorted(answer.json()["errors"])) == (400, ["key", "version"])


def test_invalid_type_is_refused_with_its_field_and_changes_nothing(operator: Client, airport: TargetDataset):
    answer = send(operator, "patch", f"columns/{column_of(airport).key}/", {"type": "decimal(99,2)"})
    problem = answer.json()
    assert (answer.status_code, list(problem["errors"])) == (422, ["type"])
    assert column_of(airport).version == 1


def test_taken_system_name_is_refused_with_409_and_its_field(operator: Client, airport: TargetDataset):
    answer = send(operator, "post", "systems/", {"short_name": "air", "name": "Again"})
    assert answer.status_code == 409
    assert list(answer.json()["errors"]) == ["short_name"]


@pytest.mark.parametrize("method", ["post", "patch", "delete"])
def test_reader_cannot_write_columns(reader: Client, airport: TargetDataset, method: str):
    path = "columns/" if method == "post" else f"columns/{column_of(airport).key}/"
    answer = send(reader, method, path)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("location", ["/etc", "{{ data_dir }}", "file:/etc/passwd", "s3a://other/place"])
def test_system_in_a_forbidden_location_is_refused(operator: Client, location: str):
    """Check forbidden locations, because a load would read any file that a source names."""
    answer = send(operator, "post", "systems/", {"short_name": "x", "name": "X", "location": location})
    assert (answer.status_code, answer.json()["code"]) == (422, "place_not_allowed")
    assert not System.objects.exists()


@pytest.mark.parametrize("location", ["/etc/passwd", "../secret_key", "{{ data_dir }}/secret_key"])
def test_source_dataset_outside_its_system_is_refused(
    operator: Client, airport: TargetDataset, landing: str, location: str
):
    System.objects.update(location=landing)
    source = airport.generated_from
    answer = send(operator, "patch", f"source-datasets/{source.key}/", {"location": location})
    assert (answer.status_code, answer.json()["code"]) == (422, "place_not_allowed")
    assert answer.json()["errors"]["location"][0].startswith(location)
    body = {"system": source.system.short_name, "name": "other", "location": location}
    assert send(operator, "post", "source-datasets/", body).status_code == 422
    assert SourceDataset.objects.get().location == source.location


@pytest.mark.parametrize("places", [{"location": "data/x.csv"}, {"intake": {"key_list": "data/x.csv"}}])
def test_system_cannot_move_to_where_its_sources_reach_forbidden_locations(
    operator: Client, airport: TargetDataset, landing: str, settings: Any, places: dict[str, Any]
):
    settings.DATA_DIR = Path(landing, "product", "data")
    System.objects.update(location=landing)
    SourceDataset.objects.update(**places)
    answer = send(operator, "patch", "systems/air/", {"location": f"{landing}/product"})
    assert (answer.status_code, answer.json()["code"]) == (422, "place_not_allowed")
    assert answer.json()["detail"].startswith("location: Data/x.csv is outside")
    assert send(operator, "patch", "systems/air/", {"location": f"{landing}/other"}).status_code == 200


def test_a_column_in_use_is_not_deleted(operator: Client, airport: TargetDataset):
    answer = send(operator, "delete", f"columns/{column_of(airport).key}/")
    assert answer.status_code in (409, 422)
    assert column_of(airport).active


# --- authors and conflicts --------------------------------------------------------------------------


def test_change_is_logged_with_its_reason_and_request_id(operator: Client, starter: User, airport: TargetDataset):
    answer = send(
        operator,
        "patch",
        f"columns/{column_of(airport).key}/",
        {"description": "As pilots say it.", "changelog_message": "Asked for by the tower"},
        **{"X-Request-ID": "tower-17"},
    )
    assert answer.json()["description"] == "As pilots say it."
    entry = ChangeLogEntry.objects.order_by("id").last()
    assert (entry.actor, entry.reason, entry.request_id) == ("eve", "Asked for by the tower", "tower-17")
    assert answer.headers["X-Request-ID"] == "tower-17"


def test_edit_with_the_current_etag_is_accepted(operator: Client, airport: TargetDataset):
    path = f"columns/{column_of(airport).key}/"
    etag = operator.get(f"/api/v1/{path}").headers["ETag"]
    answer = send(operator, "patch", path, {"pii": True}, **{"If-Match": etag})
    assert (answer.status_code, answer.json()["version"]) == (200, 2)
    assert answer.headers["ETag"] != etag


def test_edit_with_an_older_etag_is_refused_with_the_current_one(operator: Client, airport: TargetDataset):
    column = column_of(airport)
    etag = operator.get(f"/api/v1/columns/{column.key}/").headers["ETag"]
    update_target_column(column=column, expected_version=1, description="Somebody was quicker")
    answer = send(operator, "patch", f"columns/{column.key}/", {"pii": True}, **{"If-Match": etag})
    assert (answer.status_code, answer.json()["code"]) == (412, "stale_version")
    assert answer.headers["ETag"].startswith('"2')
    assert not column_of(airport).pii


def test_rename_requires_an_if_match_header(operator: Client, airport: TargetDataset):
    path = f"columns/{column_of(airport).key}/"
    assert send(operator, "post", f"{path}rename/", {"name": "title"}).status_code == 428
    etag = operator.get(f"/api/v1/{path}").headers["ETag"]
    answer = send(operator, "post", f"{path}rename/", {"name": "title"}, **{"If-Match": etag})
    assert (answer.json()["name"], answer.json()["former_names"]) == ("title", ["name"])


def test_if_match_star_accepts_any_version(operator: Client, airport: TargetDataset):
    answer = send(operator, "post", f"columns/{column_of(airport).key}/rename/", {"name": "title"}, **{"If-Match": "*"})
    assert answer.status_code == 200


def test_unchanged_dataset_returns_304_for_its_etag(operator: Client, airport: TargetDataset):
    path = f"/api/v1/datasets/{airport.key}/"
    tag = operator.get(path).headers["ETag"]
    answer = operator.get(path, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)
    column = column_of(airport)
    update_target_column(column=column, expected_version=1, description="New")
    assert operator.get(path, headers={"If-None-Match": tag}).status_code == 200


def test_column_is_retired_and_restored(operator: Client, airport: TargetDataset):
    path = f"columns/{column_of(airport).key}/"
    assert send(operator, "post", f"{path}retire/").json()["active"] is False
    assert send(operator, "post", f"{path}restore/").json()["active"] is True


def test_retired_unused_column_is_deleted_with_its_reason(operator: Client, airport: TargetDataset):
    made = send(operator, "post", "columns/", {"dataset": str(airport.key), "name": "note", "type": "string"}).json()
    path = f"columns/{made['key']}/"
    send(operator, "post", f"{path}retire/")
    assert send(operator, "delete", f"{path}?changelog_message=Never+used").status_code == 204
    assert operator.get(f"/api/v1/{path}").status_code == 404
    assert ChangeLogEntry.objects.order_by("id").last().reason == "Never used"


# --- responses --------------------------------------------------------------------------------------


def test_fields_parameter_limits_the_returned_fields(operator: Client, airport: TargetDataset):
    answer = operator.get("/api/v1/columns/?fields=name,type&page_size=2")
    assert [set(row) for row in answer.json()["results"]] == [{"name", "type"}] * 2


def test_fields_parameter_refuses_an_unknown_field(operator: Client):
    answer = operator.get("/api/v1/columns/?fields=name,colour")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["fields"])


def test_a_misspelt_filter_is_refused(operator: Client, source: SourceDataset):
    answer = operator.get("/api/v1/datasets/?activ=true")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["activ"])
    assert System.objects.count() == 1


def test_the_intake_of_a_table_is_written_and_read(operator: Client):
    location = "postgresql://reader@127.0.0.1/erp"
    system = {"short_name": "erp", "name": "ERP", "kind": "jdbc", "location": location}
    assert send(operator, "post", "systems/", system).status_code == 201
    table = {"system": "erp", "name": "customer", "location": "sales.customer", "format": "table"}
    intake = {"watermark": ["changed_at"], "look_back": "2 days"}
    refused = send(operator, "post", "source-datasets/", table | {"intake": intake})
    assert (refused.status_code, "bad_intake" in refused.content.decode()) == (422, True)
    made = send(operator, "post", "source-datasets/", table | {"intake": intake, "history_policy": {"input": "delta"}})
    assert made.status_code == 201, made.content
    assert operator.get(f"/api/v1/source-datasets/{made.json()['key']}/").json()["intake"] == intake


# --- names that need quotes --------------------------------------------------------------------


def test_column_name_that_needs_quotes_requires_quoted_name(operator: Client, airport: TargetDataset):
    body = {"dataset": str(airport.key), "name": "order total", "type": "string"}
    answer = send(operator, "post", "columns/", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "quoted_name")
    assert send(operator, "post", "columns/", body | {"quoted_name": True}).status_code == 201


def test_select_with_a_name_that_needs_quotes_requires_quoted_name(operator: Client, airport: TargetDataset):
    TargetSchema.objects.create(name="bizcore", layer="bizcore", ordinal=9)
    select = f"SELECT name AS {{}} FROM {airport}"
    body = {"schema": "bizcore", "name": "names", "select": select.format("title")}
    key = send(operator, "post", "datasets/", body).json()["key"]
    changed = {"select": select.format("`long title`")}
    assert send(operator, "patch", f"datasets/{key}/", changed).json()["code"] == "quoted_name"
    assert send(operator, "patch", f"datasets/{key}/", changed | {"quoted_name": True}).status_code == 200


def test_bulk_requires_quoted_name_for_each_row(operator: Client, airport: TargetDataset):
    row = {"dataset": str(airport.key), "type": "string"}
    rows = [row | {"name": "a b"}, row | {"name": "c d", "quoted_name": True}]
    answer = send(operator, "post", "columns/bulk/", {"create": rows})
    assert [problem["at"] for problem in answer.json()["rows"]] == ["create.0"]


def test_a_dataset_is_cloned(operator: Client, airport: TargetDataset):
    answer = send(operator, "post", f"datasets/{airport.key}/clone/", {"schema": "rawcore", "name": "airport_copy"})
    assert answer.status_code == 201
    copy = TargetDataset.objects.get(name="airport_copy")
    assert answer.headers["Location"].endswith(f"/datasets/{copy.key}/")
    assert copy.columns.count() == airport.columns.filter(active=True).count()


def test_a_system_is_generated_after_a_check(operator: Client, airport: TargetDataset):
    TargetDataset.objects.filter(history_of=None).last().columns.all().delete()
    checked = send(operator, "post", "systems/air/generate/", {"check": True}).json()
    assert checked["sources"][0]["name"] == "air.airport"
    changed = [dataset["name"] for dataset in checked["sources"][0]["datasets"] if dataset["status"] == "changes"]
    assert changed
    made = send(operator, "post", "systems/air/generate/").json()
    assert [dataset["name"] for dataset in made["sources"][0]["datasets"] if dataset["status"] == "changes"] == changed
