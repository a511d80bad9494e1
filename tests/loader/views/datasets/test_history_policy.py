"""A dataset's history policy in the browser: form, preview on five rows, saving, errors at fields."""

import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_target_column, update_target_dataset
from tests.architecture.world import World
from tests.architecture.world import person as someone
from tests.elevata.web.forms import action_of, form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, section, signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def airport(airport: TargetDataset) -> TargetDataset:
    """Return the airports dataset with columns that can date rows or contain their operation."""
    for name, type_ in (("seen_at", "timestamp"), ("sequence", "bigint"), ("op", "string(1)")):
        create_target_column(dataset=airport, name=name, type=type_, inputs=[])
    return TargetDataset.objects.get(pk=airport.pk)


def address(dataset: TargetDataset) -> str:
    return f"/datasets/{dataset.key}/policy/"


def reload(dataset: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(pk=dataset.pk)


def post(client: Client, dataset: TargetDataset, **over: Any) -> HttpResponse:
    return client.post(address(dataset), typed(read(client, address(dataset)), **over))


def show(client: Client, dataset: TargetDataset, **over: Any) -> str:
    answer = post(client, dataset, show="yes", **over)
    assert answer.status_code == 200
    return html_of(answer)


def store(dataset: TargetDataset, **changes: Any) -> None:
    row = reload(dataset)
    update_target_dataset(dataset=row, expected_version=row.version, **changes)


def field(page: str, name: str) -> str:
    """Return one field of the form, with its reason and its errors."""
    start = page.index(f'data-policy-field="{name}"')
    return page[start : page.find("data-policy-field=", start + 20)]


def is_off(page: str, name: str) -> bool:
    return "<fieldset disabled" in field(page, name)


# --- reading --------------------------------------------------------------------------------------


def test_policy_tab_is_marked_as_current(editor: Client, airport: TargetDataset):
    page = read(editor, address(airport))
    assert re.search(rf'<a href="{address(airport)}" aria-current="page"', page)


def test_viewer_sees_the_policy_and_its_effect_without_a_form(viewer: Client, airport: TargetDataset):
    store(airport, history_policy={"deletes": "tombstone"})
    page = read(viewer, address(airport))
    assert "policy-form" not in page
    assert "Changing the policy needs the editor role" in page
    assert "Deletes close the version and open a tombstone" in words(page)
    assert "4 versions are recorded" in words(section(page, "versions-head"))


def test_viewer_can_neither_save_nor_preview_a_policy(viewer: Client, editor: Client, airport: TargetDataset):
    sent = typed(read(editor, address(airport)), deletes="ignore")
    assert viewer.post(address(airport), sent).status_code == 403
    assert viewer.post(address(airport), sent | {"show": "yes"}).status_code == 403
    assert reload(airport).history_policy == {}


def test_policy_page_of_a_history_links_the_policy_of_its_base(editor: Client, airport: TargetDataset):
    page = read(editor, address(airport.history))
    assert "policy-form" not in page
    assert f'uses the policy of <a href="{address(airport)}">' in page
    assert editor.post(address(airport.history), {"version": "1"}).url == address(airport)


@pytest.mark.parametrize(("name", "message"), [("raw_air_airport", "Layer raw"), ("stg_air_airport", "Layer stage")])
def test_policy_page_explains_layers_without_history(editor: Client, airport: TargetDataset, name: str, message: str):
    page = read(editor, address(TargetDataset.objects.get(name=name)))
    assert f"{message} keeps no history" in page
    assert "policy-form" not in page


def test_every_field_has_a_label_and_a_help_text_and_every_choice_a_sentence(editor: Client, airport: TargetDataset):
    page = read(editor, address(airport))
    for name in re.findall(r'data-policy-field="(\w+)"', page):
        assert re.search(r"<(label|legend)[^>]*>", field(page, name)), name
        assert re.search(rf'id="id_{name}_helptext">\S', field(page, name)), name
    for choice in re.findall(r'<input type="radio".*?</label>', page):
        assert re.search(r'<span class="soft">[^<]+\.</span>', choice), choice


# --- preview of the policy ------------------------------------------------------------------------


def test_policy_page_shows_the_outcome_of_five_sample_rows(editor: Client, airport: TargetDataset):
    page = words(section(read(editor, address(airport)), "sample"))
    assert "Five sample rows generated for 3 of 6 columns" in page
    assert "3 A new" not in page
    assert "name changes. Ends version 1, opens version 2." in page
    assert "icao icao 2 is absent. Ends version 3." in page


def test_preview_of_a_policy_is_not_saved(editor: Client, airport: TargetDataset):
    page = show(editor, airport, input="delta")
    assert "Preview only" in page
    assert "icao icao 2 is absent. That means nothing." in words(page)
    assert form_of(page, having="version")["input"] == ["delta"]
    assert reload(airport).history_policy == {}


def test_a_late_row_that_refuses_its_delivery_is_shown_with_the_reason(editor: Client, airport: TargetDataset):
    page = words(show(editor, airport, input="effective", time="seen_at", late="refuse"))
    assert "Refused, with the whole delivery." in page
    assert "1 rows are late: not after the newest known time of their key" in page
    assert "LATE_ROWS" in page


def test_each_version_names_the_rows_that_made_it(editor: Client, airport: TargetDataset):
    page = show(editor, airport, input="cdc", time="sequence", op="op")
    made = re.findall(r"opened by (\d)(?: ended by (\d))?", words(page[page.index('id="versions-head"') :]))
    assert made == [("1", "5"), ("5", "2"), ("2", "4")]


def test_preview_uses_the_column_names_of_the_profile(editor: Client, airport: TargetDataset):
    page = words(show(editor, airport, profile="scd2"))
    assert "__valid_from __valid_to __is_current version_state" in page


def test_invalid_policy_shows_the_field_error_instead_of_the_sample(editor: Client, airport: TargetDataset):
    page = show(editor, airport, input="cdc", time="sequence")
    assert '<a href="#id_op">Operation</a>: Must name the column with I, U or D.' in page
    assert "versions-head" not in page


def test_policy_fields_without_effect_are_disabled_with_the_reason(editor: Client, airport: TargetDataset):
    page = read(editor, address(airport))
    assert is_off(page, "late")
    assert "Rows that are dated by the load are never late." in field(page, "late")
    assert not is_off(page, "deletes")
    page = show(editor, airport, input="delta", time="seen_at")
    assert not is_off(page, "late")
    assert "Deletes can only be ignored" in field(page, "deletes")


def test_preview_part_lists_the_policy_fields_without_effect(editor: Client, airport: TargetDataset):
    page = show(editor, airport, input="cdc", time="sequence", op="op")
    part = page[page.index('id="policy-unused"') :]
    json_text = part[: part.index("</script>")]
    assert '"absent_keys"' in json_text
    assert '"op"' not in json_text
    assert '"late"' not in json_text


def test_policy_page_reports_a_missing_business_key(editor: Client, airport: TargetDataset):
    store(airport, historize=False)
    airport.columns.update(role="attribute", key_ordinal=None)
    assert "The dataset has no business key" in read(editor, address(airport))


def test_number_of_queries_does_not_depend_on_the_number_of_columns(
    editor: Client, airport: TargetDataset, django_assert_max_num_queries: DjangoAssertNumQueries
):
    with django_assert_max_num_queries(26) as few:
        read(editor, address(airport))
    for number in range(30):
        create_target_column(dataset=airport, name=f"more_{number}", type="string", inputs=[])
    with django_assert_max_num_queries(len(few)):
        read(editor, address(airport))


# --- policy of an existing history ----------------------------------------------------------------


def test_policy_page_permits_every_choice_before_a_history_exists(editor: Client, airport: TargetDataset):
    assert "No history exists yet: every choice is possible" in read(editor, address(airport))


@pytest.fixture
def world_with_history(world: World) -> tuple[Client, TargetDataset]:
    """Return Ada, and the customers dataset with a stored history."""
    return signed_in(world.author), TargetDataset.objects.get(historize=True)


def test_policy_page_reports_no_change_for_the_policy_of_the_history(world_with_history: tuple[Client, TargetDataset]):
    client, dataset = world_with_history
    assert "No change: the history already uses this policy." in read(client, address(dataset))


def test_preview_shows_a_change_of_the_form_as_refused_with_the_report_decision(
    world_with_history: tuple[Client, TargetDataset],
):
    client, dataset = world_with_history
    page = words(show(client, dataset, deletes="tombstone"))
    assert "refused It would differ in whether a delete leaves a tombstone" in page
    assert "Resulting change report needs approval" in page
    assert "HISTORY_FORM" in page


def test_preview_marks_changes_that_apply_from_the_next_load(world_with_history: tuple[Client, TargetDataset]):
    client, dataset = world_with_history
    page = words(show(client, dataset, views=["current"]))
    assert "next load Views: so from the next load on; nothing that is there changes." in page
    assert "CHANGE_LOGIC" in page


# --- saving ---------------------------------------------------------------------------------------


def test_saved_policy_is_recorded_in_the_change_log(editor: Client, airport: TargetDataset):
    answer = post(editor, airport, input="effective", time="seen_at", late="ignore", label_new="I")
    assert answer.url == address(airport)
    expected = {"input": "effective", "time": "seen_at", "late": "ignore", "state_labels": {"new": "I"}}
    assert reload(airport).history_policy == expected
    entry = ChangeLogEntry.objects.order_by("-pk").first()
    assert (entry.actor, "history_policy" in entry.changes) == ("mia", True)


def test_saving_an_unchanged_policy_keeps_the_version(editor: Client, airport: TargetDataset):
    store(airport, history_policy={"input": "cdc", "time": "sequence", "op": "op", "views": ["current"]})
    version = reload(airport).version
    answer = post(editor, airport)
    assert answer.status_code == 302
    assert reload(airport).version == version


def test_policy_form_switches_the_history_off_and_on(editor: Client, airport: TargetDataset):
    post(editor, airport, historize=None)
    assert (reload(airport).historize, reload(airport).history.active) == (False, False)
    post(editor, airport, historize="on")
    assert (reload(airport).historize, reload(airport).history.active) == (True, True)


def test_policy_fields_that_are_not_sent_are_removed(editor: Client, airport: TargetDataset):
    store(airport, history_policy={"input": "effective", "time": "seen_at", "late": "ignore", "late_horizon": 3})
    post(editor, airport, input="snapshot", time="load", late=None, late_horizon=None)
    assert reload(airport).history_policy == {}


@pytest.mark.parametrize(
    ("over", "name", "message"),
    [
        ({"input": "effective"}, "time", "Must name a column"),
        ({"input": "cdc", "time": "sequence"}, "op", "Must name the column with I, U or D"),
        ({"open_end": "soon"}, "open_end", "Must be a date or timestamp like 9999-12-31"),
        ({"open_end": "2100-01-01"}, "open_end", "Must lie beyond every real time"),
        ({"input": "effective", "time": "seen_at", "late_horizon": "0"}, "late_horizon", "greater than or equal to 1"),
        ({"input": "effective", "time": "seen_at", "late_horizon": "x"}, "late_horizon", "a whole number of days"),
        ({"input": "delta", "deletes": "tombstone"}, "deletes", "Can only be ignore"),
        ({"time": "sequence"}, "time", "absent keys close at the run's time"),
        ({"late": "refuse"}, "late", "Needs rows with a time of their own"),
        ({"label_new": "x", "label_changed": "x"}, "label_new", "would both be"),
        ({"label_live": " "}, "label_live", "text that can be seen"),
        ({"null_string": "N"}, "null_string", "Goes with input batch_files only"),
        ({"time": "nowhere"}, "time", "Select a valid choice"),
        ({"track": ["seen_at"], "time": "seen_at"}, "track", "it is never tracked"),
    ],
)
def test_invalid_policy_is_refused_at_its_field_and_keeps_the_input(
    editor: Client, airport: TargetDataset, over: dict, name: str, message: str
):
    answer = post(editor, airport, **over, label_deleted="gone")
    page = html_of(answer)
    assert answer.status_code == 422
    assert message in words(page[page.index(f'id="id_{name}_error"') :][:600])
    assert form_of(page, having="version")["label_deleted"] == ["gone"]
    assert reload(airport).history_policy == {}


def test_concurrent_policy_edit_shows_both_versions_and_saves_only_own_changes(editor: Client, airport: TargetDataset):
    page = read(editor, address(airport))
    with acting_as(someone("bob", Role.EDITOR)):
        store(airport, history_policy={"deletes": "ignore"})
    answer = editor.post(address(airport), typed(page, profile="dbt"))
    form_text = words(html_of(answer))
    assert answer.status_code == 409
    assert "bob changed rawcore.rc_air_airport while you were editing" in form_text
    assert "Deletes As the input has it Ignore unchanged by you" in form_text
    assert "Names of its columns As the input has it As the input has it dbt snapshots" in form_text
    text = html_of(answer)
    saved = editor.post(action_of(text, having="version"), form_of(text, having="version"))
    assert saved.status_code == 302
    assert reload(airport).history_policy == {"deletes": "ignore", "profile": "dbt"}


def test_continuing_from_a_conflict_shows_the_form_without_saving(editor: Client, airport: TargetDataset):
    page = read(editor, address(airport))
    store(airport, history_policy={"deletes": "ignore"})
    text = html_of(editor.post(address(airport), typed(page, profile="dbt")))
    answer = editor.post(action_of(text, having="version"), form_of(text, having="version") | {"again": "yes"})
    assert form_of(html_of(answer), having="version")["profile"] == ["dbt"]
    assert reload(airport).history_policy == {"deletes": "ignore"}


# --- the load type --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "label"),
    [
        ({}, "SCD 2"),
        ({"historize": ""}, "Full"),
        ({"historize": "", "input": "append"}, "Append"),
        ({"historize": "", "input": "cdc", "time": "sequence", "op": "op"}, "Upsert"),
    ],
)
def test_preview_shows_the_load_type_of_the_policy(editor: Client, airport: TargetDataset, choices: dict, label: str):
    assert f"<b>Load type {label}.</b>" in show(editor, airport, **choices)


def test_append_is_saved_without_a_history(editor: Client, airport: TargetDataset):
    assert post(editor, airport, historize="", input="append").status_code == 302
    assert (reload(airport).historize, reload(airport).history_policy) == (False, {"input": "append"})
    facts = section(read(editor, f"/datasets/{airport.key}/"), "policy-head")
    assert "Append: Rows are only added" in words(facts)


def test_append_with_a_history_is_refused_at_its_field(editor: Client, airport: TargetDataset):
    page = show(editor, airport, input="append", historize="on")
    assert "Append only adds rows" in page


def test_a_choice_that_needs_versions_is_refused_at_its_field(editor: Client, airport: TargetDataset):
    answer = post(editor, airport, historize="", input="cdc", time="sequence", op="op", deletes="tombstone")
    assert "needs versions" in words(field(html_of(answer), "deletes").lower())
