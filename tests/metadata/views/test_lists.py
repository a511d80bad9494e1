"""Tests of the lists of datasets and sources: empty and full, filters, contents, and numbers of queries."""

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from metadata.models import SourceDataset, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.lifecycle import retire_column, retire_dataset
from tests.elevata.web.html import html_of
from tests.factories import SourceColumnFactory, SourceDatasetFactory, TargetDatasetFactory
from tests.loader.factories import loaded

pytestmark = pytest.mark.django_db


def text_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return html_of(answer)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def more_sources(number: int) -> None:
    for index in range(number):
        source = SourceDatasetFactory(system__short_name="air", name=f"more{index}")
        SourceColumnFactory(dataset=source, name="id", key_ordinal=1)
        generate_targets(source_dataset=source)


# --- empty lists -----------------------------------------------------------------------------


def test_empty_lists_suggest_the_first_steps(reader: Client):
    assert "Register a source" in text_of(reader, "/datasets/")
    assert "Or import files with metadata" in text_of(reader, "/sources/")


def test_pages_of_a_dataset_without_columns_open(reader: Client):
    dataset = TargetDatasetFactory(name="rc_bare")
    for part in ("", "lineage/", "sql/", "runs/"):
        assert "rc_bare" in text_of(reader, f"/datasets/{dataset.key}/{part}")
    assert "has no input" in text_of(reader, f"/datasets/{dataset.key}/sql/")


# --- datasets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"raw_air_airport", "stg_air_airport", "rc_air_airport", "rc_air_airport_hist"}),
        ("layer=raw", {"raw_air_airport"}),
        ("layer=rawcore", {"rc_air_airport", "rc_air_airport_hist"}),
        ("kind=history", {"rc_air_airport_hist"}),
        ("kind=view", {"stg_air_airport"}),
        ("schema=stage", {"stg_air_airport"}),
        ("historized=true", {"rc_air_airport"}),
        ("historized=false&kind=table", {"raw_air_airport"}),
        ("active=false", set()),
        ("q=RC_AIR", {"rc_air_airport", "rc_air_airport_hist"}),
        ("q=elevation", {"raw_air_airport", "stg_air_airport", "rc_air_airport"}),
        ("q=rawcore.rc_air_airport_", {"rc_air_airport_hist"}),
        ("q=nothing.of+that", set()),
    ],
)
def test_datasets_are_filtered(reader: Client, airport: TargetDataset, query: str, expected: set):
    text = text_of(reader, f"/datasets/?{query}")
    assert set(re.findall(r'class="name" href="[^"]+">\w+\.(\w+)</a>', text)) == expected
    assert ("No datasets match" in text) == (not expected)


