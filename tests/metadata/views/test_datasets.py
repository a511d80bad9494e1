"""Tests of the pages of datasets and schemas: facts, rename, retire, restore, delete."""

import re
from html import unescape

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Permission, Role, needed_role
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import as_sentence
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.services.datasets.targets import (
    create_target_column,
    create_target_dataset,
    update_schema,
    update_target_column,
    update_target_dataset,
)
from metadata.services.lifecycle import retire_column, retire_dataset
from tests.architecture.world import person as someone
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import TargetDatasetFactory, TargetSchemaFactory

pytestmark = pytest.mark.django_db


def column(name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset__name="rc_air_airport", name=name)


def again(dataset: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(pk=dataset.pk)


def edit(client: Client, dataset: TargetDataset, **over: object) -> HttpResponse:
    address = f"/datasets/{dataset.key}/edit/"
    return client.post(address, typed(read(client, address), **over))


def by_bob(dataset: TargetDataset, **changes: object) -> None:
    row = again(dataset)
    with acting_as(someone("bob", Role.EDITOR)):
        update_target_dataset(dataset=row, expected_version=row.version, **changes)


def save_over(client: Client, page: HttpResponse, **more: str) -> HttpResponse:
    text = html_of(page)
    return client.post(action_of(text, having="version"), form_of(text, having="version") | more)


def do(client: Client, address: str, **over: object) -> HttpResponse:
    return client.post(address, typed(read(client, address), **over))


# --- facts ---------------------------------------------------------------------------------------


def test_dataset_form_saves_the_changed_fields(editor: Client, airport: TargetDataset):
    answer = edit(editor, airport, owner="Team Air", tags="golden, air", filter="icao IS NOT NULL", description="All")
    assert answer.url == f"/datasets/{airport.key}/"
    row = again(airport)
    assert (row.owner, row.tags, row.filter, row.description) == (
        "Team Air",
        ["golden", "air"],
        "icao IS NOT NULL",
        "All",
    )


def test_switching_historize_retires_and_restores_the_history(editor: Client, airport: TargetDataset):
    edit(editor, airport, historize=None)
    assert (again(airport).historize, again(airport).history.active) == (False, False)
    edit(editor, airport, historize="on")
    assert (again(airport).historize, again(airport).history.active) == (True, True)


@pytest.mark.parametrize(
    ("over", "field", "message"),
    [
        ({"filter": "nothing = 1"}, "filter", "which is no column of the dataset's inputs"),
        ({"filter": "icao ="}, "filter", "something is missing"),
        ({"materialization": "view"}, "", "Only a table that is no history itself can be historized"),
        ({"owner": "x" * 300}, "owner", "at most 200 characters"),
    ],
)
def test_invalid_dataset_form_shows_the_error_and_keeps_the_typed_values(
    editor: Client, airport: TargetDataset, over: dict, field: str, message: str
):
    answer = edit(editor, airport, **over, description="kept")
    page = html_of(answer)
    assert answer.status_code == 422
    place = page[page.index(f'id="id_{field}_error"') :] if field else page[page.index('note-error" role="alert"') :]
    assert message in words(place[:600])
    assert form_of(page, having="version")["description"] == ["kept"]
    assert again(airport).description == airport.description


def test_historize_without_a_business_key_is_refused_at_its_field(editor: Client, airport: TargetDataset):
    plain = create_target_dataset(schema=airport.schema, name="rc_air_plain")
    create_target_column(dataset=plain, name="name", type="string")
    page = html_of(edit(editor, plain, historize="on"))
    assert "History needs a business key" in words(page[page.index('id="id_historize_error"') :][:300])


def test_dataset_form_omits_historize_for_stage_and_bizcore(
    editor: Client, airport: TargetDataset, places: TargetDataset
):
    for dataset in (TargetDataset.objects.get(name="stg_air_airport"), places):
        assert 'name="historize"' not in read(editor, f"/datasets/{dataset.key}/edit/")


def test_history_form_edits_only_descriptive_fields(editor: Client, airport: TargetDataset):
    edit(editor, airport.history, description="Every version")
    assert again(airport.history).description == "Every version"
    page = read(editor, f"/datasets/{airport.history.key}/edit/")
    assert 'name="filter"' not in page
    assert f"/datasets/{airport.history.key}/rename/" not in read(editor, f"/datasets/{airport.history.key}/")


def test_dataset_form_without_its_version_is_refused(editor: Client, airport: TargetDataset):
    page = read(editor, f"/datasets/{airport.key}/edit/")
    answer = editor.post(f"/datasets/{airport.key}/edit/", typed(page, version=None, owner="x"))
    assert answer.status_code == 422
    assert "Reload the page" in words(html_of(answer))


# --- concurrent edits ----------------------------------------------------------------------------


def test_dataset_conflict_shows_the_changes_of_both_users(editor: Client, airport: TargetDataset):
    page = read(editor, f"/datasets/{airport.key}/edit/")
    by_bob(airport, owner="Bob", description="Bob's")
    answer = editor.post(f"/datasets/{airport.key}/edit/", typed(page, description="Mine", tags="golden"))
    shown = words(html_of(answer))
    assert answer.status_code == 409
    assert "bob changed rawcore.rc_air_airport while you were editing" in shown
    assert "Description changed by both empty Bob's Mine" in shown
    assert "Owner empty Bob unchanged by you" in shown
    assert "Tags empty empty golden" in shown
    assert again(airport).description == "Bob's"


def test_saving_over_a_conflict_keeps_fields_that_were_not_edited(editor: Client, airport: TargetDataset):
    page = read(editor, f"/datasets/{airport.key}/edit/")
    by_bob(airport, owner="Bob", description="Bob's")
    conflict = editor.post(f"/datasets/{airport.key}/edit/", typed(page, description="Mine", historize=None))
    assert save_over(editor, conflict).status_code == 302
    row = again(airport)
    assert (row.owner, row.description, row.historize) == ("Bob", "Mine", False)


def test_continuing_after_a_conflict_merges_both_changes_without_saving(editor: Client, airport: TargetDataset):
    page = read(editor, f"/datasets/{airport.key}/edit/")
    by_bob(airport, owner="Bob")
    conflict = editor.post(f"/datasets/{airport.key}/edit/", typed(page, description="Mine", tags="a, b"))
    form = save_over(editor, conflict, again="yes")
    fields = form_of(html_of(form), having="version")
    assert form.status_code == 200
    assert (fields["owner"], fields["description"], fields["tags"]) == (["Bob"], ["Mine"], ["a, b"])
    assert again(airport).description == ""


def test_retirement_of_a_concurrently_changed_dataset_requires_confirmation(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/retire/"
    page = read(editor, address)
    by_bob(airport, owner="Bob")
    conflict = editor.post(address, typed(page, reason="old"))
    assert conflict.status_code == 409
    assert "owner Bob" in words(html_of(conflict))
    assert "Retire all the same" in words(html_of(conflict))
    assert save_over(editor, conflict).status_code == 302
    assert not again(airport).active
    assert ChangeLogEntry.objects.filter(action="retired").first().reason == "old"


# --- a new dataset ---------------------------------------------------------------------------------


def describe(client: Client, **given: object) -> HttpResponse:
    return client.post("/datasets/new/", typed(read(client, "/datasets/new/"), having="schema", **given))


def test_new_dataset_form_creates_a_dataset_with_the_columns_of_its_inputs(editor: Client, airport: TargetDataset):
    TargetSchemaFactory(name="mart", layer="bizcore")
    answer = describe(
        editor,
        schema="mart",
        name="places",
        materialization="view",
        inputs="RAWCORE.rc_air_airport\r\n\r\nair.airport",
        take_columns="on",
        owner="Kim",
    )
    made = TargetDataset.objects.get(name="places")
    assert answer.url == f"/datasets/{made.key}/"
    assert (str(made), made.owner, made.materialization) == ("mart.places", "Kim", "view")
    assert [str(row.source or row.upstream) for row in made.inputs.all()] == ["rawcore.rc_air_airport", "air.airport"]
    assert list(made.columns.values_list("name", flat=True)) == ["icao", "name", "elevation"]


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"schema": "", "name": "x"}, "schema", "Choose a schema"),
        ({"schema": "rawcore", "name": ""}, "name", "Enter a name"),
        ({"schema": "rawcore", "name": "RC_AIR_AIRPORT"}, "name", "is the name of another dataset"),
        ({"schema": "rawcore", "name": "x_hist"}, "name", "is reserved for history tables"),
        ({"schema": "rawcore", "name": "x", "inputs": "air.nothing"}, "inputs", "no dataset or source 'air.nothing'"),
        ({"schema": "rawcore", "name": "x", "take_columns": "on"}, "inputs", "Enter the inputs"),
        ({"schema": "raw", "name": "x", "materialization": "view"}, "materialization", "Raw datasets are tables"),
    ],
)
def test_invalid_new_dataset_is_refused_at_its_field(
    editor: Client, airport: TargetDataset, given: dict, field: str, message: str
):
    known = TargetDataset.objects.count()
    answer = describe(editor, **given)
    page = html_of(answer)
    assert answer.status_code == 422
    assert message in words(page[page.index(f'id="id_{field}_error"') :][:600])
    assert TargetDataset.objects.count() == known


