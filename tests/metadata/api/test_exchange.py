"""Tests of export and import of metadata files by the API."""

import pytest
from django.conf import settings
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from metadata.models import System, TargetColumn, TargetDataset, TargetSchema
from tests.elevata.api.requests import get, send

pytestmark = pytest.mark.django_db

SYSTEM = """format: metadata/v1
system:
  short_name: net
  name: Network
  location: {location}
"""
BOMB = "format: metadata/v1\na: &a [x, x]\nb: &b [*a, *a]\nsystem: *b\n"


@pytest.fixture(autouse=True)
def landing(settings, tmp_path) -> str:
    settings.SOURCE_ROOTS = [str(tmp_path)]
    return str(tmp_path)


def import_files(client: Client, *contents: str, **more: object):
    files = [{"name": f"systems/{number}.yaml", "content": content} for number, content in enumerate(contents)]
    return send(client, "post", "metadata/import/", {"files": files, **more})


def test_exported_yaml_imports_without_changes(operator: Client, airport: TargetDataset):
    out = get(operator, "metadata/export/")
    assert out["format"] == "metadata/v1"
    assert "targets/rawcore/rc_air_airport.yaml" in [file["name"] for file in out["files"]]
    report = send(operator, "post", "metadata/import/", {"files": out["files"]}).json()
    assert (report["created"], report["updated"], report["changes"]) == (0, 0, [])


def test_export_refuses_a_csv_parameter_that_is_not_boolean(operator: Client):
    answer = operator.get("/api/v1/metadata/export/?csv=yes")
    assert (answer.status_code, answer.json()["errors"]) == (400, {"csv": ["Must be true or false."]})


def test_exported_csv_imports_without_changes(operator: Client, airport: TargetDataset):
    files = get(operator, "metadata/export/?csv=true")["files"]
    assert [file["name"] for file in files] == ["datasets.csv", "sources.csv"]
    report = send(operator, "post", "metadata/import/", {"files": files}).json()
    assert (report["created"], report["updated"], report["changes"]) == (0, 0, [])


def test_unchanged_export_returns_304_for_its_etag(operator: Client, airport: TargetDataset):
    tag = operator.get("/api/v1/metadata/export/").headers["ETag"]
    headers = {"If-None-Match": tag}
    assert operator.get("/api/v1/metadata/export/", headers=headers).status_code == 304
    TargetColumn.objects.filter(name="name").update(description="Changed")
    assert operator.get("/api/v1/metadata/export/", headers=headers).status_code == 200


def test_import_is_logged_with_its_reason(operator: Client, landing: str):
    report = import_files(operator, SYSTEM.format(location=landing), changelog_message="From test").json()
    assert report["changes"] == [{"change": "created", "kind": "system", "name": "net"}]
    entry = ChangeLogEntry.objects.get(subject_kind="system")
    assert (entry.actor, entry.reason) == ("eve", "From test")


def test_import_check_returns_the_changes_and_writes_none(operator: Client, landing: str):
    report = import_files(operator, SYSTEM.format(location=landing), check=True).json()
    assert (report["check"], report["created"]) == (True, 1)
    assert not System.objects.exists()
    assert not ChangeLogEntry.objects.filter(subject_kind="system").exists()


def test_import_error_names_file_and_line_and_writes_nothing(operator: Client, landing: str):
    answer = import_files(operator, SYSTEM.format(location=landing), "format: metadata/v1\nsystem:\n  colour: blue\n")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "unknown_field")
    assert "systems/1.yaml:3:3" in problem["detail"]
    assert not System.objects.exists()


@pytest.mark.parametrize("location", ["/etc", "file:///etc", "s3a://other/place"])
def test_import_refuses_a_system_in_a_forbidden_location(operator: Client, location: str):
    answer = import_files(operator, SYSTEM.format(location=location))
    assert (answer.status_code, answer.json()["code"]) == (422, "place_not_allowed")
    assert not System.objects.exists()


def test_import_refuses_a_dataset_outside_its_system(operator: Client, landing: str):
    dataset = "  datasets:\n    - name: passwd\n      location: ../../etc/passwd\n      generate: false\n"
    answer = import_files(operator, SYSTEM.format(location=landing) + dataset)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_location")


