"""Tests of pasting into a dataset's columns: previewed, then saved as a whole."""

import pytest
from django.http import HttpResponse
from django.test import Client

from metadata.models import TargetDataset
from tests.elevata.web.forms import action_of, form_of, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.metadata.views.columns import HTMX, by_bob, column

pytestmark = pytest.mark.django_db


# --- pasting ---------------------------------------------------------------------------------------


def paste(client: Client, text: str, *, start: str = "icao", cell: str = "name", **more: str) -> HttpResponse:
    airport = TargetDataset.objects.get(name="rc_air_airport")
    data = {"text": text, "column": str(column(start).key), "cell": cell, **more}
    return client.post(f"/datasets/{airport.key}/columns/paste/", data)


def save(client: Client, preview: HttpResponse) -> HttpResponse:
    """Save the previewed columns by the button of the preview."""
    page = html_of(preview)
    return client.post(action_of(page, having="versions"), form_of(page, having="versions") | {"save": "yes"})


def test_a_paste_is_shown_before_anything_is_written(editor: Client, airport: TargetDataset):
    preview = paste(editor, "Who it is\tKim\nHow high\tLou", start="name", cell="description")
    page = words(html_of(preview))
    assert preview.status_code == 200
    assert "2 columns to change" in page
    assert "line 1 name description Who it is owner Kim" in page
    assert "line 2 elevation description How high owner Lou" in page
    assert column("name").owner == ""


def test_a_paste_is_saved_as_a_whole(editor: Client, airport: TargetDataset):
    preview = paste(editor, "Name\tType\tOwner\nname\tstring(40)\tKim\nrunways\tint\tLou\nicao\tstring\t")
    assert "1 unchanged" in words(html_of(preview))
    answer = save(editor, preview)
    assert answer.url == f"/datasets/{airport.key}/"
    assert (str(column("name").type), column("name").owner) == ("string(40)", "Kim")
    assert (str(column("runways").type), column("runways").owner) == ("integer", "Lou")
    page = words(read(editor, f"/datasets/{airport.key}/"))
    assert "1 column changed, 1 added." in page


def test_paste_reports_every_invalid_cell_and_saves_nothing(editor: Client, airport: TargetDataset):
    text = "Name\tType\tNullable\nname\tstrig\tno\nelevation\tfloat\tperhaps\nicao\tstring(4)\tno"
    answer = paste(editor, text, save="yes", versions="")
    page = words(html_of(answer))
    assert answer.status_code == 422
    assert "name, type: 'strig' is not a type" in page
    assert "elevation, nullable: Must be yes or no, not 'perhaps'." in page
    assert "Nothing was saved. 2 cells are invalid: see below." in page
    assert str(column("icao").type) == "string"
    assert form_of(html_of(answer), having="versions")["text"] == [text]


def test_paste_reports_errors_of_the_service_at_their_cells(editor: Client, airport: TargetDataset):
    answer = paste(editor, "Name\tExpression\tType\nname\tupper(nme)\tstring\nrow_hash\t\tstring\nuntyped\t\t")
    page = words(html_of(answer))
    assert answer.status_code == 422
    assert "'row_hash' is the name of a technical column here" in page
    assert "Type: A new column needs a type." in page
    answer = paste(editor, "Name\tExpression\nname\tupper(nme)")
    assert "name, expression: Names 'nme'" in words(html_of(answer))


def test_paste_can_swap_key_columns(editor: Client, airport: TargetDataset):
    save(editor, paste(editor, "Name\tRole\nicao\tattribute\nname\tbusiness key 1"))
    assert (column("icao").role, column("name").key_ordinal) == ("attribute", 1)


def test_empty_cells_clear_texts_and_leave_the_rest(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Bob", tags=["a"], nullable=False)
    save(editor, paste(editor, "Name\tType\tNullable\tOwner\tTags\nname\t\t\t\t"))
    row = column("name")
    assert (row.owner, row.tags, row.nullable, str(row.type)) == ("", [], False, "string")


def test_paste_over_a_concurrent_change_shows_it_before_saving(editor: Client, airport: TargetDataset):
    preview = paste(editor, "Kim", start="name", cell="owner")
    by_bob("name", owner="Bob")
    answer = save(editor, preview)
    assert answer.status_code == 409
    page = words(html_of(answer))
    assert "Another user changed columns meanwhile" in page
    assert "owner Bob → Kim" in page
    assert column("name").owner == "Bob"
    save(editor, answer)
    assert column("name").owner == "Kim"


def test_paste_does_not_overwrite_a_value_changed_since_its_preview(editor: Client, airport: TargetDataset):
    by_bob("name", owner="Kim")
    preview = paste(editor, "Name\tOwner\nname\tKim\nelevation\tLou")
    by_bob("name", owner="Bob")
    assert save(editor, preview).status_code == 409
    assert column("name").owner == "Bob"


@pytest.mark.parametrize("versions", ["", "nonsense", "a:1"])
def test_paste_with_unknown_versions_is_a_conflict(editor: Client, airport: TargetDataset, versions: str):
    assert paste(editor, "Kim", start="name", cell="owner", save="yes", versions=versions).status_code == 409


def test_a_block_that_does_not_fit_is_refused_as_a_whole(editor: Client, airport: TargetDataset):
    answer = paste(editor, "Kim\nLou\nMax", start="name", cell="owner")
    assert answer.status_code == 422
    assert "1 line more than there are columns from here down" in words(html_of(answer))


def test_paste_without_changes_cannot_be_saved(editor: Client, airport: TargetDataset):
    page = html_of(paste(editor, "Name\tType\nname\tstring"))
    assert "No changes: all values" in words(page)
    assert 'name="save"' not in page


def test_paste_request_by_htmx_returns_a_fragment(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/columns/paste/"
    answer = editor.post(address, {"text": "Kim", "column": "", "cell": "owner"}, headers=HTMX)
    assert "<html" not in html_of(answer)


def test_paste_requires_the_editor_role(viewer: Client, airport: TargetDataset):
    assert paste(viewer, "Kim", cell="owner").status_code == 403