def test_new_dataset_form_preselects_the_schema_of_its_link(editor: Client, airport: TargetDataset):
    page = read(editor, "/datasets/new/?schema=stage")
    assert form_of(page, having="schema")["schema"] == ["stage"]


def test_new_dataset_form_without_schemas_links_to_their_creation(editor: Client):
    assert "Create one first" in words(read(editor, "/datasets/new/"))


# --- schemas -------------------------------------------------------------------------------------


def test_a_schema_is_described_and_edited(editor: Client):
    given = typed(read(editor, "/schemas/new/"), having="layer", name="mart", layer="bizcore", ordinal="5", owner="Kim")
    assert editor.post("/schemas/new/", given).url == "/schemas/#schema-mart"
    do(editor, "/schemas/mart/edit/", name="marts", description="For hand-written models", tags="gold")
    row = TargetSchema.objects.get()
    assert (row.name, row.layer, row.ordinal, row.description, row.tags) == (
        "marts",
        "bizcore",
        5,
        "For hand-written models",
        ["gold"],
    )
    assert "marts" in words(read(editor, "/schemas/"))


def test_schema_with_datasets_cannot_change_its_layer(editor: Client, airport: TargetDataset):
    answer = do(editor, "/schemas/rawcore/edit/", layer="serving")
    page = html_of(answer)
    assert answer.status_code == 422
    assert "stays in its layer" in words(page[page.index('id="id_layer_error"') :][:300])


