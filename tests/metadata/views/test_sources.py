"""Tests of the form of a source dataset."""

from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import SourceDataset
from metadata.services.sources import update_source_dataset
from tests.architecture.world import person as someone
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import SourceColumnFactory, SourceDatasetFactory, SystemFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(tmp_path: Path, settings: Any) -> SourceDataset:
    """Return the orders of a shop, in the only folder that sources may be in."""
    folder = tmp_path / "landing"
    folder.mkdir()
    settings.SOURCE_ROOTS = [str(folder)]
    shop = SystemFactory(short_name="shop", location=str(folder))
    return SourceDatasetFactory(system=shop, name="orders", location="orders.csv", options={"delimiter": ";"})


def page_of(source: SourceDataset) -> str:
    return f"/sources/{source.key}/edit/"


def save(client: Client, source: SourceDataset, **over: Any) -> HttpResponse:
    return client.post(page_of(source), typed(read(client, page_of(source)), **over))


def again(source: SourceDataset) -> SourceDataset:
    return SourceDataset.objects.get(pk=source.pk)


def test_source_form_saves_descriptive_fields_and_logs_the_change(editor: Client, orders: SourceDataset):
    answer = save(editor, orders, description="What was sold", owner="Team Shop", tags="sales, daily")
    assert answer.url == f"/sources/{orders.key}/"
    now = again(orders)
    assert (now.description, now.owner, now.tags) == ("What was sold", "Team Shop", ["sales", "daily"])
    assert now.options == {"delimiter": ";"}
    entry = ChangeLogEntry.objects.get(subject_kind="source_dataset")
    assert (entry.actor, entry.action) == ("mia", "changed")
    page = words(read(editor, answer.url))
    assert "Owner Team Shop Tags sales daily" in page


def test_source_form_saves_name_location_format_and_active(editor: Client, orders: SourceDataset):
    save(
        editor, orders, name="Orders", short_name="sales", location="sales/", format="jsonl", delimiter="", active=None
    )
    now = again(orders)
    assert (now.name, now.short_name, now.location, now.format, now.active) == (
        "Orders",
        "sales",
        "sales/",
        "jsonl",
        False,
    )
    assert now.options == {}


@pytest.mark.parametrize(
    ("typed_in", "options"),
    [
        ({"delimiter": ""}, {}),
        ({"delimiter": "tab", "encoding": "latin-1"}, {"delimiter": "\t", "encoding": "latin-1"}),
        ({"quote": "none", "escape": "\\"}, {"delimiter": ";", "quote": "", "escape": "\\"}),
        ({"header": "no"}, {"delimiter": ";", "header": False}),
        (
            {"null_string": "none", "timezone": "Europe/Berlin"},
            {"delimiter": ";", "null_string": "none", "timezone": "Europe/Berlin"},
        ),
        ({"expected_files": "3"}, {"delimiter": ";", "expected_files": 3}),
        ({"header": "yes", "empty_is_null": "no"}, {"delimiter": ";", "header": True, "empty_is_null": False}),
    ],
)
def test_source_options_are_parsed_from_and_shown_as_the_typed_text(
    editor: Client, orders: SourceDataset, typed_in: dict[str, str], options: dict[str, Any]
):
    save(editor, orders, **typed_in)
    assert again(orders).options == options
    shown = form_of(read(editor, page_of(orders)), having="version")
    assert {name: shown[name] for name in typed_in} == {name: [text] for name, text in typed_in.items()}


@pytest.mark.parametrize(
    ("over", "field", "message"),
    [
        ({"name": ""}, "name", "Enter a name"),
        ({"short_name": "1 x"}, "short_name", "must start with a letter"),
        ({"location": ""}, "location", "Enter a location"),
        ({"location": "../../etc/passwd"}, "location", ""),
        ({"location": "/etc/passwd"}, "location", ""),
        ({"delimiter": ";;"}, "delimiter", "Must be one character"),
        ({"delimiter": "none"}, "delimiter", "Must be one character, not empty"),
        ({"format": "parquet"}, "delimiter", "Is no option of parquet; known are timezone,"),
        ({"timezone": "Europe/Atlantis"}, "timezone", "Must be a time zone like Europe/Berlin"),
        ({"expected_files": "0"}, "expected_files", "greater than or equal to 1"),
        ({"format": "table"}, "format", "Select a valid choice"),
        ({"format": "jsonl", "delimiter": "", "header": "no"}, "header", "Is no option of jsonl"),
    ],
)
def test_invalid_source_form_shows_the_error_at_its_field_and_keeps_the_typed_text(
    editor: Client, orders: SourceDataset, over: dict[str, str], field: str, message: str
):
    answer = save(editor, orders, description="kept", **over)
    page = html_of(answer)
    assert answer.status_code == 422
    place = page.index(f'id="id_{field}_error"')
    assert message in words(page[place : place + 400])
    fields = form_of(page, having="version")
    assert fields["description"] == ["kept"]
    assert {name: fields[name] for name in over if name != "format"} == {
        name: [text] for name, text in over.items() if name != "format"
    }
    assert again(orders).version == orders.version


def test_a_name_that_is_taken_is_refused(editor: Client, orders: SourceDataset):
    SourceDatasetFactory(system=orders.system, name="returns")
    answer = save(editor, orders, name="returns")
    assert answer.status_code == 422
    assert "The system has another dataset of this name" in words(html_of(answer))


