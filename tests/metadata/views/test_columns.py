"""Tests of a dataset's column grid: cells, concurrent edits, moves."""

import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetDataset
from metadata.services.lifecycle import retire_column
from tests.elevata.web.forms import action_of, form_of, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import TargetColumnFactory
from tests.metadata.views.columns import HTMX, by_bob, cell, column, order

pytestmark = pytest.mark.django_db


# --- the grid ------------------------------------------------------------------------------------


def test_column_grid_is_shown_to_editors_and_a_table_to_readers(editor: Client, reader: Client, airport: TargetDataset):
    page = read(editor, f"/datasets/{airport.key}/")
    assert 'role="grid"' in page
    assert re.findall(r'data-name="(\w+)"', page) == ["icao", "name", "elevation"]
    assert page.count('class="computed"') == 4
    page = read(reader, f"/datasets/{airport.key}/")
    assert 'role="grid"' not in page
    assert "needs the editor role" in words(page)


def test_grid_row_contains_the_value_of_every_cell(editor: Client, airport: TargetDataset):
    fields = {"owner": "Kim", "tags": ["a", "b"], "pii": True, "sensitivity": "internal"}
    by_bob("name", type="string(40)", nullable=False, expression="upper(name)", **fields)
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


def test_technical_column_remains_visible_in_grid_and_table(editor: Client, reader: Client, airport: TargetDataset):
    by_bob("elevation", role="technical")
    assert 'data-name="elevation"' in read(editor, f"/datasets/{airport.key}/")
    assert "technical, not in the table" in words(read(reader, f"/datasets/{airport.key}/"))


def test_dataset_page_links_to_restore_and_delete_a_retired_column(editor: Client, airport: TargetDataset):
    row = retire_column(column=column("elevation"), expected_version=1)
    page = read(editor, f"/datasets/{airport.key}/")
    assert f"/columns/{row.key}/restore/" in page
    assert f"/columns/{row.key}/delete/" in page


def test_the_grids_queries_do_not_grow_with_its_lines(
    editor: Client, airport: TargetDataset, django_assert_max_num_queries: DjangoAssertNumQueries
):
    editor.get(f"/datasets/{airport.key}/")
    with django_assert_max_num_queries(16) as few:
        editor.get(f"/datasets/{airport.key}/")
    for number in range(20):
        TargetColumnFactory(dataset=airport, name=f"more{number}", ordinal=10 + number)
    with django_assert_max_num_queries(len(few)):
        editor.get(f"/datasets/{airport.key}/")


# --- a cell --------------------------------------------------------------------------------------


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
def test_saved_cell_returns_its_row_with_the_new_version(
    editor: Client, airport: TargetDataset, name: str, value: str, field: str, stored: object
):
    answer = cell(editor, name, value)
    assert answer.status_code == 200
    saved = getattr(column("name"), field)
    assert (str(saved) if name == "type" else saved) == stored
    line = html_of(answer)
    assert line.startswith(f'<tr id="column-{column("name").key}"')
    assert f'data-version="{column("name").version}"' in line


def test_saved_cell_returns_the_address_of_its_undo(editor: Client, airport: TargetDataset):
    before = str(column("name").type)
    undo = cell(editor, "type", "decimal(12,2)").headers["Undo-Address"]
    answer = editor.post(undo, form_of(read(editor, undo), having="seen"))
    assert answer.url == f"/datasets/{airport.key}/"
    assert str(column("name").type) == before


def test_a_cell_that_was_not_changed_has_no_undo(editor: Client, airport: TargetDataset):
    assert "Undo-Address" not in cell(editor, "type", str(column("name").type)).headers


def test_cell_change_is_logged_with_its_user(editor: Client, airport: TargetDataset):
    cell(editor, "owner", "Kim")
    entry = ChangeLogEntry.objects.last()
    assert (entry.actor, entry.action, entry.subject_name) == ("mia", "changed", "rawcore.rc_air_airport.name")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("type", "strig", "is not a type"),
        ("expression", "upper(nme)", "which is no column of the dataset"),
        ("expression", "SELECT 1", "is not allowed"),
        ("role", "business key 1", "Another column has this place in the business key"),
        ("nullable", "perhaps", "Must be yes or no"),
    ],
)
def test_refused_cell_keeps_the_typed_value_and_shows_the_reason(
    editor: Client, airport: TargetDataset, name: str, value: str, message: str
):
    answer = cell(editor, name, value)
    line = html_of(answer)
    assert answer.status_code == 422
    assert f'data-typed="{value}"' in line
    assert message in words(line)
    assert line.count('aria-invalid="true"') == 1
    assert column("name").version == 1


