"""Tests of lineage by direction and distance, of datasets and columns, and of the impact of a change."""

from typing import Any

import pytest
from django.test import Client

from metadata.models import TargetDataset

pytestmark = pytest.mark.django_db


def get(client: Client, path: str, status: int = 200) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == status, answer.content
    return answer.json()


def names(answer: dict) -> dict[str, int]:
    return {node["name"]: node["distance"] for node in answer["nodes"]}


def test_dataset_lineage_is_limited_by_direction_and_depth(reader: Client, airport: TargetDataset):
    place = f"datasets/{airport.key}/lineage/"
    whole = names(get(reader, place))
    assert min(whole.values()) < -1 < 1 <= max(whole.values())
    near = get(reader, f"{place}?direction=upstream&depth=1")
    assert sorted(names(near).values()) == [-1, 0]
    assert len(near["edges"]) == 1
    assert set(names(get(reader, f"{place}?direction=downstream")).values()) == {0, 1}


def test_column_lineage_reaches_its_source_and_its_history(reader: Client, airport: TargetDataset):
    column = airport.columns.get(name="name")
    graph = get(reader, f"columns/{column.key}/lineage/")
    assert graph["nodes"][0]["kind"] == "source"
    assert [node["kind"] for node in graph["nodes"]][-2:] == ["target", "history"]
    assert graph["edges"][-1] == {"start": f"target:{column.key}", "end": f"history:{column.key}"}
    assert len(graph["edges"]) == len(graph["nodes"]) - 1
    assert {node["distance"] for node in get(reader, f"columns/{column.key}/lineage/?depth=1")["nodes"]} == {-1, 0, 1}
    raw = TargetDataset.objects.get(name="raw_air_airport").columns.get(name="name")
    onward = get(reader, f"columns/{raw.key}/lineage/?direction=downstream&depth=1")
    assert {node["distance"] for node in onward["nodes"]} == {0, 1}


def test_impact_of_a_rename_lists_the_renamed_history(reader: Client, airport: TargetDataset):
    impact = get(reader, f"datasets/{airport.key}/impact/?change=rename&name=rc_air_field")
    history = next(dependent for dependent in impact["dependents"] if dependent["what"] == "history")
    assert (history["effect"], history["after"]) == ("follows", "rc_air_field_hist")
    assert (impact["refused"], airport.name) == (False, TargetDataset.objects.get(pk=airport.pk).name)


def test_impact_of_a_retirement_lists_breaking_dependents(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    impact = get(reader, f"datasets/{raw.key}/impact/?change=retire")
    assert "breaks" in {dependent["effect"] for dependent in impact["dependents"]}
    assert str(airport) in {node["name"] for node in impact["downstream"]}


def test_impact_refuses_to_retire_a_key_column(reader: Client, airport: TargetDataset):
    key = airport.columns.get(name="icao")
    impact = get(reader, f"columns/{key.key}/impact/?change=retire")
    assert impact["refused"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("lineage/?direction=sideways", "direction"),
        ("lineage/?depth=0", "depth"),
        ("lineage/?dpeth=1", "dpeth"),
        ("impact/", "change"),
        ("impact/?change=burn", "change"),
        ("impact/?change=rename&nmae=x", "nmae"),
    ],
)
def test_lineage_and_impact_refuse_invalid_parameters(reader: Client, airport: TargetDataset, query: str, field: str):
    assert field in get(reader, f"datasets/{airport.key}/{query}", 400)["errors"]
