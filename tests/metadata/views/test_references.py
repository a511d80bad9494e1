"""Tests of the pages of references between datasets: creation, retirement with a reason, restoration."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import Reference, TargetDataset
from metadata.services.lifecycle import retire_column
from metadata.services.references import retire_reference, unretire_reference
from tests.architecture.world import person as someone
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read

pytestmark = pytest.mark.django_db


@pytest.fixture
def reference(airport: TargetDataset, add_routes: Callable) -> Reference:
    """Return the reference of routes to the airports of their origin."""
    return add_routes(airport).references.get()


def address(reference: Reference, verb: str) -> str:
    return f"/references/{reference.key}/{verb}/"


def do(client: Client, reference: Reference, verb: str, **over: Any) -> HttpResponse:
    place = address(reference, verb)
    return client.post(place, typed(read(client, place), **over))


def test_reference_retirement_form_shows_dependents_and_a_reason_field(editor: Client, reference: Reference):
    page = words(read(editor, address(reference, "retire")))
    assert "Retire reference rawcore.rc_net_route → rawcore.rc_air_airport (origin)" in page
    assert "rawcore.rc_net_route foreign key follows is retired with it" in page
    assert "rawcore.rc_air_airport business key kept" in page
    assert "Reason" in page


def test_reference_retirement_is_logged_and_redirects_to_its_row(editor: Client, reference: Reference):
    answer = do(editor, reference, "retire", reason="routes carry no airports any more")
    assert answer.url == f"/datasets/{reference.child.key}/#reference-{reference.key}"
    assert not Reference.objects.get().active
    entry = ChangeLogEntry.objects.get(subject_kind="reference", action="retired")
    assert (entry.actor, entry.reason) == ("mia", "routes carry no airports any more")


def test_dataset_page_marks_a_retired_reference_and_links_to_its_restoration(editor: Client, reference: Reference):
    place = f"/datasets/{reference.child.key}/"
    assert address(reference, "retire") in read(editor, place)
    do(editor, reference, "retire")
    page = read(editor, place)
    assert "this dataset as origin retired" in words(page)
    assert address(reference, "restore") in page
    assert address(reference, "retire") not in page


def test_retired_reference_is_restored_by_its_form(editor: Client, reference: Reference):
    retire_reference(reference=reference, expected_version=1)
    do(editor, reference, "restore")
    assert Reference.objects.get().active


def test_restoration_of_an_invalid_reference_is_refused_and_keeps_the_reason(editor: Client, reference: Reference):
    retire_reference(reference=reference, expected_version=1)
    column = reference.child.columns.get(name="origin_icao")
    retire_column(column=column, expected_version=column.version)
    answer = do(editor, reference, "restore", reason="we need it")
    page = html_of(answer)
    assert answer.status_code == 422
    assert "is no active column of the child" in words(page)
    assert form_of(page, having="version")["reason"] == ["we need it"]
    assert not Reference.objects.get().active


def test_retirement_of_a_concurrently_changed_reference_requires_confirmation(editor: Client, reference: Reference):
    page = read(editor, address(reference, "retire"))
    with acting_as(someone("bob", Role.EDITOR)):
        row = retire_reference(reference=reference, expected_version=1)
        unretire_reference(reference=row, expected_version=2)
    answer = editor.post(address(reference, "retire"), typed(page, reason="gone"))
    text = html_of(answer)
    assert answer.status_code == 409
    assert "bob changed" in words(text)
    editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert not Reference.objects.get().active
    assert ChangeLogEntry.objects.filter(subject_kind="reference").latest("pk").reason == "gone"


@pytest.mark.parametrize("verb", ["edit", "retire", "restore"])
def test_reference_forms_are_linked_and_open_for_editors_only(viewer: Client, reference: Reference, verb: str):
    assert address(reference, verb) not in read(viewer, f"/datasets/{reference.child.key}/")
    assert viewer.get(address(reference, verb)).status_code == 403
    assert viewer.post(address(reference, verb), {"version": "1"}).status_code == 403


def test_history_page_has_no_link_to_retire_a_reference(editor: Client, reference: Reference):
    assert address(reference, "retire") not in read(editor, f"/datasets/{reference.child.history.key}/")


def test_form_of_an_unknown_reference_returns_404(editor: Client, reference: Reference):
    key = reference.key
    reference.delete()
    assert editor.get(f"/references/{key}/retire/").status_code == 404


# --- the rule for unknown parents --------------------------------------------------------------


def test_reference_form_changes_the_rule_for_unknown_parents_and_logs_the_reason(editor: Client, reference: Reference):
    answer = do(editor, reference, "edit", unknown_parent="ghost", reason="orders come early")
    assert answer.url == f"/datasets/{reference.child.key}/#reference-{reference.key}"
    entry = ChangeLogEntry.objects.filter(subject_kind="reference").latest("pk")
    assert (entry.actor, entry.reason) == ("mia", "orders come early")
    assert "Ghost row in the parent" in words(read(editor, f"/datasets/{reference.child.key}/"))


def test_each_rule_is_explained_in_a_sentence(editor: Client, reference: Reference):
    page = words(read(editor, address(reference, "edit")))
    assert "Refuse the load: the child's load is refused while the parent does not have the key." in page


def test_rule_that_does_not_fit_the_parent_is_refused_at_its_field(editor: Client, reference: Reference):
    reference.parent.columns.filter(role="attribute").update(nullable=False)
    answer = do(editor, reference, "edit", unknown_parent="ghost")
    page = html_of(answer)
    assert answer.status_code == 422
    assert "may not be NULL" in words(page[page.index('id="id_unknown_parent_error"') :])


# --- a new reference ---------------------------------------------------------------------------


def new(child: TargetDataset, **parameters: str) -> str:
    return f"/datasets/{child.key}/references/new/" + (f"?{urlencode(parameters)}" if parameters else "")


def describe(client: Client, child: TargetDataset, parent: TargetDataset, *, by: str, **over: str) -> HttpResponse:
    """Create a reference to ``parent`` by the form, choosing the column ``by`` for its only key column."""
    page = read(client, new(child, parent=str(parent)))
    (key,) = parent.columns.filter(role="business_key").values_list("key", flat=True)
    column = child.columns.get(name=by).key
    return client.post(
        new(child), typed(page, having="parent", **{f"pair-{key}": str(column), "parent": str(parent), **over})
    )


def test_dataset_page_with_keys_links_to_a_new_reference(editor: Client, airport: TargetDataset):
    assert new(airport) in read(editor, f"/datasets/{airport.key}/")


def test_raw_dataset_page_has_no_link_to_a_new_reference(editor: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert new(raw) not in read(editor, f"/datasets/{raw.key}/")


def test_new_reference_form_lists_the_business_key_of_the_parent(editor: Client, reference: Reference):
    part = read(editor, f"/datasets/{reference.child.key}/references/pairs/?parent={reference.parent}")
    assert "Holds icao" in words(part)
    assert "origin_icao string" in words(part)


def test_new_reference_form_reports_an_unknown_parent_while_it_is_typed(editor: Client, reference: Reference):
    part = read(editor, f"/datasets/{reference.child.key}/references/pairs/?parent=rawcore.rc_nowhere")
    assert "No active dataset is named rawcore.rc_nowhere." in words(part)


def test_new_reference_form_creates_and_logs_the_reference(editor: Client, reference: Reference):
    answer = describe(editor, reference.child, reference.parent, by="origin_icao", role_name="home")
    made = Reference.objects.get(role_name="home")
    assert answer.url == f"/datasets/{made.child.key}/#reference-{made.key}"
    (pair,) = made.pairs.all()
    assert (pair.child_column.name, pair.parent_column.name) == ("origin_icao", "icao")
    assert ChangeLogEntry.objects.filter(subject_kind="reference", action="created", actor="mia").exists()


def test_second_reference_to_a_parent_requires_another_role(editor: Client, reference: Reference):
    answer = describe(editor, reference.child, reference.parent, by="origin_icao", role_name="origin")
    assert answer.status_code == 422
    assert form_of(html_of(answer), having="role_name")["role_name"] == ["origin"]
    assert Reference.objects.count() == 1


def test_a_column_of_another_type_is_refused_by_its_reason(editor: Client, reference: Reference):
    child = reference.child
    child.columns.filter(name="route_no").update(data_type="integer", length=None)
    answer = describe(editor, child, reference.parent, by="route_no", role_name="odd")
    assert answer.status_code == 422
    assert "route_no is integer" in words(html_of(answer))


def test_unknown_parent_of_a_new_reference_is_refused_at_its_field_and_kept(editor: Client, reference: Reference):
    place = new(reference.child)
    answer = editor.post(
        place, typed(read(editor, place), having="parent", parent="rawcore.rc_nowhere", role_name="origin")
    )
    page = html_of(answer)
    assert answer.status_code == 422
    assert "There is no dataset" in words(page[page.index('id="id_parent_error"') :])
    assert form_of(page, having="parent")["parent"] == ["rawcore.rc_nowhere"]


def test_new_reference_without_a_chosen_column_is_refused(editor: Client, reference: Reference):
    page = read(editor, new(reference.child, parent=str(reference.parent)))
    answer = editor.post(new(reference.child), typed(page, having="parent", role_name="home"))
    assert answer.status_code == 422
    assert "Choose the column that holds icao." in words(html_of(answer))


def test_new_reference_page_of_a_history_redirects_to_its_base(editor: Client, airport: TargetDataset):
    assert editor.get(new(airport.history)).url == new(airport)
