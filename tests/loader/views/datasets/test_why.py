"""Page about the origin of a value: path, versions and delivered rows of a key."""

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.services.users import ensure_user, grant_role
from loader.models import ReadRequest
from loader.services.reads.manifests import read_manifest
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import words
from tests.loader.factories import ReadRequestFactory

pytestmark = pytest.mark.django_db

KEY = "a" * 64


def test_a_value_has_its_path_its_versions_and_its_delivered_rows(reader: Client, airport: TargetDataset):
    answer = reader.get(f"/datasets/{airport.key}/why/{KEY}/?column=name")
    assert [node.qualified_name for node in answer.context["path"]] == [
        "air.airport.name",
        "raw.raw_air_airport.name",
        "stage.stg_air_airport.name",
        "rawcore.rc_air_airport.name",
    ]
    assert answer.context["origin"] == {"kind": "origin", "entity_key": KEY}
    assert html_of(answer).count('name="entity_key"') == 1 + bool(answer.context["versions"])


def test_a_column_of_loads_has_no_path(reader: Client, airport: TargetDataset):
    html = html_of(reader.get(f"/datasets/{airport.key}/why/{KEY}/?column=%27%F0%9F%98%80"))
    assert "Loads compute this column" in html


def ask(client: Client, dataset: TargetDataset, **question: object) -> HttpResponse:
    return client.post(f"/datasets/{dataset.key}/reads/", question, headers={"HX-Request": "true"})


@pytest.fixture
def raw(airport: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(name="raw_air_airport")


def test_a_date_narrows_the_delivered_rows_to_those_of_its_version(reader: Client, airport: TargetDataset):
    at = "2026-11-21T00:00:00+00:00"
    answer = reader.get(f"/datasets/{airport.key}/why/{KEY}/", {"column": "name", "at": at})
    assert answer.context["origin"] == {"kind": "origin", "entity_key": KEY, "at": at}
    ask(reader, airport, kind="origin", entity_key=KEY, at=at)
    assert read_manifest(read=ReadRequest.objects.get()).arguments == {"entity_key": KEY, "limit": 100, "at": at}


def test_a_delivered_row_is_followed_to_the_tables_that_store_its_key(reader: Client, raw: TargetDataset):
    ask(reader, raw, kind="descendants", run="good", file="airport.csv", row=7)
    manifest = read_manifest(read=ReadRequest.objects.get())
    assert manifest.arguments == {"run_id": "good", "file": "airport.csv", "row": 7}
    assert [item.table.qualified_name for item in manifest.descendants] == ["rawcore.rc_air_airport_hist"]
    assert [[own.table.name for own in item.inputs] for item in manifest.descendants] == [["raw_air_airport"]]


def test_tables_that_the_user_may_not_read_are_no_descendants(client: Client, raw: TargetDataset):
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema=raw.schema.name)
    client.force_login(vera)
    ask(client, raw, kind="descendants", run="good", file="airport.csv", row=7)
    assert read_manifest(read=ReadRequest.objects.get()).descendants == ()


def test_keys_of_sensitive_values_are_hidden_from_who_follows_a_row(
    reader: Client, airport: TargetDataset, raw: TargetDataset
):
    airport.columns.filter(name="icao").update(sensitivity="restricted")
    ask(reader, raw, kind="descendants", run="good", file="airport.csv", row=7)
    assert [item.is_hashed for item in read_manifest(read=ReadRequest.objects.get()).descendants] == [True]


def test_rows_without_a_delivery_are_not_followed(reader: Client, airport: TargetDataset):
    assert "has no delivered rows" in words(
        html_of(ask(reader, airport, kind="descendants", run="good", file="a", row=7))
    )
    assert "choose a row of a raw table" in words(html_of(reader.get(f"/datasets/{airport.key}/descendants/")))


def test_the_answer_leads_to_the_keys_and_to_models_built_on_the_table(
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
    assert f'href="/datasets/{airport.key}/why/{KEY}/"' in text
    assert "masked" in words(text)
    assert "3 current opened a version" in words(text)


def test_rows_of_a_raw_table_lead_to_what_was_made_of_them(reader: Client, person: User, raw: TargetDataset):
    columns = ["icao", "load_run_id", "source_file", "source_row"]
    rows = [["EDDB", "good", "airport.csv", "7"], ["EDDF", "good", None, None]]
    answer = {"table_version": 7, "columns": columns, "rows": rows, "truncated": False}
    made = ReadRequestFactory(dataset=raw, requested_by=person, kind="sample", status="succeeded", answer=answer)
    text = html_of(reader.get(f"/reads/{made.pk}/", headers={"HX-Request": "true"}))
    assert text.count("Follow row") == 1
    assert f'href="/datasets/{raw.key}/descendants/?run=good&amp;file=airport.csv&amp;row=7"' in text