def test_new_schema_with_a_taken_name_is_refused(editor: Client, airport: TargetDataset):
    given = typed(read(editor, "/schemas/new/"), having="layer", name="RAWCORE")
    answer = editor.post("/schemas/new/", given)
    assert answer.status_code == 422
    assert "is taken" in words(html_of(answer))


def test_concurrent_schema_change_is_a_conflict_that_can_be_saved_over(editor: Client, airport: TargetDataset):
    page = read(editor, "/schemas/rawcore/edit/")
    schema = TargetSchema.objects.get(name="rawcore")
    with acting_as(someone("bob", Role.EDITOR)):
        update_schema(schema=schema, expected_version=1, owner="Bob")
    conflict = editor.post("/schemas/rawcore/edit/", typed(page, description="Mine"))
    assert conflict.status_code == 409
    save_over(editor, conflict)
    schema.refresh_from_db()
    assert (schema.owner, schema.description) == ("Bob", "Mine")


def test_schema_page_shows_readers_that_changes_need_the_editor_role(viewer: Client, airport: TargetDataset):
    page = words(read(viewer, "/schemas/"))
    assert "rawcore" in page
    assert "needs the editor role" in page


# --- renames -------------------------------------------------------------------------------------


@pytest.fixture
def places(airport: TargetDataset) -> TargetDataset:
    """Return ``mart.places``, which reads the airports by an expression and a filter."""
    schema = TargetSchemaFactory(name="mart", layer="bizcore")
    row = create_target_dataset(schema=schema, name="places", inputs=[airport], take_columns=True)
    name = row.columns.get(name="name")
    update_target_column(column=name, expected_version=1, expression="upper(name)")
    return update_target_dataset(dataset=row, expected_version=row.version, filter="name IS NOT NULL")


def test_rename_form_shows_dependents_and_requires_a_reason(
    editor: Client, airport: TargetDataset, places: TargetDataset
):
    address = f"/columns/{column('name').key}/rename/"
    page = words(read(editor, address))
    assert "mart.places filter follows is rewritten name IS NOT NULL" in page
    assert "mart.places column name follows is rewritten upper(name)" in page
    assert "1 dataset downstream mart.places" in page
    answer = do(editor, address, name="title")
    assert answer.status_code == 422
    assert "Enter a reason. It is recorded in the change log." in words(html_of(answer))
    assert form_of(html_of(answer), having="version")["name"] == ["title"]


