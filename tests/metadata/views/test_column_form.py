"""Tests of the forms of an existing and of a new column."""

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetDataset
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import TargetColumnFactory
from tests.metadata.views.columns import by_bob, column, order

pytestmark = pytest.mark.django_db


# --- an existing column --------------------------------------------------------------------------


def test_column_form_saves_the_changed_fields(editor: Client, airport: TargetDataset):
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
    assert "Nothing was changed" in words(html_of(answer))
    assert ChangeLogEntry.objects.count() == entries


def test_column_form_selects_inputs_from_the_input_columns_of_the_dataset(editor: Client, airport: TargetDataset):
    row, stage = column("name"), column("icao", "stg_air_airport")
    page = read(editor, f"/columns/{row.key}/edit/")
    editor.post(f"/columns/{row.key}/edit/", typed(page, inputs=[str(stage.key)]))
    assert [item.upstream_column for item in column("name").inputs.all()] == [stage]
    page = read(editor, f"/columns/{row.key}/edit/")
    editor.post(f"/columns/{row.key}/edit/", typed(page, expression="upper(name)"))
    assert [item.upstream_column.name for item in column("name").inputs.all()] == ["name"]


def test_column_form_shows_errors_at_fields_and_keeps_the_typed_values(editor: Client, airport: TargetDataset):
    row = column("name")
    page = read(editor, f"/columns/{row.key}/edit/")
    sent = typed(page, type="strig", expression="upper(", owner="Kim")
    answer = editor.post(f"/columns/{row.key}/edit/", sent)
    refused = html_of(answer)
    assert answer.status_code == 422
    assert "is not a type" in refused[refused.index('id="id_type_error"') :][:200]
    fields = form_of(refused, having="version")
    assert {name: fields.get(name, [""]) for name in ("type", "expression", "owner", "initial-type", "version")} == {
        "type": ["strig"],
        "expression": ["upper("],
        "owner": ["Kim"],
        "initial-type": ["string"],
        "version": ["1"],
    }
    again = editor.post(f"/columns/{row.key}/edit/", typed(refused, type="string"))
    refused = html_of(again)
    assert "field-error" in refused[refused.index('id="id_expression_error"') :][:200]
    assert column("name").version == 1


def test_continuing_after_a_conflict_merges_both_changes_without_saving(editor: Client, airport: TargetDataset):
    row = column("name")
    page = read(editor, f"/columns/{row.key}/edit/")
    by_bob("name", owner="Bob")
    conflict = html_of(editor.post(f"/columns/{row.key}/edit/", typed(page, description="Mine")))
    address = action_of(conflict, having="version")
    form = html_of(editor.post(address, form_of(conflict, having="version") | {"again": "yes"}))
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
    assert [item.upstream_column.name for item in row.inputs.all()] == ["name"]


def test_new_column_without_an_expression_reads_the_input_column_of_its_name(editor: Client, airport: TargetDataset):
    TargetColumnFactory(dataset=TargetDataset.objects.get(name="stg_air_airport"), name="lid", ordinal=9)
    add(editor, airport, name="lid", type="string")
    assert [item.upstream_column.name for item in column("lid").inputs.all()] == ["lid"]


def test_new_column_form_redirects_to_itself_to_add_another(editor: Client, airport: TargetDataset):
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
def test_invalid_new_column_is_refused_at_its_field(editor: Client, airport: TargetDataset, given: dict, field: str):
    answer = add(editor, airport, **given)
    assert answer.status_code == 422
    assert f'id="id_{field}_error"' in html_of(answer)
    assert len(order()) == 3


def test_a_name_that_needs_quotes_is_confirmed_in_the_form(editor: Client, airport: TargetDataset):
    address = f"/datasets/{airport.key}/columns/new/"
    given = {"name": "order total", "type": "string", "role": "attribute", "nullable": "on"}
    assert "quoted_name" not in html_of(editor.get(address))
    answer = editor.post(address, given)
    assert answer.status_code == 422
    assert "Keep this name" in html_of(answer)
    assert editor.post(address, given | {"quoted_name": "on"}).status_code == 302
    assert airport.columns.filter(name="order total").exists()