def test_the_list_shows_last_loads(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    read = words(text_of(reader, "/datasets/?layer=rawcore"))
    assert "succeeded" in read
    assert "28,130" in read
    assert "43,860" in read


def test_dataset_page_lists_described_and_computed_columns(reader: Client, airport: TargetDataset):
    text = text_of(reader, f"/datasets/{airport.key}/")
    names = re.findall(r'<span class="name">(\w+)</span>', text)
    assert names == [
        "rc_air_airport_key",
        "icao",
        "name",
        "elevation",
        "row_hash",
        "load_run_id",
        "loaded_at",
    ]
    assert text.count('class="computed"') == 4
    assert "stg_air_airport.icao" in text
    assert "business key 1" in text


def test_dataset_page_lists_the_technical_columns_of_every_layer(reader: Client, airport: TargetDataset):
    def names(dataset: TargetDataset) -> list[str]:
        return re.findall(r'<span class="name">(\w+)</span>', text_of(reader, f"/datasets/{dataset.key}/"))

    assert names(TargetDataset.objects.get(name="raw_air_airport"))[-5:] == [
        "load_run_id",
        "loaded_at",
        "source_file",
        "source_row",
        "loaded_on",
    ]
    assert names(TargetDataset.objects.get(name="stg_air_airport")) == ["icao", "name", "elevation"]
    assert names(airport.history)[:2] == ["rc_air_airport_hist_key", "rc_air_airport_key"]
    assert names(airport.history)[-1] == "version_segment"


def test_history_and_base_pages_link_to_each_other(reader: Client, airport: TargetDataset):
    assert f'href="/datasets/{airport.key}/"' in text_of(reader, f"/datasets/{airport.history.key}/")
    assert f'href="/datasets/{airport.history.key}/"' in text_of(reader, f"/datasets/{airport.key}/")


def test_retired_columns_and_datasets_are_marked(reader: Client, airport: TargetDataset):
    column = airport.columns.get(name="elevation")
    retire_column(column=column, expected_version=column.version)
    assert 'class="retired"' in text_of(reader, f"/datasets/{airport.key}/")
    raw = TargetDataset.objects.get(name="raw_air_airport")
    retire_dataset(dataset=raw, expected_version=raw.version)
    assert "retired" in words(text_of(reader, f"/datasets/{raw.key}/"))
    assert "Load" not in re.findall(r">(\w+)</a>", text_of(reader, f"/datasets/{raw.key}/"))


def test_references_are_shown_on_the_pages_of_child_and_parent(
    reader: Client, airport: TargetDataset, add_routes: Callable
):
    routes = add_routes(airport)
    assert "origin_icao = icao" in text_of(reader, f"/datasets/{routes.key}/")
    assert "origin_key" in text_of(reader, f"/datasets/{routes.key}/")
    assert f'href="/datasets/{routes.key}/"' in text_of(reader, f"/datasets/{airport.key}/")


def test_lineage_is_drawn_and_listed(reader: Client, airport: TargetDataset, add_routes: Callable):
    routes = add_routes(airport)
    text = text_of(reader, f"/datasets/{routes.key}/lineage/")
    graph = json.loads(re.search(r'id="lineage" type="application/json">(.+?)</script>', text)[1])
    titles = {node["id"]: node["title"] for node in graph["nodes"]}
    assert {(titles[edge["start"]], titles[edge["end"]], edge["kind"]) for edge in graph["edges"]} == {
        ("route", "raw_net_route", "input"),
        ("raw_net_route", "stg_net_route", "input"),
        ("stg_net_route", "rc_net_route", "input"),
        ("rc_net_route", "rc_net_route_hist", "history"),
        ("rc_net_route", "rc_air_airport", "reference"),
    }
    assert [node["title"] for node in graph["nodes"] if node.get("here")] == ["rc_net_route"]
    assert 'data-graph="lineage"' in text
    assert f'href="/sources/{routes.generated_from.key}/"' in text
    assert f'href="/datasets/{airport.key}/lineage/"' in text


def test_sql_page_shows_the_statements_of_every_layer_in_order(reader: Client, airport: TargetDataset):
    for dataset in (airport, airport.history):
        read = words(text_of(reader, f"/datasets/{dataset.key}/sql/"))
        steps = ["INSERT OVERWRITE", "CREATE VIEW", "MERGE INTO `rawcore` . `rc_air_airport` AS r"]
        places = [read.index(step) for step in [*steps, "`rc_air_airport_hist` AS h"]]
        assert places == sorted(places)
        assert "this dataset" in read
    stage = TargetDataset.objects.get(name="stg_air_airport")
    assert "MERGE" not in words(text_of(reader, f"/datasets/{stage.key}/sql/"))


def test_runs_page_lists_the_loads_of_a_dataset(reader: Client, warehouse: TargetDataset):
    read = words(text_of(reader, f"/datasets/{warehouse.key}/runs/"))
    assert "1–3 of 3 loads" in read
    assert "skipped because of raw.raw_air_airport" in read
    assert "43,860" in words(text_of(reader, f"/datasets/{warehouse.history.key}/runs/"))
    stage = TargetDataset.objects.get(name="stg_air_airport")
    assert "Views are not loaded" in text_of(reader, f"/datasets/{stage.key}/runs/")


# --- sources ---------------------------------------------------------------------------------------


def test_sources_are_filtered(reader: Client, airport: TargetDataset, add_routes: Callable):
    add_routes(airport)
    assert "net.route" not in text_of(reader, "/sources/?system=air")
    assert "air.airport" not in text_of(reader, "/sources/?q=route")
    assert "No source datasets match" in text_of(reader, "/sources/?format=parquet")


def test_source_page_shows_options_columns_and_targets(reader: Client, source: SourceDataset, airport: TargetDataset):
    SourceDataset.objects.filter(pk=source.pk).update(options={"delimiter": "|"})
    text = text_of(reader, f"/sources/{source.key}/")
    assert "Option delimiter" in text
    assert "business key 1" in text
    assert f'href="/datasets/{airport.key}/"' in text


def test_dataset_and_history_pages_show_the_history_policy(reader: Client, airport: TargetDataset):
    policy = {"profile": "dbt", "state_labels": {"new": "I"}, "views": ["changes"]}
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy=policy)
    for dataset in (airport, airport.history):
        read = words(text_of(reader, f"/datasets/{dataset.key}/"))
        assert "History policy" in read
        assert "Columns are named as dbt snapshots" in read
        assert "States I (new), changed, deleted" in read
        assert "Views rc_air_airport_hist_changes" in read
    assert "dbt_valid_from" in read


# --- queries -----------------------------------------------------------------------------------------

# Session, user and permissions (two), the worker in the frame, and the page's own queries: among them the names of
# administrators if no worker runs and the rows that the listed runs quarantined (home, run_list), the existence of a
# schedule (home), and the copies of the datasets (dataset_lineage).
BASELINE = {
    "home": 21,
    "dataset_list": 12,
    "dataset_page": 16,
    "history_page": 22,
    "dataset_lineage": 18,
    "dataset_sql": 21,
    "dataset_runs": 11,
    "source_list": 10,
    "source_page": 23,
    "run_list": 13,
    "run_page": 13,
}


def address(name: str, warehouse: TargetDataset) -> str:
    own = {"dataset_page": "", "dataset_lineage": "lineage/", "dataset_sql": "sql/", "dataset_runs": "runs/"}
    if name in own:
        return f"/datasets/{warehouse.key}/{own[name]}"
    return {
        "history_page": f"/datasets/{warehouse.history.key}/",
        "home": "/",
        "dataset_list": "/datasets/",
        "source_list": "/sources/",
        "source_page": f"/sources/{warehouse.generated_from.key}/",
        "run_list": "/load-runs/",
        "run_page": "/load-runs/good/",
    }[name]


@pytest.mark.parametrize("name", BASELINE)
def test_page_query_count_does_not_grow_with_rows(
    reader: Client,
    warehouse: TargetDataset,
    name: str,
    django_assert_num_queries: DjangoAssertNumQueries,
):
    page = address(name, warehouse)
    with django_assert_num_queries(BASELINE[name]):
        reader.get(page)
    more_sources(3)
    for dataset in TargetDataset.objects.filter(name__startswith="rc_air_more", history_of=None):
        loaded(dataset)
    with django_assert_num_queries(BASELINE[name]):
        reader.get(page)
