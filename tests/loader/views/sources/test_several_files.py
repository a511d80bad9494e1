"""Several files in the guided path: uploaded or selected, one source for each or one by pattern."""

from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from loader.models import LoadRun
from metadata.domain.scope import SELECTION, Scope
from metadata.models import SourceDataset, System
from tests.elevata.web.forms import form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read

pytestmark = pytest.mark.django_db

DAYS = {"kunden_2026-11-01.csv": "id;name\n1;Ada\n2;Bob\n", "kunden_2026-11-02.csv": "id;name\n3;Cal\n4;Dee\n"}
ITEMS = {"items.csv": "sku,price\na,1.50\nb,2.50\n"}


def upload(client: Client, files: dict[str, str]) -> HttpResponse:
    sent = [SimpleUploadedFile(name, content.encode()) for name, content in files.items()]
    return client.post("/systems/shop/upload/", {"file": sent})


def page_of(client: Client, landing: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        (landing / name).write_text(content)
    return html_of(client.get("/systems/shop/files/", {"location": list(files)}))


def create(client: Client, page: str, **over: str) -> HttpResponse:
    return client.post("/systems/shop/files/", typed(page, having="group-0", create_only="yes", **over))


def sources() -> dict[str, str]:
    return {source.name: source.location for source in SourceDataset.objects.order_by("name")}


def test_several_uploaded_files_lead_to_their_groups(editor: Client, shop: System, landing: Path):
    answer = upload(editor, DAYS | ITEMS)
    assert {path.name for path in landing.iterdir()} >= {*DAYS, *ITEMS}
    page = read(editor, answer.url)
    assert "kunden_*.csv" in page
    fields = form_of(page, having="group-0")
    assert (fields["group-0"], fields["group-1"]) == (["pattern"], ["each"])


@pytest.mark.parametrize(("length", "expected"), [(8, 20), (200, 18)])
def test_more_files_than_the_step_can_have_are_left_for_later(editor: Client, shop: System, length: int, expected: int):
    files = {f"{number:0{length}}.csv": "id\n1\n" for number in range(21)}
    page = words(read(editor, upload(editor, files).url))
    assert f"Only the first {expected} files are shown." in page


def test_every_note_about_the_files_of_a_group_is_shown(editor: Client, shop: System, landing: Path):
    dates = "id,name,born\n1,Ada,12 enero 1980\n2,{name},3 marzo 1981\n"
    files = {"a_2026-11-01.csv": dates.format(name="Bob"), "a_2026-11-02.csv": dates.format(name="5 \x80")}
    page = words(page_of(editor, landing, files))
    assert page.count("Read as CSV in UTF-8, fields separated by commas.") == 1
    assert page.count("born may have dates or numbers in a format that is not read; they stay texts.") == 1
    assert "a_2026-11-02.csv: 1 row with control characters" in page


def test_upload_of_a_single_file_opens_the_choice_of_its_columns(editor: Client, shop: System):
    assert upload(editor, ITEMS).url == "/systems/shop/import/?location=items.csv"


def test_refused_upload_does_not_stop_the_others_and_is_named(editor: Client, shop: System):
    answer = upload(editor, ITEMS | {"notes.pdf": "x"})
    assert answer.url == "/systems/shop/import/?location=items.csv"
    assert "The ending of notes.pdf is that of no format" in words(read(editor, answer.url))


def test_refused_uploads_are_all_shown(editor: Client, shop: System):
    answer = upload(editor, {"a.pdf": "x", "b.pdf": "y"})
    assert answer.status_code == 422
    assert all(name in html_of(answer) for name in ("a.pdf", "b.pdf"))


def test_files_of_one_header_become_one_source_by_pattern(editor: Client, shop: System, landing: Path):
    create(editor, page_of(editor, landing, DAYS))
    assert sources() == {"kunden": "kunden_*.csv"}
    source = SourceDataset.objects.get()
    assert (source.options, [column.name for column in source.columns.all()]) == ({"delimiter": ";"}, ["id", "name"])
    assert source.generated.exists()


def test_files_of_one_header_become_separate_sources_on_request(editor: Client, shop: System, landing: Path):
    create(editor, page_of(editor, landing, DAYS), **{"group-0": "each"})
    assert sources() == {name.removesuffix(".csv"): name for name in DAYS}


def test_excluded_files_become_no_source(editor: Client, shop: System, landing: Path):
    create(editor, page_of(editor, landing, DAYS | ITEMS), **{"group-0": "none"})
    assert sources() == {"items": "items.csv"}
    answer = create(editor, page_of(editor, landing, ITEMS), **{"group-0": "none"})
    assert (answer.status_code, "Choose at least one source" in html_of(answer)) == (422, True)


def test_pattern_is_not_offered_if_values_contradict_each_other(editor: Client, shop: System, landing: Path):
    files = {"sums_1.csv": "id;sum\n1;1.50\n2;2.50\n", "sums_2.csv": "id;sum\n1;1,50\n2;2,50\n"}
    assert form_of(page_of(editor, landing, files), having="group-0")["group-0"] == ["each"]


def test_no_source_is_created_if_one_of_several_is_refused(editor: Client, shop: System, landing: Path):
    create(editor, page_of(editor, landing, ITEMS))
    (landing / "in").mkdir()
    files = DAYS | {"in/items.csv": "sku,price\na,1.50\nb,2.50\n"}
    answer = create(editor, page_of(editor, landing, files))
    assert answer.status_code == 422
    assert "Nothing was created" in html_of(answer)
    assert sources() == {"items": "items.csv"}


def test_unreadable_file_is_named_beside_the_others(editor: Client, shop: System, landing: Path):
    page = page_of(editor, landing, ITEMS | {"empty.csv": ""})
    assert "empty.csv is empty" in words(page)
    create(editor, page)
    assert sources() == {"items": "items.csv"}


def test_choices_are_not_applied_to_files_that_changed_meanwhile(editor: Client, shop: System, landing: Path):
    page = page_of(editor, landing, {"empty.csv": ""} | ITEMS)
    (landing / "empty.csv").write_text("secret\n1\n")
    answer = create(editor, page)
    assert (answer.status_code, sources()) == (422, {})
    assert "The files have changed meanwhile" in html_of(answer)
    create(editor, html_of(answer))
    assert set(sources()) == {"empty", "items"}


def test_files_of_a_system_without_files_lead_to_its_contents(editor: Client, shop: System):
    System.objects.update(kind=System.Kind.KAFKA, location="kafka://broker.example")
    answer = editor.post("/systems/shop/files/", {"location": "items.csv"})
    assert (answer.status_code, answer.url) == (302, "/systems/shop/discover/")


def test_created_sources_are_loaded_by_one_run(operator: Client, shop: System, landing: Path):
    page = page_of(operator, landing, DAYS | ITEMS)
    answer = operator.post("/systems/shop/files/", typed(page, having="group-0"))
    run = LoadRun.objects.get()
    scope = Scope.from_json(run.scope)
    assert (scope.kind, set(scope.name.split())) == (SELECTION, {"rawcore.rc_shop_items", "rawcore.rc_shop_kunden"})
    assert answer.url == f"/load-runs/{run.run_id}/"


def test_files_in_the_folder_can_be_selected(editor: Client, shop: System, landing: Path):
    (landing / "items.csv").write_text(ITEMS["items.csv"])
    page = read(editor, "/systems/shop/discover/?show=now")
    assert page.count('form="several"') == 2


@pytest.mark.parametrize("address", ["/systems/shop/files/", "/systems/shop/files/?location="])
def test_without_files_the_contents_are_shown(editor: Client, shop: System, address: str):
    assert editor.get(address).url == "/systems/shop/discover/"
