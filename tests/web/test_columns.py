"""A dataset's columns in the grid: cells, moves, pastes, and the form of one column."""

import json
import re

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from metadata.domain.roles import Role
from metadata.models import ChangeLogEntry, TargetColumn, TargetDataset
from metadata.services.actor import acting_as
from metadata.services.lifecycle import retire_column
from metadata.services.targets import update_target_column
from tests.architecture.world import person as someone
from tests.factories import TargetColumnFactory
from tests.web.controlling import read
from tests.web.forms import action_of, form_of, typed, words

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


def column(name: str, dataset: str = "rc_air_airport") -> TargetColumn:
    return TargetColumn.objects.get(dataset__name=dataset, name=name)


def by_bob(name: str, **changes: object) -> None:
    """Somebody else edits the column."""
    row = column(name)
    with acting_as(someone("bob", Role.EDITOR)):
        update_target_column(column=row, expected_version=row.version, **changes)


def cell(client: Client, name: str, value: str, *, of: str = "name", version: int | None = None) -> HttpResponse:
    row = column(of)
    data = {"cell": name, "value": value, "version": row.version if version is None else version}
    return client.post(f"/columns/{row.key}/cell/", data, headers=HTMX)


def order() -> list[str]:
    rows = TargetColumn.objects.filter(dataset__name="rc_air_airport", active=True).order_by("ordinal", "id")
    return list(rows.values_list("name", flat=True))


# --- the grid ------------------------------------------------------------------------------------


def test_editors_find_a_grid_with_every_line_and_who_reads_a_table(
    editor: Client, reader: Client, airport: TargetDataset
):
    page = read(editor, f"/datasets/{airport.key}/")
    assert 'role="grid"' in page
    assert re.findall(r'data-name="(\w+)"', page) == ["icao", "name", "elevation"]
    assert page.count('class="computed"') == 4
    shown = read(reader, f"/datasets/{airport.key}/")
    assert 'role="grid"' not in shown
    assert "changing them needs the role editor" in words(shown)


def test_a_line_says_what_every_cell_holds(editor: Client, airport: TargetDataset):
    said = {"owner": "Kim", "tags": ["a", "b"], "pii": True, "sensitivity": "internal"}
    by_bob("name", type="string(40)", nullable=False, expression="upper(name)", **said)
    page = read(editor, f"/datasets/{airport.key}/")
    line = page[page.index('data-name="name"') : page.index('data-name="elevation"')]
    assert dict(re.findall(r'data-cell="(\w+)".*?data-value="([^"]*)"', line)) == {
        "name": "name",
        "type": "string(40)",
        "nullable": "no",
        "role": "attribute",
        "expression": "upper(name)",
        "description": "",
        "owner": "Kim",
        "tags": "a, b",
        "pii": "yes",
        "sensitivity": "internal",
    }


def test_a_history_has_no_grid(editor: Client, airport: TargetDataset):
    assert 'role="grid"' not in read(editor, f"/datasets/{airport.history.key}/")


def test_a_technical_column_is_not_lost_from_sight(editor: Client, reader: Client, airport: TargetDataset):
    by_bob("elevation", role="technical")
    assert 'data-name="elevation"' in read(editor, f"/datasets/{airport.key}/")
    assert "technical, not in the table" in words(read(reader, f"/datasets/{airport.key}/"))


def test_what_is_out_of_use_can_be_brought_back_from_the_page(editor: Client, airport: TargetDataset):
    row = retire_column(column=column("elevation"), expected_version=1)
    page = read(editor, f"/datasets/{airport.key}/")
    assert f"/columns/{row.key}/restore/" in page
    assert f"/columns/{row.key}/delete/" in page


def test_the_grids_queries_do_not_grow_with_its_lines(
    editor: Client, airport: TargetDataset, django_assert_max_num_queries: DjangoAssertNumQueries
):
    editor.get(f"/datasets/{airport.key}/")
    with django_assert_max_num_queries(14) as few:
        editor.get(f"/datasets/{airport.key}/")
    for number in range(20):
        TargetColumnFactory(dataset=airport, name=f"more{number}", ordinal=10 + number)
    with django_assert_max_num_queries(len(few)):
        editor.get(f"/datasets/{airport.key}/")


