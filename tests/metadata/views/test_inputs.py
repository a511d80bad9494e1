"""Tests of the form of a dataset's inputs: added, changed, retired, and not removed while a column reads them."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_target_dataset, set_dataset_inputs, update_target_dataset
from tests.architecture.world import person as someone
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import SourceDatasetFactory, TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def places(airport: TargetDataset) -> TargetDataset:
    """Return ``mart.places``, created with the columns of airports."""
    schema = TargetSchemaFactory(name="mart", layer="bizcore")
    return create_target_dataset(schema=schema, name="places", inputs=[airport], take_columns=True)


@pytest.fixture
def ports(db: None) -> TargetDataset:
    return TargetDatasetFactory(name="rc_ports")


def page_of(dataset: TargetDataset) -> str:
    return f"/datasets/{dataset.key}/inputs/"


def save(client: Client, dataset: TargetDataset, *lines: str, **over: Any) -> HttpResponse:
    page = read(client, page_of(dataset))
    return client.post(page_of(dataset), typed(page, inputs="\r\n".join(lines), **over))


def reads(dataset: TargetDataset) -> list[str]:
    return [str(item.source or item.upstream) for item in dataset.inputs.all()]


def test_inputs_page_lists_inputs_and_the_columns_that_read_them(editor: Client, places: TargetDataset):
    page = read(editor, page_of(places))
    assert "rawcore.rc_air_airport Rawcore icao, name, elevation" in words(page)
    assert form_of(page, having="version")["inputs"] == ["rawcore.rc_air_airport"]


def test_inputs_are_added_and_logged_with_the_reason(editor: Client, places: TargetDataset, ports: TargetDataset):
    answer = save(editor, places, "rawcore.rc_air_airport", "RAWCORE.rc_ports", "air.airport", reason="ports, too")
    assert answer.url == f"/datasets/{places.key}/lineage/"
    assert reads(places) == ["rawcore.rc_air_airport", "rawcore.rc_ports", "air.airport"]
    entry = ChangeLogEntry.objects.filter(subject_key=str(places.key)).latest("pk")
    assert (entry.actor, entry.reason) == ("mia", "ports, too")
    assert "rc_ports" in entry.changes


def test_inputs_change_their_order(editor: Client, places: TargetDataset, ports: TargetDataset):
    save(editor, places, "rawcore.rc_ports", "rawcore.rc_air_airport")
    assert reads(places) == ["rawcore.rc_ports", "rawcore.rc_air_airport"]


def test_input_read_by_no_column_can_be_removed(editor: Client, places: TargetDataset, ports: TargetDataset):
    save(editor, places, "rawcore.rc_air_airport", "rawcore.rc_ports")
    save(editor, places, "rawcore.rc_air_airport", reason="no ports")
    assert reads(places) == ["rawcore.rc_air_airport"]


def test_input_read_by_columns_cannot_be_removed_and_its_readers_are_listed(
    editor: Client, places: TargetDataset, ports: TargetDataset
):
    answer = save(editor, places, "rawcore.rc_ports", reason="instead")
    page = html_of(answer)
    assert answer.status_code == 422
    assert 'id="id_inputs_error"' in page
    assert "Columns still read rawcore.rc_air_airport: elevation, icao, name" in words(page)
    assert "mart.places column icao blocks the change reads rawcore.rc_air_airport" in words(page)
    fields = form_of(page, having="version")
    assert (fields["inputs"], fields["reason"]) == (["rawcore.rc_ports"], ["instead"])
    assert reads(places) == ["rawcore.rc_air_airport"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["rawcore.rc_air_airport", "mart.nowhere"], "There is no dataset or source 'mart.nowhere'."),
        (["rawcore.rc_air_airport", "old.airport"], "Similar names: air.airport"),
        (["rawcore.rc_air_airport", "mart.places"], "A dataset cannot read itself"),
    ],
)
def test_invalid_input_is_refused_at_its_field_and_the_typed_text_is_kept(
    editor: Client, places: TargetDataset, lines: list[str], message: str
):
    answer = save(editor, places, *lines, reason="for the mart")
    page = html_of(answer)
    assert answer.status_code == 422
    assert message in words(page)
    fields = form_of(page, having="version")
    assert (fields["inputs"][0].split(), fields["reason"]) == (lines, ["for the mart"])
    assert reads(places) == ["rawcore.rc_air_airport"]


def test_inputs_that_form_a_cycle_are_refused(editor: Client, places: TargetDataset):
    top = create_target_dataset(schema=places.schema, name="top", inputs=[places])
    answer = save(editor, places, "rawcore.rc_air_airport", "mart.top")
    assert answer.status_code == 422
    assert "Would read itself over its inputs" in words(html_of(answer))
    assert "input mart.top blocks the change" in words(html_of(answer))
    assert reads(top) == ["mart.places"]


def test_more_than_100_inputs_are_refused(editor: Client, places: TargetDataset):
    answer = save(editor, places, *(f"a.b{number}" for number in range(101)))
    assert answer.status_code == 422
    assert "A dataset reads at most 100 others; these are 101." in words(html_of(answer))


def test_inputs_preview_shows_the_effects_of_the_typed_inputs(
    editor: Client, places: TargetDataset, ports: TargetDataset
):
    place = f"{page_of(places)}touches/"
    part = words(html_of(editor.get(place, {"inputs": "rawcore.rc_ports"})))
    assert "column name blocks the change reads rawcore.rc_air_airport" in part
    assert "input rawcore.rc_ports follows is read, too" in part
    part = words(html_of(editor.get(place, {"inputs": "rawcore.rc_air_airport\nrawcore.nothing"})))
    assert "There is no dataset or source 'rawcore.nothing'." in part
    part = words(html_of(editor.get(place, {"inputs": "rawcore.rc_air_airport"})))
    assert part == "These are its present inputs."


def test_input_named_by_the_filter_cannot_be_removed(editor: Client, airport: TargetDataset):
    schema = TargetSchemaFactory(name="mart", layer="bizcore")
    row = create_target_dataset(schema=schema, name="high", inputs=[airport])
    update_target_dataset(dataset=row, expected_version=row.version, filter="elevation > 1000")
    part = words(html_of(editor.get(f"{page_of(row)}touches/", {"inputs": ""})))
    assert "filter blocks the change names elevation, which nothing it reads has then" in part
    answer = save(editor, row)
    assert answer.status_code == 422
    assert reads(row) == ["rawcore.rc_air_airport"]


def test_existing_input_is_kept_although_a_dataset_has_the_same_name(editor: Client, places: TargetDataset):
    """Check a system and a schema with the same name."""
    source = SourceDatasetFactory(system__short_name="rawcore", name="rc_both")
    set_dataset_inputs(dataset=places, expected_version=places.version, inputs=[places.inputs.get().upstream, source])
    TargetDatasetFactory(name="rc_both")
    places.refresh_from_db()
    save(editor, places, "rawcore.rc_both", "rawcore.rc_air_airport")
    assert [item.source for item in places.inputs.all()] == [source, None]


def test_inputs_conflict_shows_the_changes_of_both_users_and_can_be_saved_over(
    editor: Client, places: TargetDataset, ports: TargetDataset
):
    page = read(editor, page_of(places))
    with acting_as(someone("bob", Role.EDITOR)):
        now = [places.inputs.get().upstream, SourceDatasetFactory(system__short_name="sea", name="port")]
        set_dataset_inputs(dataset=places, expected_version=places.version, inputs=now)
    mine = "rawcore.rc_air_airport\nrawcore.rc_ports"
    answer = editor.post(page_of(places), typed(page, inputs=mine, reason="mine"))
    text = html_of(answer)
    assert answer.status_code == 409
    assert "bob changed mart.places while you were editing" in words(text)
    assert "rawcore.rc_air_airport, sea.port" in words(text)
    assert "rawcore.rc_air_airport, rawcore.rc_ports" in words(text)
    editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert reads(places) == ["rawcore.rc_air_airport", "rawcore.rc_ports"]


def test_continuing_after_an_inputs_conflict_keeps_the_typed_text(editor: Client, places: TargetDataset):
    page = read(editor, page_of(places))
    update_target_dataset(dataset=places, expected_version=places.version, owner="Kim")
    text = html_of(editor.post(page_of(places), typed(page, inputs="air.airport", reason="mine")))
    again = editor.post(page_of(places), form_of(text, having="version") | {"again": "yes"})
    fields = form_of(html_of(again), having="version")
    assert (again.status_code, fields["inputs"], fields["reason"]) == (200, ["air.airport"], ["mine"])
    assert reads(places) == ["rawcore.rc_air_airport"]


def test_inputs_page_of_a_history_redirects_to_its_base(editor: Client, airport: TargetDataset):
    assert editor.get(page_of(airport.history)).url == page_of(airport)


def test_inputs_page_is_linked_and_open_for_editors_only(editor: Client, viewer: Client, places: TargetDataset):
    for tab in ("", "lineage/"):
        assert page_of(places) in read(editor, f"/datasets/{places.key}/{tab}")
        assert page_of(places) not in read(viewer, f"/datasets/{places.key}/{tab}")
    assert viewer.get(page_of(places)).status_code == 403
    assert viewer.post(page_of(places), {"version": places.version, "inputs": ""}).status_code == 403
    assert viewer.get(f"{page_of(places)}touches/").status_code == 403
