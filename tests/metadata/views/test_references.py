"""References between datasets in the browser: typed, retired with a reason, brought back, never lost."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.permissions import acting_as
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
    """Routes refer to the airports they begin at."""
    return add_routes(airport).references.get()


def address(reference: Reference, verb: str) -> str:
    return f"/references/{reference.key}/{verb}/"


def do(client: Client, reference: Reference, verb: str, **over: Any) -> HttpResponse:
    place = address(reference, verb)
    return client.post(place, typed(read(client, place), **over))


def test_its_page_says_what_depends_on_it_and_asks_why(editor: Client, reference: Reference):
    page = words(read(editor, address(reference, "retire")))
    assert "Retire reference rawcore.rc_net_route → rawcore.rc_air_airport (origin)" in page
    assert "rawcore.rc_net_route foreign key follows is retired with it" in page
    assert "rawcore.rc_air_airport business key kept" in page
    assert "Reason" in page


def test_a_retired_reference_is_logged_with_its_reason_and_leads_back_to_its_line(editor: Client, reference: Reference):
    answer = do(editor, reference, "retire", reason="routes carry no airports any more")
    assert answer.url == f"/datasets/{reference.child.key}/#reference-{reference.key}"
    assert not Reference.objects.get().active
    entry = ChangeLogEntry.objects.get(subject_kind="reference", action="retired")
    assert (entry.actor, entry.reason) == ("mia", "routes carry no airports any more")


def test_the_datasets_page_shows_it_retired_with_its_restore(editor: Client, reference: Reference):
    place = f"/datasets/{reference.child.key}/"
    assert address(reference, "retire") in read(editor, place)
    do(editor, reference, "retire")
    page = read(editor, place)
    assert "this dataset as origin retired" in words(page)
    assert address(reference, "restore") in page
    assert address(reference, "retire") not in page


def test_a_retired_reference_comes_back(editor: Client, reference: Reference):
    retire_reference(reference=reference, expected_version=1)
    do(editor, reference, "restore")
    assert Reference.objects.get().active


def test_one_that_does_not_hold_any_more_is_refused_and_the_reason_kept(editor: Client, reference: Reference):
    retire_reference(reference=reference, expected_version=1)
    column = reference.child.columns.get(name="origin_icao")
    retire_column(column=column, expected_version=column.version)
    answer = do(editor, reference, "restore", reason="we need it")
    page = html_of(answer)
    assert answer.status_code == 422
    assert "is no active column of the child" in words(page)
    assert form_of(page, having="version")["reason"] == ["we need it"]
    assert not Reference.objects.get().active


def test_who_retires_what_somebody_else_touched_meanwhile_is_asked_again(editor: Client, reference: Reference):
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
def test_who_only_reads_finds_no_way_to_it(viewer: Client, reference: Reference, verb: str):
    assert address(reference, verb) not in read(viewer, f"/datasets/{reference.child.key}/")
    assert viewer.get(address(reference, verb)).status_code == 403
    assert viewer.post(address(reference, verb), {"version": "1"}).status_code == 403


def test_on_a_historys_page_there_is_nothing_to_retire(editor: Client, reference: Reference):
    assert address(reference, "retire") not in read(editor, f"/datasets/{reference.child.history.key}/")


def test_one_that_is_not_there_is_said_so(editor: Client, reference: Reference):
    key = reference.key
    reference.delete()
    assert editor.get(f"/references/{key}/retire/").status_code == 404


# --- the rule for unknown parents --------------------------------------------------------------


def test_the_rule_for_unknown_parents_is_changed_on_its_page(editor: Client, reference: Reference):
    answer = do(editor, reference, "edit", unknown_parent="ghost", reason="orders come early")
    assert answer.url == f"/datasets/{reference.child.key}/#reference-{reference.key}"
    entry = ChangeLogEntry.objects.filter(subject_kind="reference").latest("pk")
    assert (entry.actor, entry.reason) == ("mia", "orders come early")
    assert "Ghost row in the parent" in words(read(editor, f"/datasets/{reference.child.key}/"))


def test_each_rule_is_explained_in_a_sentence(editor: Client, reference: Reference):
    page = words(read(editor, address(reference, "edit")))
    assert "Refuse the load: the child's load is refused while the parent does not have the key." in page


def test_a_rule_that_cannot_be_is_refused_at_its_field(editor: Client, reference: Reference):
    reference.parent.columns.filter(role="attribute").update(nullable=False)
    answer = do(editor, reference, "edit", unknown_parent="ghost")
    page = html_of(answer)
    assert answer.status_code == 422
    assert "may not be NULL" in words(page[page.index('id="id_unknown_parent_error"') :])


# --- a new one ---------------------------------------------------------------------------------


def new(child: TargetDataset, **asked: str) -> str:
    return f"/datasets/{child.key}/references/new/" + (f"?{urlencode(asked)}" if asked else "")


def describe(client: Client, child: TargetDataset, parent: TargetDataset, *, by: str, **over: str) -> HttpResponse:
    """Name the parent, as a person does; its fields come; choose the column ``by`` for the key's only one."""
    page = read(client, new(child, parent=str(parent)))
    (key,) = parent.columns.filter(role="business_key").values_list("key", flat=True)
    column = child.columns.get(name=by).key
    return client.post(
        new(child), typed(page, having="parent", **{f"pair-{key}": str(column), "parent": str(parent), **over})
    )