def test_rename_preview_shows_the_rewritten_text_for_the_typed_name(
    editor: Client, airport: TargetDataset, places: TargetDataset
):
    part = words(read(editor, f"/columns/{column('name').key}/rename/touches/?name=title"))
    assert "name IS NOT NULL → `title` IS NOT NULL" in part
    part = words(read(editor, f"/datasets/{airport.key}/rename/touches/?name=rc_airfield"))
    assert "rc_air_airport_hist → rc_airfield_hist" in part


def test_a_taken_name_is_refused_while_it_is_typed(editor: Client, airport: TargetDataset):
    part = words(read(editor, f"/columns/{column('name').key}/rename/touches/?name=elevation"))
    assert "Another column, 'elevation', has this name." in part


def test_a_taken_dataset_name_is_refused_while_it_is_typed(editor: Client, airport: TargetDataset):
    TargetDatasetFactory(schema=airport.schema, name="rc_city")
    part = words(read(editor, f"/datasets/{airport.key}/rename/touches/?name=rc_city"))
    assert "'rc_city' is the name of another dataset." in part


def test_rename_form_shows_that_a_reason_is_required(editor: Client, airport: TargetDataset):
    page = words(read(editor, f"/columns/{column('name').key}/rename/"))
    assert "Recorded in the change log. Required." in page


def test_a_renamed_column_keeps_its_former_name_and_the_reason(
    editor: Client, airport: TargetDataset, places: TargetDataset
):
    row = column("name")
    answer = do(editor, f"/columns/{row.key}/rename/", name="title", reason="as the business says")
    assert answer.url == f"/datasets/{airport.key}/#column-{row.key}"
    row.refresh_from_db()
    assert (row.name, row.former_names) == ("title", ["name"])
    assert again(places).filter == "`title` IS NOT NULL"
    entry = ChangeLogEntry.objects.get(action="renamed", subject_key=str(row.key))
    assert entry.reason == "as the business says"
    assert "formerly name" in words(read(editor, f"/datasets/{airport.key}/"))
    assert "Former names name" in words(read(editor, f"/columns/{row.key}/rename/"))


def test_undo_link_of_a_rename_restores_the_name_and_dependents(
    editor: Client, airport: TargetDataset, places: TargetDataset
):
    row = column("name")
    do(editor, f"/columns/{row.key}/rename/", name="title", reason="clearer")
    page = read(editor, f"/datasets/{airport.key}/")
    assert "name is a former name now; search still finds it. Undo" in words(page)
    undo = re.search(r'href="(/changes/\d+/undo/)"', page)[1]
    editor.post(undo, form_of(read(editor, undo), having="seen"))
    row.refresh_from_db()
    assert (row.name, row.former_names, again(places).filter) == ("name", [], "name IS NOT NULL")


def test_dataset_rename_renames_its_history(editor: Client, airport: TargetDataset):
    do(editor, f"/datasets/{airport.key}/rename/", name="rc_airfield", reason="clearer")
    assert (again(airport).name, again(airport).history.name) == ("rc_airfield", "rc_airfield_hist")


@pytest.mark.parametrize("name", ["", "icao", "row_hash", " "])
def test_invalid_new_name_is_refused_at_its_field(editor: Client, airport: TargetDataset, name: str):
    answer = do(editor, f"/columns/{column('name').key}/rename/", name=name, reason="why not")
    page = html_of(answer)
    assert answer.status_code == 422
    assert 'id="id_name_error"' in page
    assert form_of(page, having="version")["reason"] == ["why not"]


# --- retiring, restoring, deleting -----------------------------------------------------------------


def test_retirement_form_shows_dependents_and_logs_the_reason(
    editor: Client, airport: TargetDataset, places: TargetDataset
):
    address = f"/columns/{column('name').key}/retire/"
    assert "mart.places column name breaks reads it, and will have nothing to read" in words(read(editor, address))
    do(editor, address, reason="nobody uses it")
    assert not column("name").active
    assert ChangeLogEntry.objects.get(action="retired").reason == "nobody uses it"


def test_retirement_form_shows_what_blocks_it_and_is_refused(editor: Client, airport: TargetDataset):
    address = f"/columns/{column('icao').key}/retire/"
    assert "1 thing stands in the way" in words(read(editor, address))
    answer = do(editor, address)
    assert answer.status_code == 422
    assert "history needs a business key" in words(html_of(answer)).lower()
    assert column("icao").active