def test_import_accepts_other_objects_beside_existing_forbidden_locations(operator: Client, airport: TargetDataset):
    """Check locations imported by command line, whose users may read all files of the machine."""
    answer = import_files(operator, "format: metadata/v1\nschemas:\n  - name: mart\n    layer: serving\n")
    assert answer.status_code == 200, answer.content
    assert TargetSchema.objects.filter(name="mart").exists()


def test_import_refuses_yaml_aliases(operator: Client):
    answer = import_files(operator, BOMB)
    assert (answer.status_code, answer.json()["code"]) == (422, "alias")


def test_deeply_nested_yaml_and_json_are_refused(operator: Client):
    assert import_files(operator, "[" * 5000).json()["code"] == "too_big"
    deep = operator.generic("POST", "/api/v1/metadata/import/", b"[" * 200_000, content_type="application/json")
    assert (deep.status_code, deep.json()["code"]) == (400, "parse_error")


def test_import_body_above_the_limit_is_refused_with_413(operator: Client):
    answer = operator.generic(
        "POST",
        "/api/v1/metadata/import/",
        b"{}",
        content_type="application/json",
        CONTENT_LENGTH=str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1),
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_big")


@pytest.mark.parametrize("text", ["nul \\u0000", "half \\ud800"])
def test_a_text_that_cannot_be_stored_is_refused(operator: Client, text: str):
    body = f'{{"name": "mart", "layer": "serving", "description": "{text}"}}'
    answer = operator.generic("POST", "/api/v1/schemas/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "parse_error")


def test_two_files_of_one_name_are_refused(operator: Client):
    file = {"name": "a.yaml", "content": "format: metadata/v1"}
    answer = send(operator, "post", "metadata/import/", {"files": [file, file]})
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["files"])


def with_key(client: Client, content: str, key: str = "k1"):
    body = {"files": [{"name": "systems/net.yaml", "content": content}]}
    return send(client, "post", "metadata/import/", body, **{"Idempotency-Key": key})


def test_large_import_is_done_once_for_an_idempotency_key(operator: Client, landing: str):
    long = SYSTEM.format(location=landing) + f"# {'x' * 78}\n" * 40_000
    assert 2.5 * 2**20 < len(long) < settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    first, second = with_key(operator, long), with_key(operator, long)
    assert (first.status_code, second.content) == (200, first.content), first.content
    assert second.headers["Idempotent-Replayed"] == "true"
    assert ChangeLogEntry.objects.filter(subject_kind="system").count() == 1
    other = with_key(operator, long + "# another\n")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_import_above_the_limit_with_an_idempotency_key_is_refused_with_413(operator: Client, landing: str):
    answer = with_key(operator, SYSTEM.format(location=landing) + "#" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_big")
    assert str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE) in answer.json()["detail"]


NAMES = """format: metadata/v1
schemas:
  - {name: bizcore, layer: bizcore}
dataset:
  schema: bizcore
  name: totals
  columns:
    - {name: order total, type: string}
"""


def test_import_reports_names_that_need_quotes_once(operator: Client):
    report = import_files(operator, NAMES).json()
    assert [finding["name"] for finding in report["findings"]] == ["bizcore.totals.order total"]
    assert import_files(operator, NAMES).json()["findings"] == []


def test_import_refuses_names_that_need_quotes_if_configured(operator: Client, settings):
    settings.QUOTED_NAMES = "refuse"
    report = import_files(operator, NAMES).json()
    assert report["code"] == "quoted_name"
    assert not TargetDataset.objects.exists()


def test_imported_column_has_version_1(operator: Client):
    import_files(operator, NAMES)
    assert TargetColumn.objects.get().version == 1


def test_import_reports_several_faults_with_their_places(operator: Client):
    answer = send(
        operator,
        "post",
        "metadata/import/",
        {"files": [{"name": "c.csv", "content": "schema,dataset,column,type\nbizcore,t,a,strng\nbizcore,t,b,strng\n"}]},
    )
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["total"]) == (422, "unknown_type", 2)
    assert sorted(problem["errors"]) == ["c.csv:2.type", "c.csv:3.type"]
    assert [row["where"] for row in problem["rows"]] == ["bizcore.t.a", "bizcore.t.b"]
    assert not TargetDataset.objects.exists()