def test_source_form_keeps_an_existing_forbidden_location_unless_it_is_changed(editor: Client, orders: SourceDataset):
    SourceDataset.objects.update(location="/somewhere/else.csv")
    assert save(editor, orders, owner="Team Shop").status_code == 302
    assert again(orders).owner == "Team Shop"


def test_source_form_of_a_database_refuses_a_file_format(editor: Client, db: None):
    system = SystemFactory(short_name="erp", kind="jdbc", location="postgresql://reader@db/erp")
    source = SourceDatasetFactory(system=system, name="orders", format="table", location="public.orders")
    save(editor, source, location="sales.orders")
    assert again(source).location == "sales.orders"
    assert save(editor, source, format="csv").status_code == 422


def test_source_conflict_shows_the_changes_of_both_users_and_can_be_saved_over(editor: Client, orders: SourceDataset):
    page = read(editor, page_of(orders))
    with acting_as(someone("bob", Role.EDITOR)):
        changes = {"owner": "Bob", "options": {"delimiter": "\t"}}
        update_source_dataset(source_dataset=orders, expected_version=orders.version, **changes)
    answer = editor.post(page_of(orders), typed(page, owner="Mia"))
    text = html_of(answer)
    assert answer.status_code == 409
    assert "bob changed shop.orders while you were editing" in words(text)
    assert "Owner changed by both" in words(text)
    assert "Delimiter ; tab" in words(text)
    editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert (again(orders).owner, again(orders).options) == ("Mia", {"delimiter": "\t"})


def test_unchanged_source_form_writes_nothing(editor: Client, orders: SourceDataset):
    assert save(editor, orders).status_code == 302
    assert again(orders).version == orders.version
    assert not ChangeLogEntry.objects.filter(subject_kind="source_dataset").exists()


def test_source_form_is_linked_and_open_for_editors_only(viewer: Client, orders: SourceDataset):
    assert page_of(orders) not in read(viewer, f"/sources/{orders.key}/")
    assert viewer.get(page_of(orders)).status_code == 403
    assert viewer.post(page_of(orders), {"version": orders.version, "name": "x"}).status_code == 403


@pytest.fixture
def customers(db: None) -> SourceDataset:
    """Return a database table whose rows have the time of their last change."""
    erp = SystemFactory(short_name="erp", kind="jdbc", location="postgresql://reader@db/erp")
    policy = {"input": "delta"}
    source = SourceDatasetFactory(system=erp, name="customer", format="table", history_policy=policy)
    SourceColumnFactory(dataset=source, name="id", data_type="integer", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="changed_at", data_type="timestamp")
    return source


def test_empty_options_show_their_default_and_others_an_example(editor: Client, customers: SourceDataset):
    fields = read(editor, page_of(customers)).split('class="field"')
    names = ("fetch_size", "partitions", "trim_keys", "query", "watermark")
    shown = {name: next(field for field in fields if f'name="{name}"' in field) for name in names}
    assert 'placeholder="10000"' in shown["fetch_size"]
    assert "Example: 4" in shown["partitions"]
    assert "as usual (no)" in shown["trim_keys"]
    assert not any("placeholder" in shown[name] for name in ("partitions", "query", "watermark"))


def test_multiline_source_option_is_stored_with_plain_line_ends(editor: Client, customers: SourceDataset):
    save(editor, customers, query="SELECT id\r\nFROM customer")
    assert again(customers).options == {"query": "SELECT id\nFROM customer"}


def test_the_intake_of_a_table_is_edited_and_shown(editor: Client, customers: SourceDataset):
    save(editor, customers, watermark="changed_at", look_back="2 days")
    assert again(customers).intake == {"watermark": ["changed_at"], "look_back": "2 days"}
    shown = form_of(read(editor, page_of(customers)), having="version")
    assert (shown["watermark"], shown["look_back"]) == (["changed_at"], ["2 days"])
    assert "Watermark changed_at Look-back 2 days" in words(read(editor, f"/sources/{customers.key}/"))
    assert save(editor, customers).status_code == 302
    assert again(customers).version == customers.version + 1
    save(editor, customers, tolerance="3 hours")
    assert again(customers).intake["tolerance"] == "3 hours"
    assert "Tolerance 3 hours" in words(read(editor, f"/sources/{customers.key}/"))
    save(editor, customers, watermark="", look_back="", tolerance="")
    assert again(customers).intake == {}


@pytest.mark.parametrize(
    ("over", "field", "message"),
    [
        ({"watermark": "gone"}, "watermark", "There is no column"),
        ({"watermark": "changed_at", "look_back": "5"}, "look_back", "Must be a time like 2 days"),
        ({"watermark": "", "look_back": "2 days"}, "look_back", "Needs a watermark"),
        ({"watermark": "changed_at", "look_back": "soon"}, "look_back", "Must be a number from 1"),
        ({"watermark": "changed_at", "tolerance": "5"}, "tolerance", "Must be a time like 2 days"),
    ],
)
def test_an_intake_that_cannot_be_saved_is_refused_at_its_field(
    editor: Client, customers: SourceDataset, over: dict[str, str], field: str, message: str
):
    answer = save(editor, customers, **over)
    page = html_of(answer)
    assert answer.status_code == 422
    place = page.index(f'id="id_{field}_error"')
    assert message in words(page[place : place + 400])


def test_watermark_field_is_shown_for_formats_with_a_watermark_only(editor: Client, orders: SourceDataset):
    page = read(editor, page_of(orders))
    place = page.index('name="watermark"')
    assert 'data-formats="table rest delta parquet orc avro"' in page[place - 300 : place + 300]
