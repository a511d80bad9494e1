"""Lists: sorted by their headings, and downloaded as CSV in full."""

import csv
import io

import pytest
from django.test import Client

from metadata.models import TargetDataset
from tests.elevata.web.html import text_of
from tests.factories import SourceDatasetFactory, TargetDatasetFactory
from tests.loader.factories import LoadRunFactory, loaded

pytestmark = pytest.mark.django_db


def downloaded(client: Client, address: str) -> list[dict[str, str]]:
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer.streaming
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode(), newline="")))


def test_a_heading_sorts_and_a_second_click_turns_the_order(reader: Client, airport: TargetDataset):
    assert 'href="?ordering=name"' in text_of(reader, "/datasets/")
    text = text_of(reader, "/datasets/?ordering=name&layer=rawcore")
    assert 'aria-sort="ascending"' in text
    assert 'href="?ordering=-name&amp;layer=rawcore"' in text


def test_filters_keep_the_order(reader: Client, airport: TargetDataset):
    assert '<input type="hidden" name="ordering" value="-name">' in text_of(reader, "/datasets/?ordering=-name")


@pytest.mark.parametrize(
    "address",
    [
        "/datasets/?ordering=-layer",
        "/datasets/?ordering=materialization",
        "/sources/?ordering=-format",
        "/load-runs/?ordering=status",
        "/reports/?ordering=status",
    ],
)
def test_every_heading_has_an_order_that_the_list_knows(reader: Client, airport: TargetDataset, address: str):
    loaded(airport)
    assert "aria-sort" in text_of(reader, address) or address.startswith("/reports")


def test_the_file_has_the_filtered_rows_of_all_pages(reader: Client, airport: TargetDataset):
    TargetDatasetFactory.create_batch(60, schema=airport.schema)
    rows = downloaded(reader, "/datasets/?layer=rawcore&format=csv&page=2")
    assert len(rows) == TargetDataset.objects.filter(schema__layer="rawcore").count()
    assert {row["layer"] for row in rows} == {"rawcore"}


def test_a_formula_in_a_list_is_no_formula_in_the_file(reader: Client):
    SourceDatasetFactory(name="odd", description="=1+1")
    assert [row["description"] for row in downloaded(reader, "/sources/?format=csv")] == ["'=1+1"]


def test_runs_and_reports_are_downloaded(reader: Client):
    LoadRunFactory(run_id="good")
    assert [row["run"] for row in downloaded(reader, "/load-runs/?format=csv")] == ["good"]
    assert downloaded(reader, "/reports/?format=csv") == []


def test_a_list_leads_to_its_file(reader: Client, airport: TargetDataset):
    assert 'href="?layer=raw&amp;format=csv"' in text_of(reader, "/datasets/?layer=raw")