def test_retired_column_is_restored_by_its_form(editor: Client, airport: TargetDataset):
    row = retire_column(column=column("elevation"), expected_version=1)
    answer = do(editor, f"/columns/{row.key}/restore/")
    assert answer.url == f"/datasets/{airport.key}/#column-{row.key}"
    assert column("elevation").active


def test_column_is_deleted_by_its_form_only_when_retired(editor: Client, airport: TargetDataset):
    row = column("elevation")
    assert do(editor, f"/columns/{row.key}/delete/").status_code == 422
    row = retire_column(column=row, expected_version=1)
    answer = do(editor, f"/columns/{row.key}/delete/", reason="was a test")
    assert answer.url == f"/datasets/{airport.key}/"
    assert not TargetColumn.objects.filter(pk=row.pk).exists()
    assert editor.get(f"/columns/{row.key}/delete/").status_code == 404
    assert ChangeLogEntry.objects.get(action="deleted").reason == "was a test"


def test_dataset_is_retired_restored_and_deleted_by_its_forms(editor: Client, airport: TargetDataset):
    do(editor, f"/datasets/{airport.key}/retire/")
    assert (again(airport).active, again(airport).history.active) == (False, False)
    page = read(editor, f"/datasets/{airport.key}/")
    assert f"/datasets/{airport.key}/restore/" in page
    assert f"/datasets/{airport.key}/retire/" not in page
    do(editor, f"/datasets/{airport.key}/restore/")
    assert again(airport).active
    retire_dataset(dataset=again(airport), expected_version=again(airport).version)
    answer = do(editor, f"/datasets/{airport.key}/delete/")
    assert answer.url == "/datasets/"
    assert not TargetDataset.objects.filter(pk=airport.pk).exists()


def test_dataset_page_offers_readers_no_edit_forms(viewer: Client, airport: TargetDataset):
    page = read(viewer, f"/datasets/{airport.key}/")
    for part in ("edit", "rename", "retire"):
        assert f"/datasets/{airport.key}/{part}/" not in page
        assert viewer.post(f"/datasets/{airport.key}/{part}/", {"version": "1"}).status_code == 403
    assert again(airport).active


def test_refused_rename_preview_names_the_missing_role(viewer: Client, airport: TargetDataset):
    page = viewer.get(f"/datasets/{airport.key}/rename/touches/", {"name": "rc_other"})
    assert page.status_code == 403
    assert as_sentence(needed_role(Permission.CHANGE_METADATA)) in unescape(page.content.decode())


def test_a_dataset_is_cloned_by_its_form(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/clone/"
    assert 'value="rc_air_airport_copy"' in html_of(editor.get(address))
    answer = editor.post(address, {"schema": "rawcore", "name": "airport_copy"})
    assert answer["Location"] == f"/datasets/{TargetDataset.objects.get(name='airport_copy').key}/"


# --- undo ----------------------------------------------------------------------------------------


def test_the_message_of_a_saved_dataset_has_its_undo(editor: Client, airport: TargetDataset):
    answer = edit(editor, airport, description="All airports.")
    entry = ChangeLogEntry.objects.latest("pk")
    assert f'<a href="/changes/{entry.pk}/undo/">Undo</a>' in html_of(editor.get(answer["Location"]))


def test_the_message_of_a_retired_column_has_its_undo(editor: Client, airport: TargetDataset):
    answer = do(editor, f"/columns/{column('elevation').key}/retire/")
    entry = ChangeLogEntry.objects.latest("pk")
    assert f'<a href="/changes/{entry.pk}/undo/">Undo</a>' in html_of(editor.get(answer["Location"]))


def test_the_message_of_a_change_that_cannot_be_undone_has_no_undo(editor: Client, airport: TargetDataset):
    answer = edit(editor, airport, historize=False)
    assert "/undo/" not in html_of(editor.get(answer["Location"]))


def test_the_changes_tab_offers_the_undo_to_editors(editor: Client, viewer: Client, airport: TargetDataset):
    edit(editor, airport, description="All airports.")
    link = f"/changes/{ChangeLogEntry.objects.latest('pk').pk}/undo/"
    tabs = [html_of(client.get(f"/datasets/{airport.key}/changes/")) for client in (editor, viewer)]
    assert [link in tab for tab in tabs] == [True, False]