# --- one cell ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "field", "stored"),
    [
        ("type", "decimal(12,2)", "type", "decimal(12,2)"),
        ("nullable", "no", "nullable", False),
        ("expression", "upper(name)", "expression", "upper(name)"),
        ("description", "Who it is", "description", "Who it is"),
        ("owner", "Kim", "owner", "Kim"),
        ("tags", "a, b", "tags", ["a", "b"]),
        ("pii", "yes", "pii", True),
    ],
)
def test_a_cell_is_saved_and_its_line_comes_back(
    editor: Client, airport: TargetDataset, name: str, value: str, field: str, stored: object
):
    answer = cell(editor, name, value)
    assert answer.status_code == 200
    saved = getattr(column("name"), field)
    assert (str(saved) if name == "type" else saved) == stored
    line = answer.content.decode()
    assert line.startswith(f'<tr id="column-{column("name").key}"')
    assert f'data-version="{column("name").version}"' in line


def test_the_change_log_names_who_changed_a_cell(editor: Client, airport: TargetDataset):
    cell(editor, "owner", "Kim")
    entry = ChangeLogEntry.objects.last()
    assert (entry.actor, entry.action, entry.subject_name) == ("mia", "changed", "rawcore.rc_air_airport.name")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("type", "strig", "is not a type"),
        ("expression", "upper(nme)", "which is no column of the dataset"),
        ("expression", "SELECT 1", "is not allowed"),
        ("role", "business key 1", "Another column has this place in the business key"),
        ("nullable", "perhaps", "Must be yes or no"),
    ],
)
def test_a_refused_cell_keeps_what_was_typed_and_says_why(
    editor: Client, airport: TargetDataset, name: str, value: str, said: str
):
    answer = cell(editor, name, value)
    line = answer.content.decode()
    assert answer.status_code == 422
    assert f'data-typed="{value}"' in line
    assert said in words(line)
    assert line.count('aria-invalid="true"') == 1
    assert column("name").version == 1


def test_a_cell_that_does_not_exist_is_no_request(editor: Client, airport: TargetDataset):
    assert cell(editor, "name", "title").status_code == 400


def test_a_column_that_is_gone_is_not_found(editor: Client, airport: TargetDataset):
    missing = f"/columns/{airport.key}/cell/"
    assert editor.post(missing, {"cell": "owner", "value": "x", "version": 1}).status_code == 404


def test_a_new_role_brings_all_lines_because_their_order_changes(editor: Client, airport: TargetDataset):
    answer = cell(editor, "role", "business key 2", of="elevation")
    assert (answer.headers["HX-Retarget"], answer.headers["HX-Reswap"]) == ("#columns", "outerHTML")
    assert re.findall(r'data-name="(\w+)"', answer.content.decode()) == ["icao", "elevation", "name"]
    assert column("elevation").key_ordinal == 2


# --- two people --------------------------------------------------------------------------------


