"""Tests of the contract page of a dataset, and of the forms of its contract and exposures."""

import pytest
from django.test import Client

from metadata.models import Exposure, TargetDataset
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.metadata.contracts import BOARD, sales_mart

pytestmark = pytest.mark.django_db


@pytest.fixture
def mart(editor: Client) -> TargetDataset:
    return sales_mart()


def test_contract_page_shows_columns_checks_pending_change_and_exposures(editor: Client, mart: TargetDataset):
    page = read(editor, f"/datasets/{mart.key}/contract/")
    assert f'href="{BOARD["link"]}"' in page
    text = words(page)
    assert "Not in force in" in text
    assert "The next report changes the contract ( none → 1.0 ): a new contract." in text
    parts = ("decimal(10,2)", "amounts Not null day Stop the load", "Finance", "Owner: Sales")
    assert all(part in text for part in parts)


def test_contract_page_exists_for_serving_datasets_only(editor: Client, mart: TargetDataset, airport: TargetDataset):
    assert editor.get(f"/datasets/{airport.key}/contract/").status_code == 404
    assert f"/datasets/{mart.key}/contract/" in read(editor, f"/datasets/{mart.key}/")
    assert "/contract/" not in read(editor, f"/datasets/{airport.key}/")


def test_exposure_path_is_not_rendered_as_a_link(viewer: Client, mart: TargetDataset):
    Exposure.objects.update(link="notebooks/sales.ipynb")
    page = read(viewer, f"/datasets/{mart.key}/contract/")
    assert "notebooks/sales.ipynb" in words(page)
    assert 'href="notebooks/sales.ipynb"' not in page
    assert "Add exposure" not in page


def test_contract_is_withdrawn_by_its_form_and_requires_an_owner(editor: Client, mart: TargetDataset):
    place = f"/datasets/{mart.key}/contract/edit/"
    answer = editor.post(place, typed(read(editor, place), contract=""))
    assert answer.url == f"/datasets/{mart.key}/contract/"
    mart.refresh_from_db()
    assert not mart.contract
    answer = editor.post(place, typed(read(editor, place), contract="on", owner=""))
    assert (answer.status_code, "A contract needs an owner" in words(html_of(answer))) == (422, True)


def test_an_exposure_is_created_changed_and_deleted(editor: Client, mart: TargetDataset):
    place = f"/datasets/{mart.key}/exposures/new/"
    values = BOARD | {"name": "Extract", "kind": "file", "link": "a.csv"}
    made = editor.post(place, typed(read(editor, place), having="link", **values))
    row = Exposure.objects.get(name="Extract")
    assert made.url == f"/datasets/{mart.key}/contract/#exposure-{row.key}"
    place = f"/exposures/{row.key}/edit/"
    editor.post(place, typed(read(editor, place), owner="Controlling"))
    row.refresh_from_db()
    assert (row.owner, row.version) == ("Controlling", 2)
    place = f"/exposures/{row.key}/delete/"
    answer = editor.post(place, typed(read(editor, place), reason="gone"))
    assert answer.url == f"/datasets/{mart.key}/contract/"
    assert [row.name for row in Exposure.objects.all()] == ["Board"]
