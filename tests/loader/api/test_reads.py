"""History queries by REST: request, answer of a worker, download as JSON lines or CSV."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import ensure_user, grant_role
from loader.models import ReadRequest
from loader.services.reads.exports import export_file
from metadata.models import TargetDataset
from metadata.services.quality import create_check
from tests.loader.factories import ReadRequestFactory

pytestmark = pytest.mark.django_db

ROWS = [["EDDF", "Frankfurt", "364"], ["EDDM", None, ""]]
ANSWER = {"table_version": 7, "columns": ["icao", "name", "elevation"], "rows": ROWS, "truncated": True}
OLD, NEW = ["EDDF", "Frankfurt", "360"], ["EDDF", "Frankfurt", "364"]
CHANGES = [
    {"op": "U", "key": "a" * 64, "before": OLD, "after": NEW, "versions": 2},
    {"op": "R", "key": "b" * 64, "before": None, "after": ["EDDM", None, "1"], "versions": 1},
]
CHANGED = {"table_version": 8, "columns": ANSWER["columns"], "changes": CHANGES, "truncated": False}


def ask(client: Client, dataset: TargetDataset, kind: str, **body: Any) -> HttpResponse:
    response = {"dataset": str(dataset.key), "kind": kind, **body}
    return client.post("/api/v1/reads/", response, content_type="application/json")


def answered_read(client: Client, dataset: TargetDataset, answer: dict, kind: str = "as_of", **body: Any) -> str:
    """Return the address of a read that a worker answered."""
    response = ask(client, dataset, kind, **({"at": "2026-11-21"} if kind == "as_of" else {}), **body)
    assert response.status_code == 202, response.content
    end(response.json()["id"], answer=answer)
    return f"/api/v1/reads/{response.json()['id']}/"


def end(read: int, status: str = "succeeded", **fields: Any) -> None:
    ReadRequest.objects.filter(pk=read).update(status=status, finished_at=timezone.now(), **fields)


def lines(answer: HttpResponse) -> list[dict]:
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.getvalue().decode().splitlines()]


# --- asking --------------------------------------------------------------------------------------


WHOLE = {
    "as_of": {"at": "2026-11-21"},
    "changes": {"run_id": "good"},
    "origin": {"entity_key": "a" * 64},
    "descendants": {"run_id": "good", "file": "air.csv", "row": 1},
    "compare": {"by": "dates", "base": "2026-11-20", "other": "2026-11-21"},
    "versions": {"entity_key": "a" * 64},
}
WITHOUT_EFFECT = (
    ("sample", {"value": "x"}, "column"),
    ("sample", {"comparison": "null"}, "column"),
    ("changes", {"run_id": "good", "descending": True}, "sort"),
    ("export", {"known_at": "2026-11-20T00:00:00Z"}, "at"),
    ("export", {"text": "ED"}, "at"),
    ("export", {"op": "D"}, "run_id"),
)


def test_read_without_a_required_field_is_refused_naming_the_field(reader: Client, airport: TargetDataset):
    for kind, body in WHOLE.items():
        for missing in body:
            answer = ask(reader, airport, kind, **{name: value for name, value in body.items() if name != missing})
            assert (answer.status_code, list(answer.json()["errors"])) == (400, [missing]), (kind, missing)
    assert not ReadRequest.objects.exists()


def test_read_field_without_effect_is_refused_naming_the_field_that_it_requires(reader: Client, airport: TargetDataset):
    for kind, body, needed in WITHOUT_EFFECT:
        answer = ask(reader, airport, kind, **body)
        assert (answer.status_code, list(answer.json()["errors"])) == (400, [needed]), (kind, body)


def test_accepted_read_returns_the_location_of_its_answer(reader: Client, airport: TargetDataset):
    response = ask(reader, airport, "versions", business_key={"icao": "EDDF"})
    assert response.status_code == 202
    waiting = reader.get(response.headers["Location"])
    assert (waiting.json()["status"], waiting.json()["answer"], waiting.headers["Retry-After"]) == ("queued", None, "1")
    assert waiting.json()["arguments"] == {"business_key": {"icao": "EDDF"}, "limit": 100}


@pytest.mark.parametrize(
    ("kind", "body", "arguments"),
    [
        ("sample", {"newest": True, "limit": 5}, {"newest": True, "limit": 5}),
        ("key_search", {"text": "ED"}, {"text": "ED", "limit": 100}),
        ("versions", {"entity_key": "a" * 64}, {"entity_key": "a" * 64, "limit": 100}),
        ("as_of", {"at": "2026-11-21"}, {"at": "2026-11-21T00:00:00+00:00", "limit": 100}),
        (
            "as_of",
            {"at": "2026-11-21T09:00:00+01:00", "known_at": "2026-11-20T00:00:00Z", "after": {"icao": "EDDF"}},
            {
                "at": "2026-11-21T08:00:00+00:00",
                "known_at": "2026-11-20T00:00:00+00:00",
                "after": {"icao": "EDDF"},
                "limit": 100,
            },
        ),
        (
            "as_of",
            {"at": "2026-11-21", "find": "ber", "sort": "name", "descending": True, "offset": 20},
            {
                "at": "2026-11-21T00:00:00+00:00",
                "find": "ber",
                "sort": "name",
                "descending": True,
                "offset": 20,
                "limit": 100,
            },
        ),
        (
            "changes",
            {"run_id": "good", "column": "name", "comparison": "null"},
            {"run_id": "good", "column": "name", "comparison": "null", "limit": 100},
        ),
        ("changes", {"run_id": "good", "op": "D"}, {"run_id": "good", "op": "D", "limit": 100}),
        ("changes", {"run_id": "good", "op": "R"}, {"run_id": "good", "op": "R", "limit": 100}),
    ],
)
def test_each_kind_of_read_stores_its_arguments(
    reader: Client, airport: TargetDataset, kind: str, body: dict, arguments: dict
):
    assert ask(reader, airport, kind, **body).status_code == 202
    assert ReadRequest.objects.get().arguments == arguments


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("sample", {"at": "2026-11-21"}, "at"),
        ("sample", {"colour": "red"}, "colour"),
        ("sample", {"limit": 1001}, "limit"),
        ("as_of", {}, "at"),
        ("as_of", {"at": "yesterday"}, "at"),
        ("as_of", {"at": "2026-11-21", "after": {"name": "x"}}, "after"),
        ("changes", {}, "run_id"),
        ("changes", {"run_id": "good", "op": "X"}, "op"),
        ("versions", {}, "entity_key"),
        ("versions", {"entity_key": "'; DROP TABLE"}, "entity_key"),
        ("versions", {"entity_key": "a" * 64, "business_key": {"icao": "EDDF"}}, "entity_key"),
        ("versions", {"business_key": {"icao": "EDDF", "x": "1"}}, "business_key"),
        ("everything", {}, "kind"),
    ],
)
def test_read_with_an_invalid_field_is_refused_naming_the_field(
    reader: Client, airport: TargetDataset, kind: str, body: dict, field: str
):
    refused = ask(reader, airport, kind, **body)
    assert refused.status_code == 400
    assert field in refused.json()["errors"]
    assert not ReadRequest.objects.exists()


def test_history_read_of_a_dataset_without_history_is_refused(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    stage = TargetDataset.objects.get(schema__layer="stage")
    assert ask(reader, stage, "key_search").json()["code"] == "NO_TABLE"
    TargetDataset.objects.filter(pk=airport.pk).update(historize=False)
    assert ask(reader, airport, "changes", run_id="good").status_code == 422
    assert ask(reader, raw, "sample").status_code == 202


def test_user_has_a_limited_number_of_unfinished_reads(reader: Client, airport: TargetDataset, person: User, settings):
    settings.READS_PER_USER = 3
    ReadRequestFactory.create_batch(3, kind="sample", dataset=airport, requested_by=person)
    refused = ask(reader, airport, "sample")
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (429, "TOO_MANY_READS", "2")
    end(ReadRequest.objects.first().pk, answer=ANSWER)
    assert ask(reader, airport, "sample").status_code == 202


def test_read_only_token_may_request_reads_but_no_loads(client: Client, airport: TargetDataset, person: User):
    _, token = create_token(user=person, scope="read")
    response = {"dataset": str(airport.key), "kind": "sample"}
    sent = {"content_type": "application/json", "headers": {"Authorization": f"Token {token}"}}
    assert client.post("/api/v1/reads/", response, **sent).status_code == 202
    assert client.post("/api/v1/load-runs/", {}, **sent).json()["code"] == "token_scope"


# --- answers -------------------------------------------------------------------------------------


def test_answer_describes_its_columns_and_the_start_of_the_next_page(reader: Client, airport: TargetDataset):
    airport.columns.filter(name="name").update(pii=True)
    answer = reader.get(answered_read(reader, airport, ANSWER | {"masked": ["name"]})).json()["answer"]
    assert (answer["table_version"], answer["rows"], answer["truncated"]) == (7, 2, True)
    assert answer["next"] == {"icao": "EDDM"}
    assert answer["columns"][0]["role"] == "business key"
    assert [column["personal"] for column in answer["columns"]] == [False, True, False]
    assert [column["masked"] for column in answer["columns"]] == [False, True, False]


def test_answer_with_a_masked_key_has_no_start_of_the_next_page(reader: Client, airport: TargetDataset):
    airport.columns.filter(name="icao").update(sensitivity="restricted")
    answer = reader.get(answered_read(reader, airport, ANSWER | {"masked": ["icao"]})).json()["answer"]
    assert (answer["truncated"], answer["next"]) == (True, None)


def test_rows_response_lists_masked_columns_in_a_header(reader: Client, airport: TargetDataset):
    where = answered_read(reader, airport, ANSWER | {"masked": ["name", "größe"]})
    assert reader.get(f"{where}rows/").headers["X-Masked-Columns"] == "name, gr%C3%B6%C3%9Fe"


@pytest.mark.parametrize("body", [{"text": "E"}, {"after": {"icao": "EDDF"}}])
def test_key_search_by_a_masked_key_is_refused(reader: Client, airport: TargetDataset, body: dict):
    airport.columns.filter(name="icao").update(sensitivity="restricted")
    refused = ask(reader, airport, "key_search", **body)
    assert (refused.status_code, refused.json()["code"]) == (403, "MASKED_COLUMN")


def test_answer_with_a_column_classified_later_is_refused(reader: Client, airport: TargetDataset):
    where = answered_read(reader, airport, ANSWER)
    assert reader.get(where).status_code == 200
    airport.columns.filter(name="name").update(pii=True)
    for address in (where, f"{where}rows/"):
        refused = reader.get(address)
        assert (refused.status_code, refused.json()["code"]) == (403, "NOT_PERMITTED")


def test_viewer_of_one_schema_cannot_read_data_of_another(client: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=airport.schema.name)
    client.force_login(vera)
    assert ask(client, airport, "sample").status_code == 202
    refused = ask(client, raw, "sample")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
    assert client.get(f"/api/v1/datasets/{raw.key}/").status_code == 200


def test_rows_are_returned_as_json_lines(reader: Client, airport: TargetDataset):
    rows = reader.get(f"{answered_read(reader, airport, ANSWER)}rows/")
    assert rows.streaming
    assert rows.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
    assert (rows.headers["X-Truncated"], rows.headers["X-Table-Version"]) == ("true", "7")
    assert lines(rows) == [
        {"icao": "EDDF", "name": "Frankfurt", "elevation": "364"},
        {"icao": "EDDM", "name": None, "elevation": ""},
    ]


@pytest.mark.parametrize(("query", "headers"), [("?format=csv", {}), ("", {"Accept": "text/csv"})])
def test_rows_are_returned_as_csv_on_request(reader: Client, airport: TargetDataset, query: str, headers: dict):
    rows = reader.get(f"{answered_read(reader, airport, ANSWER)}rows/{query}", headers=headers)
    assert rows.headers["Content-Type"] == "text/csv; charset=utf-8"
    expected = '"icao","name","elevation"\r\n"EDDF","Frankfurt","364"\r\n"EDDM",,""\r\n'
    assert rows.getvalue().decode() == expected


def test_changes_return_each_key_with_both_versions(reader: Client, airport: TargetDataset):
    where = answered_read(reader, airport, CHANGED, "changes", run_id="good")
    updated, back = lines(reader.get(f"{where}rows/"))
    assert (updated["op"], updated["before"]["elevation"], updated["after"]["elevation"]) == ("U", "360", "364")
    assert (back["op"], back["before"], back["versions"]) == ("R", None, 1)
    (flat, _) = csv.DictReader(io.StringIO(reader.get(f"{where}rows/?format=csv").getvalue().decode()))
    assert (flat["op"], flat["before.elevation"], flat["after.elevation"]) == ("U", "360", "364")


# --- refusals ------------------------------------------------------------------------------------


def test_rows_of_an_unfinished_read_are_refused_with_retry_after(reader: Client, airport: TargetDataset):
    where = ask(reader, airport, "sample").headers["Location"]
    early = reader.get(f"{where}rows/")
    assert (early.status_code, early.json()["code"], early.headers["Retry-After"]) == (409, "READ_UNFINISHED", "2")


def test_failed_read_returns_its_error(reader: Client, airport: TargetDataset):
    response = ask(reader, airport, "sample")
    end(response.json()["id"], "failed", error={"code": "NO_TABLE", "message": "it is not there"})
    assert reader.get(response.headers["Location"]).json()["error"]["code"] == "NO_TABLE"
    refused = reader.get(f"{response.headers['Location']}rows/")
    assert (refused.status_code, refused.json()["code"]) == (409, "NO_ROWS")
    assert "it is not there" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("?format=xml", {}, 400),
        ("?formt=csv", {}, 400),
        ("", {"Accept": "application/xml"}, 406),
    ],
)
def test_rows_in_an_unknown_format_are_refused(
    reader: Client, airport: TargetDataset, query: str, headers: dict, status: int
):
    assert reader.get(f"{answered_read(reader, airport, ANSWER)}rows/{query}", headers=headers).status_code == status


def test_answer_is_visible_only_to_the_user_who_requested_it(reader: Client, operator: Client, airport: TargetDataset):
    where = answered_read(reader, airport, ANSWER)
    for place in (where, f"{where}rows/"):
        assert operator.get(place).status_code == 404
    assert operator.get("/api/v1/reads/").json()["count"] == 0
    (listed,) = reader.get("/api/v1/reads/").json()["results"]
    assert "answer" not in listed


# --- exports -------------------------------------------------------------------------------------


def test_an_export_has_all_rows_of_a_selection_as_csv(reader: Client, airport: TargetDataset, settings, tmp_path: Path):
    settings.EXPORT_FOLDER = str(tmp_path)
    answer = {"table_version": 7, "columns": ["icao"], "rows": [], "exported": 1_500, "truncated": False, "masked": []}
    address = answered_read(reader, airport, answer, kind="export", find="ulm", sort="name")
    read = ReadRequest.objects.get()
    assert read.arguments == {"find": "ulm", "sort": "name", "exact": True}
    assert reader.get(address).json()["answer"]["rows"] == 1_500
    assert reader.get(f"{address}rows/").json()["code"] == "EXPORT_GONE"
    export_file(read).write_text('"icao"\r\n"EDDB"\r\n')
    rows = reader.get(f"{address}rows/")
    assert (rows.streaming, rows.getvalue()) == (True, b'"icao"\r\n"EDDB"\r\n')
    assert reader.get(f"{address}rows/?format=jsonl").status_code == 400


def test_a_comparison_has_its_difference_in_the_answer(reader: Client, airport: TargetDataset):
    difference = {"rows": {"added": 1, "changed": 0, "gone": 0, "same": 5}}
    answer = {"table_version": 7, "columns": ["icao"], "rows": 1, "truncated": False, "masked": []}
    sides = {"by": "dates", "base": "2026-11-21", "other": "2026-11-22T09:00:00+01:00"}
    address = answered_read(reader, airport, answer | {"difference": difference}, kind="compare", **sides)
    assert reader.get(address).json()["answer"]["difference"] == difference
    arguments = reader.get(address).json()["arguments"]
    assert (arguments["base"], arguments["other"]) == ("2026-11-21T00:00:00+00:00", "2026-11-22T08:00:00+00:00")
    assert reader.get(f"{address}rows/").json()["code"] == "NO_ROWS"
    refused = ask(reader, airport, "compare", by="environments", base="moon")
    assert refused.json()["code"] == "BAD_COMPARISON"


def test_descendants_read_identifies_a_delivered_row_by_run_file_and_number(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    response = ask(reader, raw, "descendants", run_id="good", file="airport.csv", row=0)
    assert response.json()["arguments"] == {"run_id": "good", "file": "airport.csv", "row": 0, "limit": 100}
    assert ask(reader, raw, "descendants", run_id="good").status_code == 400
    assert ask(reader, airport, "descendants", run_id="good", file="a", row=1).json()["code"] == "NO_RAW"


def test_origin_read_accepts_a_date(reader: Client, airport: TargetDataset):
    response = ask(reader, airport, "origin", entity_key="a" * 64, at="2026-11-21")
    assert response.json()["arguments"]["at"] == "2026-11-21T00:00:00+00:00"


# --- quality -------------------------------------------------------------------------------------


def test_checks_run_by_rest_have_results_and_no_rows(reader: Client, airport: TargetDataset):
    check = create_check(dataset=airport, name="named", kind="not_null", arguments={"columns": ["name"]})
    result = {"key": str(check.key), "name": "named", "kind": "not_null", "severity": "warn", "outcome": "warned"}
    answer = {"table_version": 7, "results": [result | {"failed": 2, "total": 9, "samples": ["icao=KJFK"]}]}
    address = answered_read(reader, airport, answer, "quality", check=str(check.key))
    assert ReadRequest.objects.get().arguments["check"] == str(check.key)
    (check_result,) = reader.get(address).json()["answer"]["results"]
    assert (check_result["check"], check_result["outcome"], check_result["failed"], "samples" in check_result) == (
        *(str(check.key), "warned", 2),
        False,
    )
    assert reader.get(f"{address}rows/").json()["code"] == "NO_ROWS"


def test_failing_rows_by_rest_are_those_of_a_check_of_the_dataset(reader: Client, airport: TargetDataset):
    check = create_check(dataset=airport, name="named", kind="not_null", arguments={"columns": ["name"]})
    for kind in ("sample", "export"):
        assert ask(reader, airport, kind, failing=str(check.key)).status_code == 202
    assert {read.arguments["failing"] for read in ReadRequest.objects.all()} == {str(check.key)}
    assert ask(reader, airport, "as_of", at="2026-11-21", failing=str(check.key)).status_code == 400
    refused = ask(reader, airport, "export", at="2026-11-21", failing=str(check.key))
    assert (refused.status_code, refused.json()["code"]) == (422, "NO_FAILING_ROWS")
    unknown = ask(reader, airport, "sample", failing=str(airport.key))
    assert (unknown.status_code, unknown.json()["code"]) == (422, "NO_CHECK")