def test_the_second_sees_the_others_values_beside_their_own(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob")
    answer = cell(editor, "description", "Who it is", version=1)
    assert answer.status_code == 409
    assert answer.headers["HX-Retarget"] == "#grid-answer"
    page = words(answer.content.decode())
    assert "bob changed rawcore.rc_air_airport.name while you were at it" in page
    assert "Description empty empty Who it is" in page
    assert "Owner empty Bob you did not touch it: theirs stays" in page
    assert column("name").description == ""


def test_saving_mine_over_it_changes_only_what_i_touched(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob", description="Bob's")
    page = cell(editor, "description", "Mine", version=1).content.decode()
    assert "you both changed it" in words(page)
    answer = editor.post(action_of(page, having="version"), form_of(page, having="version"))
    assert answer.status_code == 302
    assert (column("name").owner, column("name").description) == ("Bob", "Mine")


@pytest.mark.parametrize(
    ("name", "value"), [("pii", "yes"), ("nullable", "no"), ("tags", "a, b"), ("type", "int"), ("role", "technical")]
)
def test_every_cell_can_be_saved_over(editor: Client, airport: TargetDataset, name: str, value: str):
    by_bob("elevation", owner="Bob")
    page = cell(editor, name, value, of="elevation", version=1).content.decode()
    assert editor.post(action_of(page, having="version"), form_of(page, having="version")).status_code == 302
    row = column("elevation")
    assert {"pii": row.pii, "nullable": row.nullable, "tags": row.tags, "type": str(row.type), "role": row.role}[
        name
    ] == {"pii": True, "nullable": False, "tags": ["a", "b"], "type": "integer", "role": "technical"}[name]
    assert row.owner == "Bob"


def test_a_third_change_is_a_conflict_again(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob")
    page = cell(editor, "owner", "Mine", version=1).content.decode()
    by_bob("name", owner="Bob again")
    answer = editor.post(action_of(page, having="version"), form_of(page, having="version"))
    assert answer.status_code == 409
    assert "Owner you both changed it Bob Bob again Mine" in words(answer.content.decode())


# --- order ---------------------------------------------------------------------------------------


def test_a_column_moves_and_all_lines_come_back(editor: Client, airport: TargetDataset):
    answer = editor.post(f"/columns/{column('name').key}/move/", {"by": "1"}, headers=HTMX)
    assert re.findall(r'data-name="(\w+)"', answer.content.decode()) == ["icao", "elevation", "name"]
    assert order() == ["icao", "elevation", "name"]


def test_without_scripts_a_move_leads_back_to_the_line(editor: Client, airport: TargetDataset):
    row = column("elevation")
    answer = editor.post(f"/columns/{row.key}/move/", {"by": "-1"})
    assert answer.url == f"/datasets/{airport.key}/#column-{row.key}"
    assert order() == ["icao", "elevation", "name"]


@pytest.mark.parametrize("by", ["-1", "0", "", "many", "-99999999999999999999"])
def test_at_the_end_and_by_nothing_it_stays(editor: Client, airport: TargetDataset, by: str):
    editor.post(f"/columns/{column('name').key}/move/", {"by": by})
    assert order() == ["icao", "name", "elevation"]


def test_a_retired_column_does_not_move(editor: Client, airport: TargetDataset):
    row = retire_column(column=column("elevation"), expected_version=1)
    assert editor.post(f"/columns/{row.key}/move/", {"by": "-1"}).status_code == 302
    assert column("elevation").ordinal == 3


# --- a column's own form -------------------------------------------------------------------------


def test_the_form_does_what_the_grid_does_without_scripts(editor: Client, airport: TargetDataset):
    row = column("name")
    page = read(editor, f"/columns/{row.key}/edit/")
    answer = editor.post(
        f"/columns/{row.key}/edit/", typed(page, type="string(40)", owner="Kim", nullable=None, pii="on", tags="a, b")
    )
    assert answer.url == f"/datasets/{airport.key}/#column-{row.key}"
    row = column("name")
    assert (str(row.type), row.owner, row.nullable, row.pii, row.tags) == ("string(40)", "Kim", False, True, ["a", "b"])


def test_a_form_that_changes_nothing_writes_nothing(editor: Client, airport: TargetDataset):
    by_bob("name", description="two\nlines", tags=["a", "b"], pii=True)
    entries = ChangeLogEntry.objects.count()
    page = read(editor, f"/columns/{column('name').key}/edit/")
    sent = typed(page)
    sent = {name: [value.replace("\n", "\r\n") for value in values] for name, values in sent.items()}
    answer = editor.post(f"/columns/{column('name').key}/edit/", sent, follow=True)
    assert "Nothing was changed" in words(answer.content.decode())
    assert ChangeLogEntry.objects.count() == entries


def test_what_a_column_reads_is_chosen_from_its_datasets_inputs(editor: Client, airport: TargetDataset):
    row, stage = column("name"), column("icao", "stg_air_airport")
    page = read(editor, f"/columns/{row.key}/edit/")
    editor.post(f"/columns/{row.key}/edit/", typed(page, inputs=[str(stage.key)]))
    assert [one.upstream_column for one in column("name").inputs.all()] == [stage]
    page = read(editor, f"/columns/{row.key}/edit/")
    editor.post(f"/columns/{row.key}/edit/", typed(page, expression="upper(name)"))
    assert [one.upstream_column.name for one in column("name").inputs.all()] == ["name"]


def test_errors_stand_by_their_fields_and_nothing_typed_is_lost(editor: Client, airport: TargetDataset):
    row = column("name")
    page = read(editor, f"/columns/{row.key}/edit/")
    sent = typed(page, type="strig", expression="upper(", owner="Kim")
    answer = editor.post(f"/columns/{row.key}/edit/", sent)
    refused = answer.content.decode()
    assert answer.status_code == 422
    assert "is not a type" in refused[refused.index('id="id_type_error"') :][:200]
    kept = form_of(refused, having="version")
    assert {name: kept.get(name, [""]) for name in ("type", "expression", "owner", "initial-type", "version")} == {
        "type": ["strig"],
        "expression": ["upper("],
        "owner": ["Kim"],
        "initial-type": ["string"],
        "version": ["1"],
    }
    again = editor.post(f"/columns/{row.key}/edit/", typed(refused, type="string"))
    refused = again.content.decode()
    assert "field-error" in refused[refused.index('id="id_expression_error"') :][:200]
    assert column("name").version == 1


def test_going_on_editing_keeps_both_and_saves_nothing_yet(editor: Client, airport: TargetDataset):
    row = column("name")
    page = read(editor, f"/columns/{row.key}/edit/")
    by_bob("name", owner="Bob")
    conflict = editor.post(f"/columns/{row.key}/edit/", typed(page, description="Mine")).content.decode()
    address = action_of(conflict, having="version")
    form = editor.post(address, form_of(conflict, having="version") | {"again": "yes"}).content.decode()
    fields = form_of(form, having="version")
    assert (fields["owner"], fields["description"], fields["version"]) == (["Bob"], ["Mine"], ["2"])
    assert column("name").description == ""
    editor.post(address, typed(form, owner="Both"))
    assert (column("name").owner, column("name").description) == ("Both", "Mine")


# --- a new column ----------------------------------------------------------------------------------


def add(client: Client, dataset: TargetDataset, **given: object) -> HttpResponse:
    page = read(client, f"/datasets/{dataset.key}/columns/new/")
    return client.post(f"/datasets/{dataset.key}/columns/new/", typed(page, having="type", **given))


def test_a_column_is_added_after_the_others(editor: Client, airport: TargetDataset):
    answer = add(editor, airport, name="shout", type="string(50)", expression="upper(name)", description="Loud")
    row = column("shout")
    assert answer.url == f"/datasets/{airport.key}/#column-{row.key}"
    assert order()[-1] == "shout"
    assert row.nullable
    assert [one.upstream_column.name for one in row.inputs.all()] == ["name"]


def test_without_expression_it_reads_its_namesake(editor: Client, airport: TargetDataset):
    TargetColumnFactory(dataset=TargetDataset.objects.get(name="stg_air_airport"), name="lid", ordinal=9)
    add(editor, airport, name="lid", type="string")
    assert [one.upstream_column.name for one in column("lid").inputs.all()] == ["lid"]


def test_one_can_add_another_at_once(editor: Client, airport: TargetDataset):
    assert add(editor, airport, name="note", type="string", another="yes").url.endswith("/columns/new/")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "", "type": "string"}, "name"),
        ({"name": "row_hash", "type": "string"}, "name"),
        ({"name": "ICAO", "type": "string"}, "name"),
        ({"name": "note", "type": ""}, "type"),
        ({"name": "note", "type": "string", "expression": "nothing + 1"}, "expression"),
        ({"name": "note", "type": "string", "role": "business key 9"}, "role"),
    ],
)
def test_what_cannot_be_added_is_said_by_its_field(editor: Client, airport: TargetDataset, given: dict, field: str):
    answer = add(editor, airport, **given)
    assert answer.status_code == 422
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert len(order()) == 3


