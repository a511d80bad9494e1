"""Tests of the classification of tables and columns: edited in forms and cells, shown on pages and by REST, found."""

import pytest
from django.test import Client

from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import create_target_dataset
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import airport_source

pytestmark = pytest.mark.django_db


def column(name: str, dataset: str = "rc_air_airport") -> TargetColumn:
    return TargetColumn.objects.get(dataset__name=dataset, name=name)


def classify(dataset: TargetDataset, level: str) -> None:
    TargetDataset.objects.filter(pk=dataset.pk).update(sensitivity=level)


def test_a_dataset_is_classified_in_its_form(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/edit/"
    editor.post(address, typed(read(editor, address), sensitivity="confidential"))
    assert TargetDataset.objects.get(pk=airport.pk).sensitivity == "confidential"


def test_sensitivity_is_shown_on_the_pages_of_dataset_and_history(viewer: Client, airport: TargetDataset):
    classify(airport, "restricted")
    for dataset in (airport, airport.history):
        assert '<span class="chip" title="Sensitivity">restricted</span>' in read(viewer, f"/datasets/{dataset.key}/")


def test_dataset_form_refuses_an_unknown_sensitivity(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/edit/"
    answer = editor.post(address, typed(read(editor, address), sensitivity="secret"))
    assert answer.status_code == 422
    assert "Select a valid choice" in words(html_of(answer))


def test_a_column_is_classified_in_its_form(editor: Client, airport: TargetDataset):
    address = f"/columns/{column('name').key}/edit/"
    editor.post(address, typed(read(editor, address), sensitivity="internal"))
    assert column("name").sensitivity == "internal"


@pytest.mark.parametrize(("text", "saved"), [("Public", "public"), ("", "")])
def test_a_column_is_classified_in_the_grid(editor: Client, airport: TargetDataset, text: str, saved: str):
    row = column("name")
    given = {"cell": "sensitivity", "value": text, "version": row.version}
    assert editor.post(f"/columns/{row.key}/cell/", given).status_code == 200
    assert column("name").sensitivity == saved


def test_grid_cell_refuses_an_unknown_sensitivity_with_the_levels(editor: Client, airport: TargetDataset):
    row = column("name")
    given = {"cell": "sensitivity", "value": "secret", "version": row.version}
    answer = editor.post(f"/columns/{row.key}/cell/", given)
    assert answer.status_code == 422
    assert "Must be public, internal, confidential or restricted" in words(html_of(answer))


def test_dataset_page_shows_readers_the_sensitivity_of_columns(viewer: Client, airport: TargetDataset):
    TargetColumn.objects.filter(pk=column("name").pk).update(sensitivity="internal")
    assert '<span class="chip">internal</span>' in read(viewer, f"/datasets/{airport.key}/")


def test_dataset_list_is_filtered_by_sensitivity(viewer: Client, airport: TargetDataset):
    classify(airport, "restricted")
    page = read(viewer, "/datasets/?sensitivity=restricted")
    assert "rc_air_airport" in page
    assert "stg_air_airport" not in page


def test_api_returns_and_filters_by_sensitivity(viewer: Client, airport: TargetDataset):
    classify(airport, "restricted")
    TargetColumn.objects.filter(pk=column("name").pk).update(sensitivity="internal")
    rows = viewer.get("/api/v1/datasets/?sensitivity=restricted").json()["results"]
    assert [(row["name"], row["sensitivity"]) for row in rows] == [("rc_air_airport", "restricted")]
    columns = viewer.get(f"/api/v1/datasets/{airport.key}/").json()["columns"]
    assert [column["name"] for column in columns if column["sensitivity"] == "internal"] == ["name"]


def test_generated_columns_are_as_sensitive_as_what_they_read():
    generate_targets(source_dataset=airport_source(icao={"key_ordinal": 1}, name={"sensitivity": "confidential"}))
    rows = TargetColumn.objects.filter(name="name").values_list("dataset__schema__layer", "sensitivity")
    assert sorted(rows) == [(layer, "confidential") for layer in ("raw", "rawcore", "stage")]


def test_columns_taken_from_an_input_keep_its_sensitivity(airport: TargetDataset):
    TargetColumn.objects.filter(pk=column("name").pk).update(sensitivity="internal")
    made = create_target_dataset(schema=airport.schema, name="copy", inputs=[airport], take_columns=True)
    assert made.columns.get(name="name").sensitivity == "internal"
