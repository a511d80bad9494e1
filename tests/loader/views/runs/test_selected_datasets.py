"""Actions on the datasets that are selected in the list."""

import re

import pytest
from django.test import Client

from architecture.models import Refresh
from elevata.audit.models import ChangeLogEntry
from loader.models import LoadRun
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of

pytestmark = pytest.mark.django_db

EDIT = "/datasets/selected/edit/"


def keys(*names: str) -> list[str]:
    return [str(TargetDataset.objects.get(name=name).key) for name in names]


def version_fields(html: str) -> list[str]:
    return re.findall(r'name="seen" value="([^"]+)"', html)


def preview_tag(editor: Client, *names: str) -> str:
    """Return the preview of a tag for these datasets."""
    answer = editor.post(EDIT, {"do": "add_tags", "key": keys(*names), "tags": "finance", "preview": "yes"})
    assert answer.status_code == 200
    return html_of(answer)


def save(editor: Client, versions: list[str], **given: str):
    values = {"do": "add_tags", "tags": "finance", "save": "yes", "filters": "layer=rawcore"} | given
    return editor.post(EDIT, values | {"seen": versions})


def test_editors_select_rows_of_the_list(editor: Client, airport: TargetDataset):
    html = html_of(editor.get("/datasets/?layer=rawcore"))
    assert f'value="{airport.key}"' in html
    assert "Select rawcore.rc_air_airport" in html


def test_dataset_list_offers_no_selection_to_a_viewer(viewer: Client, airport: TargetDataset):
    assert "data-selection" not in html_of(viewer.get("/datasets/"))


def test_action_without_a_selection_is_refused(editor: Client):
    answer = editor.post(EDIT, {"do": "retire"}, follow=True)
    assert "Select at least one dataset." in html_of(answer)


def test_an_action_asks_for_its_value_first(editor: Client, airport: TargetDataset):
    html = html_of(editor.post(EDIT, {"do": "owner", "key": keys("rc_air_airport")}))
    assert 'name="owner"' in html
    assert not version_fields(html)


def test_a_missing_value_is_refused(editor: Client, airport: TargetDataset):
    answer = editor.post(EDIT, {"do": "add_tags", "key": keys("rc_air_airport"), "tags": "", "preview": "yes"})
    assert answer.status_code == 422
    assert "Enter at least one tag." in html_of(answer)


def test_the_preview_names_each_dataset_and_its_version(editor: Client, airport: TargetDataset):
    html = preview_tag(editor, "rc_air_airport", "raw_air_airport")
    assert html.count("<ins>finance</ins>") == 2
    assert len(version_fields(html)) == 2


def test_previewed_edit_of_selected_datasets_is_saved(editor: Client, airport: TargetDataset):
    answer = save(editor, version_fields(preview_tag(editor, "rc_air_airport", "raw_air_airport")))
    assert answer["Location"] == "/datasets/?layer=rawcore"
    assert TargetDataset.objects.filter(tags=["finance"]).count() == 2


def test_edit_of_selected_datasets_is_refused_if_one_changed_since_the_preview(editor: Client, airport: TargetDataset):
    versions = version_fields(preview_tag(editor, "rc_air_airport", "raw_air_airport"))
    save(editor, versions[:1], tags="other")
    answer = save(editor, versions)
    assert answer.status_code == 409
    assert "changed by another user since the preview" in html_of(answer)
    assert not TargetDataset.objects.filter(tags=["finance"]).exists()


def test_a_retirement_is_previewed_at_once(editor: Client, airport: TargetDataset):
    html = html_of(editor.post(EDIT, {"do": "retire", "key": keys("rc_air_airport", "rc_air_airport_hist")}))
    assert "A history is retired with its base dataset." in html
    assert len(version_fields(html)) == 1


def test_an_edit_is_undone_from_its_message(editor: Client, airport: TargetDataset):
    answer = save(editor, version_fields(preview_tag(editor, "rc_air_airport", "raw_air_airport")))
    undo = re.search(r"/changes/\d+/undo/", html_of(editor.get(answer["Location"])))[0]
    assert editor.post(undo, {"seen": version_fields(html_of(editor.get(undo)))}).status_code == 302
    assert not TargetDataset.objects.exclude(tags=[]).exists()


def test_the_change_log_offers_the_undo(editor: Client, airport: TargetDataset):
    save(editor, version_fields(preview_tag(editor, "rc_air_airport")))
    assert f"/changes/{ChangeLogEntry.objects.latest('pk').pk}/undo/" in html_of(editor.get("/changes/"))


def test_a_report_of_the_selection_is_requested(editor: Client, airport: TargetDataset):
    html = html_of(editor.post("/datasets/selected/report/", {"key": keys("rc_air_airport", "raw_air_airport")}))
    selection = re.search(r'name="selection" value="([^"]+)"', html)[1]
    editor.post("/reports/make/", {"scope": "selection", "selection": selection})
    assert Refresh.objects.get().scope["name"] == "raw.raw_air_airport rawcore.rc_air_airport"


def test_load_of_the_selection_excludes_datasets_that_loads_do_not_write(operator: Client, airport: TargetDataset):
    names = ("rc_air_airport", "stg_air_airport", "rc_air_airport_hist")
    html = html_of(operator.post("/datasets/selected/load/", {"key": keys(*names)}))
    assert "A load writes it with rawcore.rc_air_airport." in html
    selection = re.search(r'name="selection" value="([^"]+)"', html)[1]
    operator.post("/start-load/", {"scope": "selection", "selection": selection})
    assert LoadRun.objects.get().scope["name"] == "rawcore.rc_air_airport"


@pytest.mark.parametrize("action", ["report", "load"])
def test_selection_with_too_long_names_is_refused(
    action: str, request: pytest.FixtureRequest, airport: TargetDataset, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("metadata.domain.scope.MAX_WORDS", 20)
    monkeypatch.setattr("loader.views.runs.load_runs.MAX_WORDS", 20)
    client = request.getfixturevalue("editor" if action == "report" else "operator")
    answer = client.post(f"/datasets/selected/{action}/", {"key": keys("rc_air_airport"), "filters": "layer=rawcore"})
    assert answer["Location"] == "/datasets/?layer=rawcore"
    assert "The names of the datasets have 22 characters; 20 are possible. Select fewer" in html_of(
        client.get(answer["Location"])
    )