# --- pasting ---------------------------------------------------------------------------------------


def paste(client: Client, text: str, *, start: str = "icao", cell: str = "name", **more: str) -> HttpResponse:
    airport = TargetDataset.objects.get(name="rc_air_airport")
    data = {"text": text, "column": str(column(start).key), "cell": cell, **more}
    return client.post(f"/datasets/{airport.key}/columns/paste/", data)


def save(client: Client, shown: HttpResponse) -> HttpResponse:
    """Press what the preview offers."""
    page = shown.content.decode()
    return client.post(action_of(page, having="versions"), form_of(page, having="versions") | {"save": "yes"})


def test_a_paste_is_shown_before_anything_is_written(editor: Client, airport: TargetDataset):
    shown = paste(editor, "Who it is\tKim\nHow high\tLou", start="name", cell="description")
    page = words(shown.content.decode())
    assert shown.status_code == 200
    assert "2 columns to change" in page
    assert "line 1 name description Who it is owner Kim" in page
    assert "line 2 elevation description How high owner Lou" in page
    assert column("name").owner == ""


def test_a_paste_is_saved_as_a_whole(editor: Client, airport: TargetDataset):
    shown = paste(editor, "Name\tType\tOwner\nname\tstring(40)\tKim\nrunways\tint\tLou\nicao\tstring\t")
    assert "1 as it is already" in words(shown.content.decode())
    answer = save(editor, shown)
    assert answer.url == f"/datasets/{airport.key}/"
    assert (str(column("name").type), column("name").owner) == ("string(40)", "Kim")
    assert (str(column("runways").type), column("runways").owner) == ("integer", "Lou")
    page = words(read(editor, f"/datasets/{airport.key}/"))
    assert "1 column changed, 1 added." in page


