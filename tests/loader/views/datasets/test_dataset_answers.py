"""Answers of a dataset's data: samples, changes of runs, files, versions of a key, origin of rows."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from architecture.domain.tables import history_table
from elevata.accounts.services.users import ensure_user, grant_role, set_roles
from loader.models import ReadRequest
from loader.services.reads.exports import export_file, remove_old_exports
from loader.services.reads.manifests import read_manifest
from metadata.domain.sensitivity import MASK
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.dataset_states import dataset_state
from tests.elevata.web.forms import typed
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words
from tests.loader.factories import DatasetRunFactory, LoadRunFactory, ReadRequestFactory, loaded
from tests.loader.views.datasets.dataset_data import KEY, LONG, answered_read, ask, data, part, table_of

pytestmark = pytest.mark.django_db


def test_sample_distinguishes_null_from_empty_text_and_keeps_long_values(
    reader: Client, airport: TargetDataset, person: User
):
    row = {"icao": "EDDB", "name": LONG, "elevation": None}
    text = part(reader, answered_read(airport, person, "sample", row, {"icao": "<b>", "name": ""}))
    assert '<span class="nothing">NULL</span>' in text
    assert '<span class="nothing empty-text">empty text</span>' in text
    assert f"<span>{LONG}</span></details>" in text
    assert "&lt;b&gt;" in text
    assert 'tabindex="0"' in text
    assert "times in UTC" in text


def test_columns_with_personal_data_are_marked(reader: Client, airport: TargetDataset, person: User):
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    text = part(reader, answered_read(airport, person, "sample", {"icao": "EDDB", "name": MASK}, masked=["name"]))
    assert words(text).count("personal data masked") == 1
    assert 'title="Masked: your roles do not include sensitive values"' in text


def test_answer_with_a_column_classified_later_is_withheld(reader: Client, airport: TargetDataset, person: User):
    made = answered_read(airport, person, "sample", {"icao": "EDDB", "name": "Berlin"})
    assert "Berlin" in part(reader, made)
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    assert "Berlin" not in part(reader, made)
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 403
    set_roles(user=person, roles=["steward"])
    assert "Berlin" in part(reader, made)


def test_export_is_streamed_until_its_file_is_removed(
    reader: Client, airport: TargetDataset, person: User, settings, tmp_path: Path
):
    settings.EXPORT_FOLDER = str(tmp_path)
    made = answered_read(airport, person, "export", exported=2, masked=[])
    assert "Download 2 rows" in words(part(reader, made))
    export_file(made).write_text('"icao"\r\n"EDDB"\r\n"EDDF"\r\n')
    answer = reader.get(f"/reads/{made.pk}/rows.csv")
    assert answer.streaming
    assert answer.getvalue() == b'"icao"\r\n"EDDB"\r\n"EDDF"\r\n'
    remove_old_exports(timedelta(seconds=-1))
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 404


def test_export_with_a_column_classified_later_is_withheld(reader: Client, airport: TargetDataset, person: User):
    made = answered_read(airport, person, "export", exported=2, masked=[])
    TargetColumn.objects.filter(dataset=airport, name="name").update(pii=True)
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 403


@pytest.mark.parametrize("kind", ["sample", "as_of"])
def test_data_of_another_schema_is_not_read(client: Client, airport: TargetDataset, kind: str):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=airport.schema.name)
    client.force_login(vera)
    assert client.get(data(airport)).status_code == 200
    assert client.get(data(raw)).status_code == 403
    assert client.get(f"/datasets/{raw.key}/").status_code == 200
    assert client.post(f"/datasets/{raw.key}/reads/", {"kind": kind}).status_code == 403
    assert "EDDB" not in part(client, answered_read(raw, vera, "sample", {"icao": "EDDB"}))


def test_masked_key_is_shown_by_the_beginning_of_its_hash(reader: Client, airport: TargetDataset, person: User):
    airport.columns.filter(name="icao").update(sensitivity="restricted")
    for kind in ("key_search", "as_of"):
        made = answered_read(airport, person, kind, {"icao": MASK}, masked=["icao"])
        assert KEY[:12] in words(part(reader, made))
    sent = {"kind": "key_search", "text": "E"}
    refused = reader.post(f"/datasets/{airport.key}/reads/", sent, headers={"HX-Request": "true"})
    assert "icao is masked for you" in words(html_of(refused))


def test_sample_of_an_empty_table_links_the_history(reader: Client, airport: TargetDataset, person: User):
    text = part(reader, answered_read(airport, person, "sample"))
    assert "The table is empty" in text
    assert f'href="/datasets/{airport.key}/history/"' in text


def test_sample_of_a_missing_table_offers_a_load(operator: Client, starter: User, airport: TargetDataset):
    error = {"code": "NO_TABLE", "message": "it does not exist yet", "hint": "A load run creates it."}
    made = ReadRequestFactory(dataset=airport, requested_by=starter, kind="sample", status="failed", error=error)
    text = part(operator, made)
    assert "Nothing loaded yet" in text
    assert f"?start={airport}#start" in text


def change(op: str, columns: list[str], before: dict | None, after: dict | None) -> dict:
    rows = [[side.get(name) for name in columns] if side is not None else None for side in (before, after)]
    return {"op": op, "key": KEY, "before": rows[0], "after": rows[1], "versions": 2}


def test_changes_show_operation_key_and_fields_before_and_after(reader: Client, airport: TargetDataset, person: User):
    columns = [column.name for column in history_table(dataset_state(airport)).columns]
    changes = [
        change("U", columns, {"icao": "EDDB", "name": "Old"}, {"icao": "EDDB", "name": "New"}),
        change("D", columns, {"icao": "EDDT", "name": "Tegel"}, None),
    ]
    text = part(reader, answered_read(airport, person, "changes", changes=changes))
    content = words(text)
    assert "<del>Old</del> → <ins>New</ins>" in text
    assert "U updated EDDB" in content
    assert "D deleted EDDT" in content
    assert f'href="/datasets/{airport.key}/history/{KEY}/"' in text


def test_changes_are_filtered_sorted_and_paged_as_a_sample_is(reader: Client, airport: TargetDataset, person: User):
    loaded(airport, run_id="good")
    text = read(reader, data(airport, "changes/?run=good&find=ber&sort=name&rows=20&op=R"))
    for name, value in (("find", "ber"), ("sort", "name"), ("rows", "20"), ("op", "R")):
        assert f'name="{name}" value="{value}"' in text
    fields = {"run": "good", "op": "R", "rows": "20", "find": "ber", "sort": "name", "offset": "20"}
    ask(reader, airport, kind="changes", **fields)
    arguments = {"run_id": "good", "limit": 20, "op": "R", "find": "ber", "sort": "name", "offset": 20}
    assert ReadRequest.objects.get().arguments == arguments
    made = answered_read(airport, person, "changes", changes=[], truncated=True)
    ReadRequest.objects.filter(pk=made.pk).update(arguments=arguments)
    text = part(reader, made)
    scope = "op=R&amp;run=good&amp;rows=20&amp;find=ber&amp;sort=name"
    assert f'rel="prev" href="{data(airport, "changes/")}?{scope}"' in text
    assert f'rel="next" href="{data(airport, "changes/")}?{scope}&amp;offset=40"' in text


def test_export_of_changes_is_not_limited_to_the_shown_page(reader: Client, airport: TargetDataset, person: User):
    table = [None] * len(table_of(airport, "changes").columns)
    changes = [{"op": "I", "key": KEY, "before": None, "after": table, "versions": 1}]
    made = answered_read(airport, person, "changes", changes=changes, truncated=True)
    made.arguments = {"run_id": "good", "op": "I", "find": "ulm", "offset": 1}
    made.save()
    fields = typed(part(reader, made), having="run")
    assert "Export all changes" in part(reader, made)
    reader.post(f"/datasets/{airport.key}/reads/", fields)
    export = ReadRequest.objects.get(kind="export")
    assert export.arguments == {"run_id": "good", "op": "I", "find": "ulm"}
    assert read_manifest(read=export).table.kind == "history"


def test_changes_are_downloaded_as_csv_with_both_versions(reader: Client, airport: TargetDataset, person: User):
    columns = [column.name for column in history_table(dataset_state(airport)).columns]
    changes = [change("U", columns, {"icao": "EDDB"}, {"icao": "EDDB"})]
    header, row = html_of(
        reader.get(f"/reads/{answered_read(airport, person, 'changes', changes=changes).pk}/rows.csv")
    ).split()
    assert header.startswith('"op","entity_key","versions","before.')
    assert row.startswith(f'"U","{KEY}","2",')
    assert row.count('"EDDB"') == 2


def test_changes_page_selects_the_newest_successful_run_by_default(reader: Client, airport: TargetDataset):
    for name in ("first", "second"):
        DatasetRunFactory(run=LoadRunFactory(run_id=name), dataset=airport)
    DatasetRunFactory(run=LoadRunFactory(run_id="bad", status="failed"), dataset=airport, status="failed")
    assert 'name="run" value="second"' in read(reader, data(airport, "changes/"))
    chosen = read(reader, data(airport, "changes/?run=first&op=D"))
    assert 'name="run" value="first"' in chosen
    assert 'name="op" value="D"' in chosen
    assert "bad" not in words(chosen)


def test_changes_page_refuses_an_unknown_run(reader: Client, airport: TargetDataset):
    loaded(airport)
    text = read(reader, data(airport, "changes/?run=nowhere"))
    assert "Select a valid choice" in text
    assert 'hx-trigger="load"' not in text


def test_changes_page_offers_a_load_before_the_first_run(operator: Client, airport: TargetDataset):
    text = read(operator, data(airport, "changes/"))
    assert "No changes yet" in text
    assert f"?start={airport}#start" in text


# --- files --------------------------------------------------------------------------------------


def test_sample_is_downloaded_as_csv_only_by_its_requester(
    reader: Client, operator: Client, airport: TargetDataset, person: User
):
    made = answered_read(airport, person, "sample", {"icao": "EDDB", "name": ""})
    answer = reader.get(f"/reads/{made.pk}/rows.csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert "rawcore.rc_air_airport-sample-v7.csv" in answer["Content-Disposition"]
    assert '"EDDB",""' in html_of(answer)
    assert operator.get(f"/reads/{made.pk}/rows.csv").status_code == 404


def test_csv_of_an_unfinished_read_is_not_found(reader: Client, airport: TargetDataset, person: User):
    made = ReadRequestFactory(dataset=airport, requested_by=person, kind="sample")
    assert reader.get(f"/reads/{made.pk}/rows.csv").status_code == 404


# --- versions of a key --------------------------------------------------------------------------


def test_versions_of_a_key_are_shown_with_a_timeline_and_changed_values(
    reader: Client, airport: TargetDataset, person: User
):
    made = answered_read(
        airport,
        person,
        "versions",
        {"icao": "EDDB", "name": "Old", "version_started_at": "2020-01-01 00:00:00", "version_ended_at": "2021-01-01"},
        {"icao": "EDDB", "name": "New", "version_started_at": "2022-01-01 00:00:00", "version_segment": "open"},
    )
    text = part(reader, made)
    assert "rail-open" in text
    assert "rail-gap" in text
    assert '<td class="is-changed">New<span class="visually-hidden"> (changed)</span></td>' in text
    assert "absent for 1 year" in text


# --- origin -------------------------------------------------------------------------------------

ORIGIN = ["raw", "load_run_id", "loaded_at", "source_file", "source_row", "opened_version"]


def test_origin_read_uses_the_key_and_the_raw_table(reader: Client, airport: TargetDataset):
    assert f'name="entity_key" value="{KEY}"' in read(reader, f"/datasets/{airport.key}/origin/{KEY}/")
    ask(reader, airport, kind="origin", entity_key=KEY)
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert [manifest_input.table.qualified_name for manifest_input in manifest.inputs] == ["raw.raw_air_airport"]
    assert [part.column for part in manifest.entity_key] == ["icao"]
    assert manifest.table.kind == "history"


def test_origin_shows_run_source_file_row_and_deliveries_missing_in_raw(
    reader: Client, airport: TargetDataset, person: User
):
    LoadRunFactory(run_id="good")
    row = ["raw.raw_air_airport", "good", "2024-01-31 08:00:00", "day/airports.csv", "17", "true"]
    answer = {"table_version": 7, "columns": ORIGIN, "rows": [row], "truncated": False, "removed": ["first"]}
    made = ReadRequestFactory(
        dataset=airport,
        requested_by=person,
        kind="origin",
        status="succeeded",
        answer=answer,
        arguments={"entity_key": KEY},
    )
    text = part(reader, made)
    source = airport.generated_from
    for address in ("/load-runs/good/", f"/sources/{source.key}/", "/load-runs/first/"):
        assert f'href="{address}"' in text
    for words_ in ("day/airports.csv", "17", "opened a version", "Raw no longer has the deliveries"):
        assert words_ in words(text)


def test_origin_read_of_a_raw_dataset_is_refused(reader: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    ask(reader, raw, kind="origin", entity_key=KEY)
    assert not ReadRequest.objects.exists()
