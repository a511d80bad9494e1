"""Tests of lineage by column: graph, table and files of the same columns."""

import json

import pytest
from django.http import HttpResponse
from django.test import Client

from metadata.models import SourceColumn, TargetColumn, TargetDataset
from metadata.services.datasets.targets import create_target_dataset
from tests.elevata.web.html import html_of
from tests.factories import TargetSchemaFactory

pytestmark = pytest.mark.django_db

PAGE = "/lineage/columns/"
AIRPORT = "rawcore.rc_air_airport"


def get(client: Client, address: str, **headers: str) -> HttpResponse:
    answer = client.get(address, headers=headers)
    assert answer.status_code == 200
    return answer


def id_of(name: str) -> str:
    return f"target:{TargetColumn.objects.get(dataset__name='rc_air_airport', name=name).key}"


def test_a_small_warehouse_is_drawn_as_a_whole(reader: Client, airport: TargetDataset):
    answer = get(reader, PAGE)
    assert {node.layer for node in answer.context["graph"].nodes} == {"source", "raw", "stage", "rawcore", "history"}
    assert f"{AIRPORT}.elevation" in html_of(answer)


def test_lineage_page_lists_the_path_of_a_column_and_marks_it_in_the_graph(reader: Client, airport: TargetDataset):
    answer = get(reader, f"{PAGE}?focus={AIRPORT}&column={id_of('name')}")
    assert {row.node.name for row in answer.context["rows"]} == {"name"}
    ports = {port.title: port.here for node in answer.context["graph"].nodes for port in node.ports if port.here}
    assert ports == {"name": True}
    assert f'Path of <span class="mono">{AIRPORT}.name</span>' in html_of(answer)


def test_columns_that_decide_rows_of_models_are_listed(reader: Client, airport: TargetDataset):
    schema = TargetSchemaFactory(name="mart", layer="serving")
    create_target_dataset(schema=schema, name="high", select=f"SELECT icao FROM {AIRPORT} WHERE elevation > 9")
    answer = get(reader, f"{PAGE}?column={id_of('elevation')}")
    deciding = [(each.name, each.dataset) for each, _ in answer.context["deciding"]]
    assert deciding == [(f"{AIRPORT}.elevation", "mart.high")]
    assert "Decides rows of" in html_of(answer)
    assert "Decides rows of" not in html_of(get(reader, f"{PAGE}?column={id_of('name')}"))


def test_htmx_receives_the_table_only(reader: Client, airport: TargetDataset):
    html = html_of(get(reader, f"{PAGE}?column={id_of('name')}", **{"HX-Request": "true"}))
    assert html.strip().startswith("<section")
    assert "data-graph" not in html


def test_an_unknown_name_gives_suggestions(reader: Client, airport: TargetDataset):
    html = html_of(get(reader, f"{PAGE}?focus=stage.elevation"))
    assert "No dataset or column has this name" in html
    assert f"focus={AIRPORT}.elevation" in html


@pytest.mark.parametrize("query", ["focus=%25%27%F0%9F%98%80", "focus=" + "x" * 3_000, "column=x", "up=-1&down=many"])
def test_invalid_lineage_parameters_do_not_fail(reader: Client, airport: TargetDataset, query: str):
    get(reader, f"{PAGE}?{query}")


def test_too_many_datasets_are_not_drawn_as_a_whole(
    reader: Client, airport: TargetDataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("metadata.selectors.requested_lineage.DRAWN", 2)
    answer = get(reader, PAGE)
    assert "There are more than" in html_of(answer)
    assert answer.context["graph"].nodes == ()


def test_lineage_json_contains_the_nodes_of_the_table(reader: Client, airport: TargetDataset):
    query = f"?focus={AIRPORT}.name&up=1&down=0"
    document = json.loads(get(reader, f"/lineage/columns.json{query}").content)
    rows = get(reader, f"{PAGE}{query}").context["rows"]
    assert [node["id"] for node in document["nodes"]] == [row.node.id for row in rows]
    assert len(document["edges"]) == 1


def test_openlineage_has_a_job_for_each_dataset_with_the_columns_read(reader: Client, airport: TargetDataset):
    jobs = json.loads(get(reader, f"/lineage/columns.openlineage.json?focus={AIRPORT}.name").content)
    rawcore = next(job for job in jobs if job["job"]["name"] == AIRPORT)
    (read,) = rawcore["outputs"][0]["facets"]["columnLineage"]["fields"]["name"]["inputFields"]
    assert (read["name"], read["field"]) == ("stage.stg_air_airport", "name")
    assert read["transformations"][0]["subtype"] == "IDENTITY"
    assert {job["job"]["name"] for job in jobs} >= {"raw.raw_air_airport", f"{AIRPORT}_hist"}


def test_column_form_shows_the_impact_of_a_drop(editor: Client, airport: TargetDataset):
    key = id_of("name").partition(":")[2]
    assert f"/columns/{key}/impact/" in html_of(get(editor, f"/columns/{key}/edit/"))
    part = html_of(get(editor, f"/columns/{key}/impact/", **{"HX-Request": "true"}))
    assert "If you drop it" in part
    assert f"{AIRPORT}_hist" in part


def test_source_page_shows_the_impact_of_dropping_a_column(reader: Client, airport: TargetDataset):
    column = SourceColumn.objects.get(name="name")
    assert f"/source-columns/{column.key}/impact/" in html_of(get(reader, f"/sources/{column.dataset.key}/"))
    page = html_of(get(reader, f"/source-columns/{column.key}/impact/"))
    assert "If you drop it" in page
    assert "raw.raw_air_airport" in page