def test_every_cell_that_cannot_be_taken_is_named_and_nothing_is_saved(editor: Client, airport: TargetDataset):
    text = "Name\tType\tNullable\nname\tstrig\tno\nelevation\tfloat\tperhaps\nicao\tstring(4)\tno"
    answer = paste(editor, text, save="yes", versions="{}")
    page = words(answer.content.decode())
    assert answer.status_code == 422
    assert "name, type: 'strig' is not a type" in page
    assert "elevation, nullable: Must be yes or no, not 'perhaps'." in page
    assert "2 cells cannot be taken" in page
    assert str(column("icao").type) == "string"
    assert form_of(answer.content.decode(), having="versions")["text"] == [text]


def test_what_only_the_service_knows_is_said_by_its_cell_too(editor: Client, airport: TargetDataset):
    answer = paste(editor, "Name\tExpression\tType\nname\tupper(nme)\tstring\nrow_hash\t\tstring\nuntyped\t\t")
    page = words(answer.content.decode())
    assert answer.status_code == 422
    assert "'row_hash' is the name of a technical column here" in page
    assert "Type: A new column needs a type." in page
    answer = paste(editor, "Name\tExpression\nname\tupper(nme)")
    assert "name, expression: Names 'nme'" in words(answer.content.decode())


def test_keys_can_change_places_in_one_paste(editor: Client, airport: TargetDataset):
    save(editor, paste(editor, "Name\tRole\nicao\tattribute\nname\tbusiness key 1"))
    assert (column("icao").role, column("name").key_ordinal) == ("attribute", 1)


def test_empty_cells_clear_texts_and_leave_the_rest(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob", tags=["a"], nullable=False)
    save(editor, paste(editor, "Name\tType\tNullable\tOwner\tTags\nname\t\t\t\t"))
    row = column("name")
    assert (row.owner, row.tags, row.nullable, str(row.type)) == ("", [], False, "string")


def test_a_paste_over_what_somebody_else_changed_shows_theirs_first(editor: Client, airport: TargetDataset):
    shown = paste(editor, "Kim", start="name", cell="owner")
    by_bob("name", owner="Bob")
    answer = save(editor, shown)
    assert answer.status_code == 409
    page = words(answer.content.decode())
    assert "Somebody else changed columns while you were looking" in page
    assert "owner Bob → Kim" in page
    assert column("name").owner == "Bob"
    save(editor, answer)
    assert column("name").owner == "Kim"


def test_what_did_not_differ_when_it_was_shown_is_not_overwritten_unseen(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Kim")
    shown = paste(editor, "Name\tOwner\nname\tKim\nelevation\tLou")
    by_bob("name", owner="Bob")
    assert save(editor, shown).status_code == 409
    assert column("name").owner == "Bob"


@pytest.mark.parametrize("versions", ["", "[]", "nonsense", json.dumps({"a": "b"})])
def test_versions_that_nobody_was_shown_count_as_not_seen(editor: Client, airport: TargetDataset, versions: str):
    assert paste(editor, "Kim", start="name", cell="owner", save="yes", versions=versions).status_code == 409


def test_a_block_that_does_not_fit_is_refused_as_a_whole(editor: Client, airport: TargetDataset):
    answer = paste(editor, "Kim\nLou\nMax", start="name", cell="owner")
    assert answer.status_code == 422
    assert "1 line more than there are columns from here down" in words(answer.content.decode())


def test_a_paste_that_changes_nothing_says_so_and_offers_nothing(editor: Client, airport: TargetDataset):
    page = paste(editor, "Name\tType\nname\tstring").content.decode()
    assert "nothing would change" in words(page)
    assert 'name="save"' not in page


def test_a_part_of_the_page_is_enough_for_htmx(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/columns/paste/"
    answer = editor.post(address, {"text": "Kim", "column": "", "cell": "owner"}, headers=HTMX)
    assert "<html" not in answer.content.decode()


def test_who_may_not_edit_may_not_paste_either(viewer: Client, airport: TargetDataset):
    assert paste(viewer, "Kim", cell="owner").status_code == 403