def test_a_dataset_with_keys_offers_to_add_one(editor: Client, airport: TargetDataset):
    assert new(airport) in read(editor, f"/datasets/{airport.key}/")


def test_raw_rows_have_no_keys_so_nothing_is_offered(editor: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    assert new(raw) not in read(editor, f"/datasets/{raw.key}/")


def test_naming_the_parent_asks_for_its_business_key(editor: Client, reference: Reference):
    part = read(editor, f"/datasets/{reference.child.key}/references/pairs/?parent={reference.parent}")
    assert "Holds icao" in words(part)
    assert "origin_icao string" in words(part)


def test_a_parent_that_is_not_there_is_said_while_one_types(editor: Client, reference: Reference):
    part = read(editor, f"/datasets/{reference.child.key}/references/pairs/?parent=rawcore.rc_nowhere")
    assert "No active dataset is named rawcore.rc_nowhere." in words(part)


def test_what_was_described_is_there_and_logged(editor: Client, reference: Reference):
    answer = describe(editor, reference.child, reference.parent, by="origin_icao", role_name="home")
    made = Reference.objects.get(role_name="home")
    assert answer.url == f"/datasets/{made.child.key}/#reference-{made.key}"
    (pair,) = made.pairs.all()
    assert (pair.child_column.name, pair.parent_column.name) == ("origin_icao", "icao")
    assert ChangeLogEntry.objects.filter(subject_kind="reference", action="created", actor="mia").exists()


def test_a_second_one_to_the_same_parent_needs_a_role_of_its_own(editor: Client, reference: Reference):
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


def test_a_name_that_nothing_has_is_said_at_its_field_and_kept(editor: Client, reference: Reference):
    place = new(reference.child)
    answer = editor.post(
        place, typed(read(editor, place), having="parent", parent="rawcore.rc_nowhere", role_name="origin")
    )
    page = html_of(answer)
    assert answer.status_code == 422
    assert "There is no dataset" in words(page[page.index('id="id_parent_error"') :])
    assert form_of(page, having="parent")["parent"] == ["rawcore.rc_nowhere"]


def test_a_column_that_was_not_chosen_is_asked_for(editor: Client, reference: Reference):
    page = read(editor, new(reference.child, parent=str(reference.parent)))
    answer = editor.post(new(reference.child), typed(page, having="parent", role_name="home"))
    assert answer.status_code == 422
    assert "Choose the column that holds icao." in words(html_of(answer))


def test_of_a_history_it_is_its_bases_to_say(editor: Client, airport: TargetDataset):
    assert editor.get(new(airport.history)).url == new(airport)
