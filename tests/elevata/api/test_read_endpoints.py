"""Read-only API: fields, filters, paging, errors and number of queries."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from elevata.web.problems import CONTENT_TYPE
from loader.models import LoadRun
from metadata.models import SourceDataset, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.lifecycle import retire_column
from tests.factories import SourceColumnFactory, SourceDatasetFactory
from tests.loader.factories import REFUSAL, LoadRunFactory, loaded

pytestmark = pytest.mark.django_db

LISTS = ["systems", "source-datasets", "source-columns", "schemas", "datasets", "columns", "load-runs"]

MAINTENANCE = ("history-reverts", "history-prunes", "history-checks", "table-acceptances")
OTHERS = [
    "changes",
    "comments",
    "favourites",
    "saved-filters",
    "deliveries",
    "environments",
    "history-batches",
    "notices",
    "reads",
    "schedules",
    "users",
]
OTHERS += ["quality-checks", "check-results", "quarantine-decisions", "references", "search", "vacuums", "webhooks"]
OTHERS += [
    "access",
    "sensitive-columns",
    "sensitive-source-columns",
    "health-findings",
    "source-checks",
    "source-proposals",
    "contracts",
    "copies",
    "copy-runs",
    "exposures",
]


def get(client: Client, path: str) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def names(client: Client, path: str, name: str = "name") -> list[str]:
    return [row[name] for row in get(client, path)["results"]]


# --- access ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", *(f"{name}/" for name in LISTS), "schema/"])
def test_anonymous_requests_get_a_problem_with_401(client: Client, path: str):
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Token"
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    assert answer.json() == {
        "type": "about:blank",
        "title": "Authentication credentials were not provided",
        "status": 401,
        "detail": "Authentication credentials were not provided.",
        "code": "not_authenticated",
        "request_id": answer.headers["X-Request-ID"],
    }


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_read_only_list_refuses_write_methods(operator: Client, method: str):
    answer = getattr(operator, method)("/api/v1/records/", {}, content_type="application/json")
    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"


def test_api_root_names_the_collections(reader: Client):
    assert sorted(get(reader, "")) == sorted(
        [
            *LISTS,
            "affected",
            "detect-file",
            "next-step",
            "refreshes",
            "reports",
            "executions",
            "records",
            "dry-runs",
            "drift",
            "maintenance-records",
            "queries",
            *OTHERS,
            *MAINTENANCE,
        ]
    )


@pytest.mark.parametrize("path", [f"{name}/" for name in LISTS])
def test_empty_collections_return_no_results(reader: Client, path: str):
    assert get(reader, path) == {"count": 0, "next": None, "previous": None, "results": []}


@pytest.mark.parametrize(
    "path",
    [
        "systems/nowhere/",
        "schemas/nowhere/",
        "datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/",
        "datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/lineage/",
        "datasets/no-uuid/",
        "source-datasets/6f3d2c0a-54c1-5b0e-9a37-0c7f0a9e51d4/",
        "load-runs/nowhere/",
        "load-runs/nowhere/events/",
        "datasets/?page=99",
    ],
)
def test_unknown_resource_returns_404(reader: Client, path: str):
    answer = reader.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("datasets/?layer=odd", "layer"),
        ("datasets/?active=perhaps", "active"),
        ("datasets/?ordering=color", "ordering"),
        ("load-runs/?status=odd", "status"),
        ("load-runs/x/events/?after=then", "after"),
    ],
)
def test_invalid_filter_is_refused_with_its_field(reader: Client, path: str, field: str):
    LoadRunFactory(run_id="x")
    answer = reader.get(f"/api/v1/{path}")
    problem = answer.json()
    assert answer.status_code == 400
    assert list(problem["errors"]) == [field]
    assert (problem["title"], problem["detail"]) == ("Invalid request", f"Not valid: {field}.")
    assert problem["code"] == "invalid"


# --- metadata ----------------------------------------------------------------------------------


def test_systems_return_their_fields_and_dataset_count(reader: Client, airport: TargetDataset):
    (system,) = get(reader, "systems/")["results"]
    assert (system["short_name"], system["dataset_count"]) == ("air", 1)
    assert get(reader, "systems/air/") == system


def test_source_datasets_return_their_columns_and_generated_datasets(
    reader: Client, source: SourceDataset, airport: TargetDataset
):
    (listed,) = get(reader, "source-datasets/?system=air&format=csv&q=airp&active=true")["results"]
    assert "columns" not in listed
    body = get(reader, f"source-datasets/{source.key}/")
    assert [column["name"] for column in body["columns"]] == ["icao", "name", "elevation"]
    assert body["columns"][0]["key_ordinal"] == 1
    assert body["columns"][2]["type"] == "float"
    assert str(airport.key) in body["generated"]


def test_schemas_are_listed_filtered_and_counted(reader: Client, airport: TargetDataset):
    assert names(reader, "schemas/") == ["raw", "stage", "rawcore"]
    assert get(reader, "schemas/rawcore/")["dataset_count"] == 2
    assert names(reader, "schemas/?layer=stage") == ["stage"]


def test_datasets_are_listed_in_layer_order_or_the_requested_order(reader: Client, airport: TargetDataset):
    order = ["raw_air_airport", "stg_air_airport", "rc_air_airport", "rc_air_airport_hist"]
    assert names(reader, "datasets/") == order
    assert names(reader, "datasets/?page_size=2&page=2") == order[2:]
    assert names(reader, "datasets/?ordering=-name") == sorted(order, reverse=True)


def test_page_links_keep_the_filter(reader: Client, airport: TargetDataset):
    first = get(reader, "datasets/?page_size=3&active=true")
    assert first["count"] == 4
    assert reader.get(first["next"]).json()["previous"] == (
        "http://testserver/api/v1/datasets/?active=true&page_size=3"
    )


def test_page_size_is_limited_to_500(reader: Client):
    LoadRunFactory.create_batch(501)
    assert len(get(reader, "load-runs/?page_size=100000")["results"]) == 500


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("layer=raw", ["raw_air_airport"]),
        ("kind=history", ["rc_air_airport_hist"]),
        ("historized=true", ["rc_air_airport"]),
        ("q=stg", ["stg_air_airport"]),
        ("q=elevation&schema=rawcore", ["rc_air_airport"]),
    ],
)
def test_datasets_are_filtered_as_on_the_page(reader: Client, airport: TargetDataset, query: str, expected: list):
    assert names(reader, f"datasets/?{query}") == expected


def test_dataset_is_returned_with_columns_inputs_and_history(reader: Client, airport: TargetDataset):
    body = get(reader, f"datasets/{airport.key}/")
    assert (body["schema"], body["layer"], body["name"]) == ("rawcore", "rawcore", "rc_air_airport")
    assert body["history"] == str(airport.history.key)
    assert [column["name"] for column in body["columns"]] == [
        "rc_air_airport_key",
        "icao",
        "name",
        "elevation",
        "row_hash",
        "load_run_id",
        "loaded_at",
    ]
    technical, key = body["columns"][:2]
    assert (technical["computed"], technical["purpose"], technical["key"]) == (True, "entity key", None)
    assert (key["computed"], key["role"], key["key_ordinal"]) == (False, "business_key", 1)
    (read,) = key["inputs"]
    assert (read["name"], read["dataset"]["kind"]) == ("icao", "target")
    assert read["dataset"]["name"] == "stage.stg_air_airport"
    assert body["inputs"] == [read["dataset"]]


def test_raw_dataset_has_its_source_as_input(reader: Client, source: SourceDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    body = get(reader, f"datasets/{raw.key}/")
    assert body["inputs"] == [{"kind": "source", "key": str(source.key), "name": "air.airport"}]
    assert body["source"] == str(source.key)


def test_history_has_computed_columns_and_the_references_of_its_base(
    reader: Client, airport: TargetDataset, add_routes
):
    routes = add_routes(airport)
    body = get(reader, f"datasets/{routes.history.key}/")
    assert body["history_of"] == str(routes.key)
    assert body["inputs"][0]["name"] == "rawcore.rc_net_route"
    assert [column["name"] for column in body["columns"]][-1] == "version_segment"
    assert body["references"][0]["parent"] == str(airport.key)
    pair = {"child_column": "origin_icao", "parent_column": "icao"}
    assert get(reader, f"datasets/{airport.key}/")["referenced_by"][0]["pairs"] == [pair]


def test_retired_columns_come_last(reader: Client, airport: TargetDataset):
    column = airport.columns.get(name="name")
    retire_column(column=column, expected_version=column.version)
    last = get(reader, f"datasets/{airport.key}/")["columns"][-1]
    assert (last["name"], last["active"]) == ("name", False)


def test_lineage_returns_nodes_with_distance_and_reference_edges(reader: Client, airport: TargetDataset, add_routes):
    routes = add_routes(airport)
    body = get(reader, f"datasets/{routes.key}/lineage/")
    nodes = {node["name"]: node for node in body["nodes"]}
    assert nodes["rawcore.rc_net_route"]["distance"] == 0
    assert nodes["net.route"] == {
        "key": str(routes.generated_from.key),
        "kind": "source",
        "name": "net.route",
        "layer": "source",
        "active": True,
        "distance": -3,
    }
    reference = {
        "start": str(routes.key),
        "end": str(airport.key),
        "kind": "reference",
        "label": "origin_key",
    }
    assert reference in body["edges"]
    assert sum(edge["kind"] == "input" for edge in body["edges"]) == 3


# --- load runs -------------------------------------------------------------------------------------


def test_load_runs_are_listed_newest_first_and_filtered(reader: Client, warehouse: TargetDataset):
    assert names(reader, "load-runs/", "run_id") == ["busy", "bad", "good"]
    assert names(reader, "load-runs/?status=failed", "run_id") == ["bad"]
    assert names(reader, "load-runs/?q=oo", "run_id") == ["good"]
    assert names(reader, "load-runs/?dataset=rawcore.rc_net_route", "run_id") == ["good"]


def test_load_run_is_returned_with_its_datasets(reader: Client, warehouse: TargetDataset):
    run = get(reader, "load-runs/bad/")
    assert (run["status"], run["dataset_count"], run["failed_count"]) == ("failed", 2, 1)
    assert run["error"]["message"] == "1 dataset failed"
    raw, rawcore = run["datasets"]
    assert raw["error"] == REFUSAL
    assert rawcore["skipped_because"] == "raw.raw_air_airport"
    assert get(reader, "load-runs/good/")["datasets"][1]["counts"]["versions"] == 43860


def test_a_run_id_may_hold_dots_and_signs(reader: Client):
    LoadRunFactory(run_id="2026-11-21T08:00:00+00:00.x")
    assert get(reader, "load-runs/2026-11-21T08:00:00+00:00.x/")["status"] == "succeeded"


def test_run_events_continue_after_a_line(reader: Client, warehouse: TargetDataset):
    lines = get(reader, "load-runs/good/events/")["results"]
    assert [line["dataset_name"] for line in lines][1] == "rawcore.rc_air_airport"
    following = get(reader, f"load-runs/good/events/?after={lines[0]['id']}")
    assert following["results"] == lines[1:]
    assert LoadRun.objects.get(run_id="good").events.count() == len(lines)


# --- queries, description --------------------------------------------------------------------------

# Session, user and permissions, then the queries of the response.
BASELINE = {
    "systems/": 6,
    "source-datasets/": 6,
    "source-datasets/{source}/": 8,
    "schemas/": 6,
    "datasets/": 6,
    "datasets/{key}/": 12,
    "datasets/{history}/": 18,
    "datasets/{key}/lineage/": 14,
    "load-runs/": 6,
    "load-runs/good/": 6,
    "load-runs/good/events/": 7,
}


@pytest.mark.parametrize("path", BASELINE)
def test_query_count_does_not_grow_with_the_number_of_rows(
    reader: Client,
    warehouse: TargetDataset,
    path: str,
    django_assert_num_queries: DjangoAssertNumQueries,
):
    filled = path.format(key=warehouse.key, history=warehouse.history.key, source=warehouse.generated_from.key)
    with django_assert_num_queries(BASELINE[path]):
        get(reader, filled)
    for index in range(3):
        source = SourceDatasetFactory(system__short_name="air", name=f"more{index}")
        SourceColumnFactory(dataset=source, name="id", key_ordinal=1)
        generate_targets(source_dataset=source)
    for dataset in TargetDataset.objects.filter(name__startswith="rc_air_more", history_of=None):
        loaded(dataset)
    with django_assert_num_queries(BASELINE[path]):
        get(reader, filled)


def test_the_description_can_be_fetched(reader: Client):
    answer = reader.get("/api/v1/schema/?format=json")
    assert answer.status_code == 200
    assert "/api/v1/datasets/{key}/" in answer.json()["paths"]
