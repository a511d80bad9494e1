"""Tests of edits of selected columns and sources."""

import re

import pytest
from django.test import Client

from elevata.accounts.roles import Role
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from tests.architecture.world import person as someone
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import signed_in
from tests.factories import SourceDatasetFactory

pytestmark = pytest.mark.django_db

SOURCES = "/sources/selected/edit/"


def columns_page(dataset: TargetDataset) -> str:
    return f"/datasets/{dataset.key}/columns/edit/"


def edited(editor: Client, address: str, keys: list[str], **values: str) -> str:
    """Preview and save an edit; return the next page."""
    preview = html_of(editor.post(address, {"key": keys, "preview": "yes"} | values))
    versions = re.findall(r'name="seen" value="([^"]+)"', preview)
    assert len(versions) == len(keys)
    answer = editor.post(address, {"seen": versions, "save": "yes"} | values)
    assert answer.status_code == 302
    return html_of(editor.get(answer["Location"]))


def undone(editor: Client, page: str) -> None:
    undo = re.search(r"/changes/\d+/undo/", page)[0]
    versions = re.findall(r'name="seen" value="([^"]+)"', html_of(editor.get(undo)))
    assert versions
    assert editor.post(undo, {"seen": versions}).status_code == 302


def keys(dataset: TargetDataset, *names: str) -> list[str]:
    return [str(dataset.columns.get(name=name).key) for name in names]


def test_columns_are_selected_on_a_page_of_the_dataset(editor: Client, airport: TargetDataset):
    assert columns_page(airport) in html_of(editor.get(f"/datasets/{airport.key}/"))
    html = html_of(editor.get(columns_page(airport)))
    assert "Select elevation" in html
    assert "data-selection" in html
    history = TargetDataset.objects.get(history_of=airport)
    assert editor.get(columns_page(history))["Location"] == columns_page(airport)


@pytest.mark.parametrize(
    ("action", "given", "field", "value"),
    [
        ("add_tags", {"tags": "geo"}, "tags", ["geo"]),
        ("sensitivity", {"sensitivity": "confidential"}, "sensitivity", "confidential"),
        ("pii", {"pii": "yes"}, "pii", True),
        ("owner", {"owner": "flight data"}, "owner", "flight data"),
    ],
)
def test_columns_are_edited_together_and_undone(
    action: str, given: dict, field: str, value: object, editor: Client, airport: TargetDataset
):
    names = ("elevation", "name")
    before = {name: getattr(airport.columns.get(name=name), field) for name in names}
    page = edited(editor, columns_page(airport), keys(airport, *names), do=action, **given)
    assert "2 columns changed." in page
    assert {getattr(row, field) == value for row in airport.columns.filter(name__in=names)} == {True}
    # Lowering a classification requires the permission to read classified values.
    undone(signed_in(someone("sue", Role.EDITOR, Role.STEWARD)), page)
    assert {name: getattr(airport.columns.get(name=name), field) for name in names} == before


def test_columns_of_another_dataset_are_not_edited(editor: Client, airport: TargetDataset):
    other = TargetColumn.objects.exclude(dataset=airport).first()
    answer = editor.post(columns_page(airport), {"do": "owner", "key": [str(other.key)]}, follow=True)
    assert "Select at least one column." in html_of(answer)


def test_columns_are_not_retired_together(editor: Client, airport: TargetDataset):
    answer = editor.post(columns_page(airport), {"do": "retire", "key": keys(airport, "elevation")}, follow=True)
    assert "Choose what to do with the selected columns." in html_of(answer)


def test_sources_are_tagged_and_assigned_together_and_undone(editor: Client):
    rows = SourceDatasetFactory.create_batch(2)
    chosen = [str(row.key) for row in rows]
    assert "data-selection" in html_of(editor.get("/sources/"))
    tagged = edited(editor, SOURCES, chosen, do="add_tags", tags="finance")
    edited(editor, SOURCES, chosen[:1], do="owner", owner="sales")
    assert SourceDataset.objects.filter(tags=["finance"]).count() == 2
    assert SourceDataset.objects.filter(owner="sales").count() == 1
    undone(editor, tagged)
    assert not SourceDataset.objects.filter(tags=["finance"]).exists()


def test_source_list_has_no_selection_for_readers(viewer: Client):
    SourceDatasetFactory()
    assert "data-selection" not in html_of(viewer.get("/sources/"))
