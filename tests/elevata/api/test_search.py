"""Search by text over all kinds of objects."""

import pytest
from django.test import Client

from loader.schedules.services import create_schedule
from metadata.models import TargetDataset
from metadata.services.lifecycle import rename_column
from tests.elevata.api.requests import get
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db


def search(client: Client, query: str) -> list[tuple[str, str]]:
    return [(result["kind"], result["name"]) for result in get(client, f"search/?{query}")["results"]]


def test_search_returns_every_kind_with_the_best_match_first(reader: Client, airport: TargetDataset):
    LoadRunFactory(run_id="airport-1")
    create_schedule(name="airports at night", cron="0 6 * * *")
    kinds = [kind for kind, _ in search(reader, "q=airport")]
    assert kinds[0] == "source_dataset"
    assert {"dataset", "load_run", "schedule"} <= set(kinds)


def test_a_column_is_found_by_its_former_name(reader: Client, airport: TargetDataset):
    column = airport.columns.get(name="elevation")
    rename_column(column=column, name="height", expected_version=column.version)
    (result,) = get(reader, "search/?q=height&kind=column")["results"]
    assert (result["key"], result["within"]) == (str(column.key), "rawcore.rc_air_airport")
    assert ("column", "height") in search(reader, "q=elevation&kind=column")


def test_search_results_have_a_valid_address(reader: Client, airport: TargetDataset):
    for result in get(reader, "search/?q=air")["results"]:
        assert reader.get(result["url"]).status_code == 200, result


def test_search_result_marks_further_matches_beyond_the_limit(reader: Client, airport: TargetDataset):
    answer = get(reader, "search/?q=air&limit=2")
    assert (len(answer["results"]), answer["more"]) == (2, True)
    assert get(reader, "search/?q=nowhere") == {"results": [], "more": False}


@pytest.mark.parametrize(
    ("query", "field"),
    [("", "q"), ("q=", "q"), ("q=a&kind=planet", "kind"), ("q=a&limit=0", "limit"), ("q=a&page=2", "page")],
)
def test_invalid_search_is_refused_with_its_parameter(reader: Client, query: str, field: str):
    answer = reader.get(f"/api/v1/search/?{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_search_result_for_a_page_has_no_api_address(reader: Client):
    (result,) = get(reader, "search/?q=change+reports&kind=page")["results"]
    assert (result["name"], result["url"], result["page"]) == ("Change reports", "", "/reports/")


@pytest.mark.parametrize("text", ["%00", "a" * 201])
def test_search_text_with_null_byte_or_above_the_limit_is_refused(reader: Client, text: str):
    answer = reader.get(f"/api/v1/search/?q={text}")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["q"])
