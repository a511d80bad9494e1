"""Page about the origin of a value: path, versions and delivered rows of a key."""

import pytest
from django.test import Client

from metadata.models import TargetDataset
from tests.elevata.web.html import html_of

pytestmark = pytest.mark.django_db

KEY = "a" * 64


def test_a_value_has_its_path_its_versions_and_its_delivered_rows(reader: Client, airport: TargetDataset):
    answer = reader.get(f"/datasets/{airport.key}/why/{KEY}/?column=name")
    assert [node.qualified_name for node in answer.context["path"]] == [
        "air.airport.name",
        "raw.raw_air_airport.name",
        "stage.stg_air_airport.name",
        "rawcore.rc_air_airport.name",
    ]
    assert answer.context["origin"] == {"kind": "origin", "entity_key": KEY}
    assert html_of(answer).count('name="entity_key"') == 1 + bool(answer.context["versions"])


def test_a_column_of_loads_has_no_path(reader: Client, airport: TargetDataset):
    html = html_of(reader.get(f"/datasets/{airport.key}/why/{KEY}/?column=%27%F0%9F%98%80"))
    assert "Loads compute this column" in html
