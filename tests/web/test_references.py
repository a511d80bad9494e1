"""References between datasets in the browser: retired with a reason, brought back, never lost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from metadata.domain.roles import Role
from metadata.models import ChangeLogEntry, Reference, TargetDataset
from metadata.services.actor import acting_as
from metadata.services.lifecycle import retire_column
from metadata.services.references import retire_reference, unretire_reference
from tests.architecture.world import person as someone
from tests.web.controlling import read
from tests.web.forms import action_of, form_of, typed, words

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
    assert "rawcore.rc_air_airport business key stays" in page
    assert "Reason" in page


def test_a_retired_reference_is_logged_with_its_reason_and_leads_back_to_its_line(editor: Client, reference: Reference):
    answer = do(editor, reference, "retire", reason="routes carry no airports any more")
    assert answer.url == f"/datasets/{reference.child.key}/#reference-{reference.key}"
    assert not Reference.objects.get().active
    entry = ChangeLogEntry.objects.get(subject_kind="reference", action="retired")
    assert (entry.actor, entry.reason) == ("mia", "routes carry no airports any more")


def test_the_datasets_page_shows_it_retired_with_the_way_back(editor: Client, reference: Reference):
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
    page = answer.content.decode()
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
    text = answer.content.decode()
    assert answer.status_code == 409
    assert "bob changed" in words(text)
    editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert not Reference.objects.get().active
    assert ChangeLogEntry.objects.filter(subject_kind="reference").latest("pk").reason == "gone"


@pytest.mark.parametrize("verb", ["retire", "restore"])
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
