"""Page about the origin of a value: path, versions and delivered rows of a key, reached by the links of rows."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.services.users import ensure_user, grant_role
from loader.models import ReadRequest
from loader.services.reads.manifests import read_manifest, read_table
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from metadata.services.datasets.targets import create_target_dataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import words
from tests.factories import TargetSchemaFactory
from tests.loader.factories import ReadRequestFactory

pytestmark = pytest.mark.django_db

KEY = "a" * 64


def test_origin_page_shows_path_versions_and_delivered_rows_of_a_value(reader: Client, airport: TargetDataset):
    answer = reader.get(f"/datasets/{airport.key}/why/{KEY}/?column=name")
    assert [node.qualified_name for node in answer.context["path"]] == [
        "air.airport.name",
        "raw.raw_air_airport.name",
        "stage.stg_air_airport.name",
        "rawcore.rc_air_airport.name",
    ]
    assert answer.context["origin"] == {"kind": "origin", "entity_key": KEY}
    assert html_of(answer).count('name="entity_key"') == 1 + bool(answer.context["versions"])


def links(client: Client, made: ReadRequest, part: str = "/why/") -> list[str]:
    """Return the addresses in an answer that contain a part."""
    text = html_of(client.get(f"/reads/{made.pk}/", headers={"HX-Request": "true"}))
    return [unescape(address) for address in re.findall('href="([^"]+)"', text) if part in address]


def answered_read(dataset: TargetDataset, person: User, kind: str, *rows: dict, **more: dict) -> ReadRequest:
    columns = [column.name for column in read_table(dataset, kind).columns]
    names = {column.purpose: column.name for column in read_table(dataset, kind).columns}
    plain = {names.get("entity_key"): KEY, names.get("started_at"): "2024-01-19 00:00:00"}
    values = [[({**plain, **row}).get(name) for name in columns] for row in rows]
    answer = {"table_version": 7, "columns": columns, "rows": values, "truncated": False}
    return ReadRequestFactory(
        dataset=dataset, requested_by=person, kind=kind, status="succeeded", answer=answer, **more
    )


def test_as_of_cell_links_the_origin_page_of_its_column_at_that_time(
    reader: Client, person: User, airport: TargetDataset
):
    at = "2026-11-21T00:00:00+00:00"
    made = answered_read(airport, person, "as_of", {"icao": "EDDB", "name": "Berlin"}, arguments={"at": at})
    (address,) = [own for own in links(reader, made) if "column=name" in own]
    page = reader.get(address)
    assert page.context["path"][-1].qualified_name == f"{airport}.name"
    assert page.context["origin"] == {"kind": "origin", "entity_key": KEY, "at": at}


def test_as_of_row_links_an_origin_page_with_a_choice_of_columns(reader: Client, person: User, airport: TargetDataset):
    made = answered_read(airport, person, "as_of", {"icao": "EDDB"}, arguments={"at": "2026-11-21T00:00:00+00:00"})
    (address,) = [own for own in links(reader, made) if "column=" not in own]
    page = reader.get(address)
    assert "Where does this row come from?" in words(html_of(page))
    assert "Loads compute this column" not in html_of(page)
    assert f"{address.partition('?')[0]}?column=name&amp;at=2026-11-21T00" in html_of(page)
    assert page.context["origin"]["at"] == "2026-11-21T00:00:00+00:00"


def test_rawcore_sample_links_versions_and_the_origin_page_of_each_cell(
    reader: Client, person: User, airport: TargetDataset
):
    made = answered_read(airport, person, "sample", {"icao": "EDDB", "name": "Berlin"})
    assert links(reader, made, "/history/") == [f"/datasets/{airport.key}/history/{KEY}/"]
    assert f"/datasets/{airport.key}/why/{KEY}/?column=name" in links(reader, made)


def test_history_row_links_the_origin_of_its_version(reader: Client, person: User, airport: TargetDataset):
    made = answered_read(airport.history, person, "sample", {"icao": "EDDB"})
    (address,) = [own for own in links(reader, made) if "column=name" in own]
    assert reader.get(address).context["origin"]["at"] == "2024-01-19 00:00:00"
    ask(reader, airport.history, **reader.get(address).context["origin"])
    assert read_manifest(read=ReadRequest.objects.get(kind="origin")).arguments["at"] == "2024-01-19T00:00:00+00:00"


def test_unchanged_values_of_a_version_link_their_origin_page(reader: Client, person: User, airport: TargetDataset):
    made = answered_read(airport, person, "versions", {"icao": "EDDB", "name": "Berlin"}, arguments={"entity_key": KEY})
    at = "2024-01-19T00%3A00%3A00"
    assert any(f"column=name&at={at}" in own for own in links(reader, made))


@pytest.fixture
def board(airport: TargetDataset) -> TargetDataset:
    """Return a model with the key of airports."""
    schema = TargetSchemaFactory(name="bizcore", layer="bizcore")
    select = "SELECT icao, upper(name) AS loud FROM rawcore.rc_air_airport"
    return create_target_dataset(schema=schema, name="board", select=select, business_key=["icao"])


def test_model_cell_links_its_expressions_and_the_input_row_with_its_key(
    reader: Client, person: User, airport: TargetDataset, board: TargetDataset
):
    made = answered_read(board, person, "sample", {"icao": "EDDB", "loud": "BERLIN"})
    (address,) = [own for own in links(reader, made) if "column=loud" in own]
    page = reader.get(address)
    assert page.context["path"][-1].expression == "UPPER(name)"
    assert page.context["origin"] is None
    text = html_of(page)
    assert f"/datasets/{airport.key}/data/?column=icao&amp;comparison=equals&amp;value=EDDB" in text
    assert "The key of this row is a key of an input" in words(text)


def test_model_row_with_another_key_cannot_be_followed_to_one_row(reader: Client, person: User, airport: TargetDataset):
    schema = TargetSchemaFactory(name="serving", layer="serving")
    select = "SELECT name, count(*) AS n FROM rawcore.rc_air_airport GROUP BY name"
    counts = create_target_dataset(schema=schema, name="counts", select=select, business_key=["name"])
    made = answered_read(counts, person, "sample", {"name": "Berlin", "n": "2"})
    (address,) = [own for own in links(reader, made) if "column=n&" in own]
    text = html_of(reader.get(address))
    assert "cannot be followed to one row" in words(text)
    assert f"/datasets/{airport.key}/data/?column=name&amp;comparison=equals&amp;value=Berlin" in text


def test_origin_page_of_a_model_omits_inputs_that_the_user_may_not_read(client: Client, board: TargetDataset):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=board.schema.name)
    client.force_login(vera)
    page = client.get(f"/datasets/{board.key}/why/-/", {"column": "loud", "key": "EDDB"})
    assert page.context["inputs"] == []


def test_links_of_a_row_with_a_masked_key_omit_the_key(
    reader: Client, person: User, airport: TargetDataset, board: TargetDataset
):
    made = answered_read(board, person, "sample", {"icao": MASK, "loud": "BERLIN"})
    assert f"/datasets/{board.key}/why/-/?column=loud" in links(reader, made)


def test_column_without_a_path_is_shown_as_computed_by_loads(reader: Client, airport: TargetDataset):
    html = html_of(reader.get(f"/datasets/{airport.key}/why/{KEY}/?column=%27%F0%9F%98%80"))
    assert "Loads compute this column" in html


def ask(client: Client, dataset: TargetDataset, **question: object) -> HttpResponse:
    return client.post(f"/datasets/{dataset.key}/reads/", question, headers={"HX-Request": "true"})


@pytest.fixture
def raw(airport: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(name="raw_air_airport")


def test_origin_page_passes_its_date_to_the_origin_read(reader: Client, airport: TargetDataset):
    at = "2026-11-21T00:00:00+00:00"
    answer = reader.get(f"/datasets/{airport.key}/why/{KEY}/", {"column": "name", "at": at})
    assert answer.context["origin"] == {"kind": "origin", "entity_key": KEY, "at": at}
    ask(reader, airport, kind="origin", entity_key=KEY, at=at)
    assert read_manifest(read=ReadRequest.objects.get()).arguments == {"entity_key": KEY, "limit": 100, "at": at}


def test_descendants_read_covers_the_tables_that_store_the_key(reader: Client, raw: TargetDataset):
    ask(reader, raw, kind="descendants", run="good", file="airport.csv", row=7)
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert manifest.arguments == {"run_id": "good", "file": "airport.csv", "row": 7}
    assert [item.table.qualified_name for item in manifest.descendants] == ["rawcore.rc_air_airport_hist"]
    assert [[own.table.name for own in item.inputs] for item in manifest.descendants] == [["raw_air_airport"]]


def test_descendants_read_excludes_tables_that_the_user_may_not_read(client: Client, raw: TargetDataset):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=raw.schema.name)
    client.force_login(vera)
    ask(client, raw, kind="descendants", run="good", file="airport.csv", row=7)
    assert read_manifest(read=ReadRequest.objects.get()).descendants == ()


def test_descendants_read_hashes_sensitive_keys(reader: Client, airport: TargetDataset, raw: TargetDataset):
    airport.columns.filter(name="icao").update(sensitivity="restricted")
    ask(reader, raw, kind="descendants", run="good", file="airport.csv", row=7)
    assert [item.is_hashed for item in read_manifest(read=ReadRequest.objects.get()).descendants] == [True]


def test_descendants_read_of_a_rawcore_table_is_refused(reader: Client, airport: TargetDataset):
    assert "has no delivered rows" in words(
        html_of(ask(reader, airport, kind="descendants", run="good", file="a", row=7))
    )
    assert "choose a row of a raw table" in words(html_of(reader.get(f"/datasets/{airport.key}/descendants/")))


def test_descendants_answer_links_the_origin_page_of_unmasked_keys(
    reader: Client, person: User, airport: TargetDataset, raw: TargetDataset
):
    columns = ["dataset", "entity_key", "versions", "current", "opened_version"]
    rows = [[f"{airport}_hist", KEY, "3", "true", "true"], [f"{airport}_hist", MASK, "1", "false", "false"]]
    answer = {"table_version": 7, "columns": columns, "rows": rows, "truncated": False}
    arguments = {"run_id": "good", "file": "airport.csv", "row": 7}
    made = ReadRequestFactory(
        dataset=raw, requested_by=person, kind="descendants", status="succeeded", answer=answer, arguments=arguments
    )
    text = html_of(reader.get(f"/reads/{made.pk}/", headers={"HX-Request": "true"}))
    (address,) = links(reader, made)
    assert address == f"/datasets/{airport.key}/why/{KEY}/"
    assert "column=name" in html_of(reader.get(address))
    assert "masked" in words(text)
    assert "3 current opened a version" in words(text)


def test_raw_rows_with_a_source_file_link_their_descendants(reader: Client, person: User, raw: TargetDataset):
    columns = ["icao", "load_run_id", "source_file", "source_row"]
    rows = [["EDDB", "good", "airport.csv", "7"], ["EDDF", "good", None, None]]
    answer = {"table_version": 7, "columns": columns, "rows": rows, "truncated": False}
    made = ReadRequestFactory(dataset=raw, requested_by=person, kind="sample", status="succeeded", answer=answer)
    text = html_of(reader.get(f"/reads/{made.pk}/", headers={"HX-Request": "true"}))
    assert text.count("Follow row") == 1
    assert f'href="/datasets/{raw.key}/descendants/?run=good&amp;file=airport.csv&amp;row=7"' in text


def test_descendants_read_requires_run_file_and_row(reader: Client, raw: TargetDataset):
    body = {"kind": "descendants", "run": "good", "file": "airport.csv", "row": 7}
    for missing in ("run", "file", "row"):
        answer = ask(reader, raw, **{name: value for name, value in body.items() if name != missing})
        assert "The question needs" in answer.content.decode(), missing
    assert not ReadRequest.objects.exists()
