"""Save and create report: one click saves an edit and reports it like *Create report* of pending changes."""

import pytest
from django.http import HttpResponse
from django.test import Client

from architecture.models import Refresh
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import create_target_dataset
from tests.architecture.world import World, committed, person
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import change as by_ada
from tests.elevata.web.pages import read, signed_in
from tests.factories import TargetSchemaFactory

pytestmark = pytest.mark.django_db

SCOPE = {"kind": "dataset", "name": "rawcore.rc_crm_customer", "target_only": False}


@pytest.fixture
def editor(world: World) -> Client:
    return signed_in(person("eve", Role.EDITOR))


def save_and_report(client: Client, address: str, **changes: object) -> HttpResponse:
    page = read(client, address)
    assert f'formaction="{address}report/"' in page
    assert f'action="{address}"' in page
    return client.post(f"{address}report/", typed(page, having="version", **changes))


def test_a_column_is_saved_and_its_dataset_reported(editor: Client, world: World):
    column = TargetColumn.objects.get(name="full_name")
    answer = save_and_report(editor, f"/columns/{column.key}/edit/", owner="Kim")
    column.refresh_from_db()
    refresh = Refresh.objects.get()
    assert (column.owner, answer.url) == ("Kim", f"/refreshes/{refresh.pk}/")
    assert (refresh.purpose, refresh.scope) == (Refresh.Purpose.REPORT, SCOPE)


def test_a_dataset_is_saved_and_reported(editor: Client, world: World):
    dataset = TargetDataset.objects.get(historize=True)
    save_and_report(editor, f"/datasets/{dataset.key}/edit/", owner="Kim")
    assert TargetDataset.objects.get(pk=dataset.pk).owner == "Kim"
    assert Refresh.objects.get().scope == SCOPE


def test_a_refused_edit_is_not_reported(editor: Client, world: World):
    column = TargetColumn.objects.get(name="full_name")
    answer = save_and_report(editor, f"/columns/{column.key}/edit/", type="strig")
    assert answer.status_code == 422
    assert f'action="/columns/{column.key}/edit/"' in html_of(answer)
    assert not Refresh.objects.exists()


def test_conflicting_edit_of_another_user_is_shown_before_a_report_is_requested(editor: Client, world: World):
    column = TargetColumn.objects.get(name="full_name")
    address = f"/columns/{column.key}/edit/"
    sent = typed(read(editor, address), having="version", owner="Kim")
    by_ada(world, "full_name", owner="Ada")
    committed()
    answer = editor.post(f"{address}report/", sent)
    assert (answer.status_code, Refresh.objects.exists()) == (409, False)
    assert f'action="{address}report/"' in html_of(answer)


def test_edit_is_saved_if_its_report_is_refused(editor: Client, world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("architecture.views.report_steps.tables_in_scope", lambda **arguments: [])
    dataset = TargetDataset.objects.get(historize=True)
    answer = save_and_report(editor, f"/datasets/{dataset.key}/edit/", owner="Kim")
    assert answer.url == f"/datasets/{dataset.key}/"
    assert "The report was not created" in words(read(editor, answer.url))
    assert TargetDataset.objects.get(pk=dataset.pk).owner == "Kim"


def test_a_model_is_saved_and_reported(editor: Client, world: World):
    with acting_as(world.author):
        model = create_target_dataset(
            schema=TargetSchemaFactory(name="serving"),
            name="names",
            select="SELECT full_name FROM rawcore.rc_crm_customer",
        )
    save_and_report(editor, f"/models/{model.key}/edit/", owner="Kim")
    assert Refresh.objects.get().scope["name"] == str(model)


def test_new_column_is_added_and_its_dataset_reported(editor: Client, world: World):
    dataset = TargetDataset.objects.get(historize=True)
    page = read(editor, f"/datasets/{dataset.key}/columns/new/")
    assert f'formaction="/datasets/{dataset.key}/columns/new/report/"' in page
    values = typed(page, having="type", name="lid", type="integer")
    answer = editor.post(f"/datasets/{dataset.key}/columns/new/report/", values)
    assert answer.url == f"/refreshes/{Refresh.objects.get().pk}/"
    assert dataset.columns.filter(name="lid").exists()
    assert Refresh.objects.get().scope == SCOPE


def test_refused_new_column_is_not_reported(editor: Client, world: World):
    dataset = TargetDataset.objects.get(historize=True)
    answer = editor.post(f"/datasets/{dataset.key}/columns/new/report/", {"name": "lid", "type": "strig"})
    assert answer.status_code == 422
    assert f'action="/datasets/{dataset.key}/columns/new/"' in html_of(answer)
    assert not Refresh.objects.exists()
