"""Statements of a dataset in a dialect: its page, file and endpoint."""

import re

import pytest
from django.core.management import call_command
from django.test import Client

from loader.dialects.catalog import DIALECTS
from loader.services.plain_sql import dataset_in_dialect
from metadata.models import TargetDataset
from metadata.services.lifecycle import retire_dataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import words
from tests.loader.airports import target

# They have no canonical text of a float, or do not count characters.
WITHOUT_LOAD = ("bigquery", "fabric", "mssql", "snowflake")

pytestmark = pytest.mark.django_db


@pytest.fixture
def airport(airports) -> TargetDataset:
    return target("rawcore.rc_air_airport")


def documents(reader: Client, dataset: TargetDataset, dialect: str, status: int = 200):
    answer = reader.get(f"/api/v1/datasets/{dataset.key}/sql/", {"dialect": dialect})
    assert answer.status_code == status, answer.content
    return answer.json()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_endpoint_returns_tables_and_load_of_a_dataset(reader: Client, airport: TargetDataset, dialect: str):
    document = documents(reader, airport, dialect)
    assert document["dialect"] == dialect
    assert document["executed"] == DIALECTS[dialect].executed
    statements = [text for item in document["objects"] for text in item["statements"]]
    assert all(text.endswith(";") for text in statements)
    tables = [("table", "rawcore.rc_air_airport"), ("table", "rawcore.rc_air_airport_hist")]
    load = [("table", "elevata.loads"), ("load", "rawcore.rc_air_airport")]
    unrendered = dialect in WITHOUT_LOAD
    assert [(item["kind"], item["name"]) for item in document["objects"]] == [*tables, *([] if unrendered else load)]
    assert [item["code"] for item in document["not_rendered"]] == ["NOT_RENDERED"] * unrendered


def test_statements_of_a_dataset_are_those_of_the_rendered_folder(airports, tmp_path):
    call_command("render_sql", "--dialect", "duckdb", "--out", str(tmp_path), "--json")
    for name in ("rawcore.rc_air_airport", "rawcore.rc_net_route"):
        (load,) = [item for item in dataset_in_dialect(target(name), "duckdb").objects if item.kind == "load"]
        assert (tmp_path / f"duckdb/loads/{name}.sql").read_text() == "\n".join(f"{text}\n" for text in load.statements)


def test_stage_view_and_raw_table_have_their_statement(reader: Client, airports):
    (view,) = documents(reader, target("stage.stg_air_airport"), "postgres")["objects"]
    assert view["kind"] == "view"
    assert "CREATE VIEW" in view["statements"][-1]
    (raw,) = documents(reader, target("raw.raw_air_airport"), "postgres")["objects"]
    assert raw["kind"] == "table"


def test_history_has_the_statements_of_its_dataset(reader: Client, airport: TargetDataset):
    own = documents(reader, airport, "duckdb")
    assert documents(reader, airport.history, "duckdb") == own


def test_unknown_dialect_is_refused(reader: Client, airport: TargetDataset):
    assert "dialect" in documents(reader, airport, "oracle", 400)["errors"]
    assert reader.get(f"/datasets/{airport.key}/sql/", {"dialect": "oracle"}).status_code == 404
    assert reader.get(f"/datasets/{airport.key}/dataset.sql").status_code == 404


def test_retired_dataset_is_not_rendered_with_its_reason(reader: Client, airport: TargetDataset):
    retire_dataset(dataset=airport, expected_version=airport.version)
    document = documents(reader, airport, "duckdb")
    assert document["objects"] == []
    assert document["not_rendered"]


def test_page_offers_every_dialect_and_shows_each_statement(reader: Client, airport: TargetDataset):
    page = html_of(reader.get(f"/datasets/{airport.key}/sql/"))
    for name, dialect in DIALECTS.items():
        assert f'href="/datasets/{airport.key}/sql/?dialect={name}"' in page
        assert dialect.title in page
    page = html_of(reader.get(f"/datasets/{airport.key}/sql/", {"dialect": "duckdb"}))
    assert page.count("data-copy=") == sum(
        len(item.statements) for item in dataset_in_dialect(airport, "duckdb").objects
    )
    copied = re.findall(r'data-copy="([^"]+)"', page)
    assert len(copied) == len(set(copied)) == sum(f'id="{name}"' in page for name in copied)
    assert "Tests execute them on DuckDB" in words(page)


def test_page_shows_the_reason_of_a_part_without_statements(reader: Client, airport: TargetDataset):
    text = words(html_of(reader.get(f"/datasets/{airport.key}/sql/", {"dialect": "bigquery"})))
    assert "rawcore.rc_air_airport NOT_RENDERED rawcore.rc_air_airport.elevation: BigQuery" in text


def test_file_has_all_statements(reader: Client, airport: TargetDataset):
    answer = reader.get(f"/datasets/{airport.key}/dataset.sql", {"dialect": "duckdb"})
    assert answer.headers["Content-Disposition"] == 'attachment; filename="rawcore.rc_air_airport.duckdb.sql"'
    text = answer.content.decode()
    for item in dataset_in_dialect(airport, "duckdb").objects:
        assert "\n".join((f"-- {item.kind} {item.name}", *item.statements)) in text