def test_unknown_cell_is_refused_with_400(editor: Client, airport: TargetDataset):
    assert cell(editor, "name", "title").status_code == 400


def test_cell_of_an_unknown_column_returns_404(editor: Client, airport: TargetDataset):
    missing = f"/columns/{airport.key}/cell/"
    assert editor.post(missing, {"cell": "owner", "value": "x", "version": 1}).status_code == 404


def test_role_change_returns_all_rows_in_their_new_order(editor: Client, airport: TargetDataset):
    answer = cell(editor, "role", "business key 2", of="elevation")
    assert (answer.headers["HX-Retarget"], answer.headers["HX-Reswap"]) == ("#columns", "outerHTML")
    assert re.findall(r'data-name="(\w+)"', html_of(answer)) == ["icao", "elevation", "name"]
    assert column("elevation").key_ordinal == 2


# --- concurrent edits --------------------------------------------------------------------------


def test_cell_conflict_shows_both_values_and_saves_nothing(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob")
    answer = cell(editor, "description", "Who it is", version=1)
    assert answer.status_code == 409
    assert answer.headers["HX-Retarget"] == "#grid-answer"
    page = words(html_of(answer))
    assert "bob changed rawcore.rc_air_airport.name while you were editing" in page
    assert "Description empty empty Who it is" in page
    assert "Owner empty Bob unchanged by you" in page
    assert column("name").description == ""


def test_saving_over_a_conflict_changes_only_the_edited_cell(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob", description="Bob's")
    page = html_of(cell(editor, "description", "Mine", version=1))
    assert "changed by both" in words(page)
    answer = editor.post(action_of(page, having="version"), form_of(page, having="version"))
    assert answer.status_code == 302
    assert (column("name").owner, column("name").description) == ("Bob", "Mine")


@pytest.mark.parametrize(
    ("name", "value"), [("pii", "yes"), ("nullable", "no"), ("tags", "a, b"), ("type", "int"), ("role", "technical")]
)
def test_cells_of_every_kind_can_be_saved_over_a_conflict(
    editor: Client, airport: TargetDataset, name: str, value: str
):
    by_bob("elevation", owner="Bob")
    page = html_of(cell(editor, name, value, of="elevation", version=1))
    assert editor.post(action_of(page, having="version"), form_of(page, having="version")).status_code == 302
    row = column("elevation")
    assert {"pii": row.pii, "nullable": row.nullable, "tags": row.tags, "type": str(row.type), "role": row.role}[
        name
    ] == {"pii": True, "nullable": False, "tags": ["a", "b"], "type": "integer", "role": "technical"}[name]
    assert row.owner == "Bob"


def test_further_concurrent_change_is_a_conflict_again(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob")
    page = html_of(cell(editor, "owner", "Mine", version=1))
    by_bob("name", owner="Bob again")
    answer = editor.post(action_of(page, having="version"), form_of(page, having="version"))
    assert answer.status_code == 409
    assert "Owner changed by both Bob Bob again Mine" in words(html_of(answer))


# --- order ---------------------------------------------------------------------------------------


def test_moved_column_returns_all_rows_in_their_new_order(editor: Client, airport: TargetDataset):
    answer = editor.post(f"/columns/{column('name').key}/move/", {"by": "1"}, headers=HTMX)
    assert re.findall(r'data-name="(\w+)"', html_of(answer)) == ["icao", "elevation", "name"]
    assert order() == ["icao", "elevation", "name"]


def test_move_without_scripts_redirects_to_the_column(editor: Client, airport: TargetDataset):
    row = column("elevation")
    answer = editor.post(f"/columns/{row.key}/move/", {"by": "-1"})
    assert answer.url == f"/datasets/{airport.key}/#column-{row.key}"
    assert order() == ["icao", "elevation", "name"]


@pytest.mark.parametrize("by", ["-1", "0", "", "many", "-99999999999999999999"])
def test_move_beyond_the_end_or_by_an_invalid_number_changes_nothing(editor: Client, airport: TargetDataset, by: str):
    editor.post(f"/columns/{column('name').key}/move/", {"by": by})
    assert order() == ["icao", "name", "elevation"]


def test_a_retired_column_does_not_move(editor: Client, airport: TargetDataset):
    row = retire_column(column=column("elevation"), expected_version=1)
    assert editor.post(f"/columns/{row.key}/move/", {"by": "-1"}).status_code == 302
    assert column("elevation").ordinal == 3
