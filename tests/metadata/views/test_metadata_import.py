"""Tests of the page that imports metadata from files: check, preview and import."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.services.users import ensure_user, grant_role
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import Refusals
from metadata.models import SourceDataset, System, TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.import_preview import MOST_SHOWN
from metadata.services.exchange.metadata_files import exported_files
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import signed_in, words
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = pytest.mark.django_db

PAGE = "/import-metadata/"
HEADER = "schema,dataset,column,type,business_key,description"
TOTALS = (HEADER, "bizcore,totals,,,,All totals", "bizcore,totals,day,date,1,The day", "bizcore,totals,amount,float,,")
CITY = (HEADER, "rawcore,rc_air_airport,name,string,,Name of the airport")
SYSTEM = "format: metadata/v1\nsystem:\n  short_name: net\n  name: Network\n  location: {location}\n"


def send_files(client: Client, files: dict[str, str | bytes], **more: Any) -> HttpResponse:
    """Return the response to files sent by htmx, as by the page."""
    uploads = [
        SimpleUploadedFile(name, text if isinstance(text, bytes) else text.encode()) for name, text in files.items()
    ]
    return client.post(PAGE, {"files": uploads, **more}, headers={"HX-Request": "true"})


def csv(*lines: str) -> dict[str, str | bytes]:
    return {"columns.csv": "".join(f"{line}\n" for line in lines)}


def check_files(client: Client, files: dict[str, str | bytes]) -> tuple[str, str]:
    """Return the result of a check, and the digest that its import button sends."""
    answer = send_files(client, files)
    assert answer.status_code == 200
    html = html_of(answer)
    return html, re.search(r'name="seen" value="(\w+)"', html)[1]


def faults(answer: HttpResponse) -> list[list[str]]:
    """Return the cells of the table of faults."""
    assert answer.status_code == 422
    rows = re.findall(r"<tr>(<td.*?)</tr>", html_of(answer))
    return [[words(cell) for cell in re.findall(r"<td.*?</td>", row)] for row in rows]


def test_dataset_list_links_editors_only_to_the_import(editor: Client, viewer: Client):
    link = f'href="{PAGE}"'
    assert link in html_of(editor.get("/datasets/"))
    assert link not in html_of(viewer.get("/datasets/"))
    assert viewer.get(PAGE).status_code == 403


def test_a_check_shows_counts_and_changes_and_writes_nothing(editor: Client, airport: TargetDataset):
    html, _ = check_files(editor, csv(*TOTALS, *CITY[1:]))
    text = words(html)
    assert "5 changes, no faults 1 object of the files is stored like this already. Nothing is written yet." in text
    assert "Kind Created Changed Schema 1 Dataset 1 Column 2 1" in text
    assert "created dataset bizcore.totals description All totals" in text
    assert "created column bizcore.totals.day description The day key ordinal 1 type date" in text
    assert "changed column rawcore.rc_air_airport.name description Name of the airport" in text
    assert not TargetDataset.objects.filter(name="totals").exists()


def test_import_applies_the_previewed_changes_and_logs_the_reason(editor: Client, airport: TargetDataset):
    files = csv(*TOTALS, *CITY[1:])
    _, digest = check_files(editor, files)
    answer = send_files(editor, files, seen=digest, reason="From the data model")
    assert answer.headers["HX-Redirect"] == "/datasets/"
    assert "Imported: 4 objects created, 1 object changed." in html_of(editor.get("/datasets/"))
    assert [str(column.type) for column in TargetDataset.objects.get(name="totals").columns.all()] == ["date", "float"]
    entry = ChangeLogEntry.objects.get(subject_name="rawcore.rc_air_airport.name", action="changed")
    assert (entry.actor, entry.reason) == ("mia", "From the data model")


def test_import_without_new_objects_links_to_its_undo(editor: Client, airport: TargetDataset):
    _, digest = check_files(editor, csv(*CITY))
    send_files(editor, csv(*CITY), seen=digest)
    undo = re.search(r"/changes/\d+/undo/", html_of(editor.get("/datasets/")))[0]
    assert "Name of the airport" in html_of(editor.get(undo))


def test_yaml_and_csv_files_are_imported_together(operator: Client, tmp_path: Path, settings: Any):
    settings.SOURCE_ROOTS = [str(tmp_path)]
    files = csv(*TOTALS) | {"net.yaml": SYSTEM.format(location=tmp_path)}
    html, digest = check_files(operator, files)
    assert "created system net" in words(html)
    send_files(operator, files, seen=digest)
    assert System.objects.filter(short_name="net").exists()
    assert TargetDataset.objects.filter(name="totals").exists()


def test_import_check_lists_all_faults_with_file_line_object_and_field(editor: Client, airport: TargetDataset):
    files = csv(*TOTALS, "bizcore,totals,wrong,strng,,", "bizcore,,lost,string,,")
    files["b.yaml"] = "format: metadata/v1\nschemas:\n  - {name: mart, layer: nowhere}\n"
    rows = faults(send_files(editor, files))
    assert [row[:2] for row in rows] == [["b.yaml", "3"], ["columns.csv", "5"], ["columns.csv", "6"]]
    assert rows[1][2:4] == ["bizcore.totals.wrong", "type"]
    assert rows[1][4].startswith("&#x27;strng&#x27; is not a type; known are string")
    assert not TargetDataset.objects.filter(name="totals").exists()


def test_import_check_limits_the_listed_faults_and_shows_their_total(editor: Client, airport: TargetDataset):
    answer = send_files(editor, csv(HEADER, *(f"bizcore,totals,c{number},strng,," for number in range(300))))
    assert len(faults(answer)) == Refusals.MOST_LISTED
    assert "300 faults; nothing was imported" in words(html_of(answer))


def test_import_check_limits_the_listed_changes_and_shows_their_total(editor: Client, airport: TargetDataset):
    html, _ = check_files(editor, csv(HEADER, *(f"bizcore,totals,c{number},string,," for number in range(300))))
    assert "The first 200 of 302" in words(html)
    assert html.count("badge-created") == MOST_SHOWN


@pytest.mark.nightly
def test_ten_thousand_rows_are_checked_and_imported(editor: Client, airport: TargetDataset):
    files = csv(HEADER, *(f"bizcore,totals_{number // 100},c{number},string,," for number in range(10_000)))
    html, digest = check_files(editor, files)
    assert len(html) < 200_000
    assert send_files(editor, files, seen=digest).headers["HX-Redirect"] == "/datasets/"
    assert TargetColumn.objects.filter(dataset__schema__name="bizcore").count() == 10_000


def test_an_import_is_refused_if_the_metadata_changed_since_the_check(editor: Client, airport: TargetDataset):
    _, digest = check_files(editor, csv(*CITY))
    airport.columns.filter(name="name").update(description="Changed meanwhile")
    answer = send_files(editor, csv(*CITY), seen=digest)
    assert answer.status_code == 409
    html = html_of(answer)
    assert "The files or the metadata changed since the check; nothing was imported." in html
    assert "<del>Changed meanwhile</del>" in html
    assert airport.columns.get(name="name").description == "Changed meanwhile"
    new_digest = re.search(r'name="seen" value="(\w+)"', html)[1]
    assert "HX-Redirect" in send_files(editor, csv(*CITY), seen=new_digest).headers


def test_an_import_of_other_files_than_the_checked_ones_is_refused(editor: Client, airport: TargetDataset):
    _, digest = check_files(editor, csv(*CITY))
    assert send_files(editor, csv(*TOTALS), seen=digest).status_code == 409
    assert not TargetDataset.objects.filter(name="totals").exists()


def test_files_without_changes_cannot_be_imported(editor: Client, airport: TargetDataset):
    files = csv("schema,dataset,column,type", "rawcore,rc_air_airport,name,string")
    html = html_of(send_files(editor, files))
    assert "No changes 2 objects of the files are stored like this already." in words(html)
    assert 'name="seen"' not in html


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "Choose at least one file."),
        ({"notes.txt": "x"}, "Choose files that end with .yaml, .yml, .csv, not notes.txt."),
        ({f"{number}.txt": "x" for number in range(7)}, "4.txt and 2 more."),
    ],
)
def test_missing_files_and_files_with_another_ending_are_refused(files: dict, message: str, editor: Client):
    answer = send_files(editor, files)
    assert answer.status_code == 422
    assert message in html_of(answer)


def test_two_files_with_one_name_are_refused(editor: Client):
    uploads = [SimpleUploadedFile("a.csv", b"x"), SimpleUploadedFile("a.csv", b"y")]
    answer = editor.post(PAGE, {"files": uploads}, headers={"HX-Request": "true"})
    assert "Two files are named a.csv." in html_of(answer)


def test_a_file_in_another_encoding_is_a_fault_beside_others(editor: Client):
    rows = faults(send_files(editor, {"a.csv": "schema;dataset\nGröße;x\n".encode("latin-1"), "b.yaml": ""}))
    assert [(row[0], row[4]) for row in rows] == [("a.csv", "Is not UTF-8 at byte 17."), ("b.yaml", "Holds nothing.")]


def test_a_source_outside_of_the_permitted_folders_is_a_fault(operator: Client, settings: Any):
    settings.SOURCE_ROOTS = ["/srv/landing"]
    assert faults(send_files(operator, {"net.yaml": SYSTEM.format(location="/etc")}))[0][2] == "net"
    assert not System.objects.exists()


def test_a_row_that_the_user_may_not_change_is_a_fault_of_the_check(airport: TargetDataset):
    mart = ensure_user(name="mart", roles=["viewer"])
    grant_role(user=mart, role="editor", layer="bizcore")
    rows = faults(send_files(signed_in(mart), csv(*CITY)))
    assert "needs the editor role" in rows[0][4]


def test_a_lowered_classification_is_a_fault_of_the_check(editor: Client):
    source = SourceDatasetFactory(system__short_name="crm", name="person")
    SourceColumnFactory(dataset=source, name="person_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="email", pii=True)
    generate_targets(source_dataset=SourceDataset.objects.get(pk=source.pk))
    content = exported_files()["systems/crm.yaml"].replace("pii: true", "pii: false")
    assert "takes the permission to read them" in faults(send_files(editor, {"crm.yaml": content}))[0][4]


def test_import_without_javascript_returns_a_full_page_and_needs_the_files_again(
    editor: Client, airport: TargetDataset
):
    upload = SimpleUploadedFile("city.csv", "\n".join(CITY).encode())
    html = html_of(editor.post(PAGE, {"files": [upload]}))
    assert "<h1>Import metadata</h1>" in html
    assert "Choose the same files again before you import them." in html
    digest = re.search(r'name="seen" value="(\w+)"', html)[1]
    upload.seek(0)
    assert editor.post(PAGE, {"files": [upload], "seen": digest})["Location"] == "/datasets/"


def test_columns_of_sources_are_imported_from_csv(editor: Client, airport: TargetDataset):
    files = csv("system,dataset,column,description", "air,airport,name,Name of the airport")
    html, digest = check_files(editor, files)
    assert "changed source column air.airport.name description Name of the airport" in words(html)
    send_files(editor, files, seen=digest)
    assert airport.generated_from.columns.get(name="name").description == "Name of the airport"


@pytest.mark.parametrize("name", ["datasets.csv", "sources.csv"])
def test_the_current_metadata_is_downloaded_as_csv_and_imported_without_a_change(
    name: str, editor: Client, airport: TargetDataset
):
    assert f'href="?csv={name}"' in html_of(editor.get(PAGE))
    answer = editor.get(f"{PAGE}?csv={name}")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert "No changes" in words(html_of(send_files(editor, {name: answer.content})))
