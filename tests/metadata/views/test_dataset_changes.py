"""Tests of a dataset's change log with that of its columns, and of search by former names."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column, update_target_dataset
from metadata.services.lifecycle import rename_column, rename_dataset
from tests.architecture.world import person as someone
from tests.elevata.web.forms import words
from tests.elevata.web.pages import read
from tests.metadata.applied import apply_state

pytestmark = pytest.mark.django_db


def column(name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset__name__startswith="rc_air", name=name)


def rename(name: str, to: str, *, who: str = "mia", reason: str = "") -> None:
    row = column(name)
    with acting_as(someone(who, Role.EDITOR)):
        rename_column(column=row, name=to, expected_version=row.version, reason=reason)


def execute_and_rename(name: str, to: str) -> None:
    """Execute a column in an environment, then rename it."""
    apply_state(column(name).dataset)
    rename(name, to)


def rename_airport(to: str) -> None:
    row = TargetDataset.objects.get(name="rc_air_airport")
    rename_dataset(dataset=row, name=to, expected_version=row.version)


# --- the tab -------------------------------------------------------------------------------------


def test_changes_tab_shows_users_reasons_and_fields(reader: Client, airport: TargetDataset):
    rename("name", "title", reason="as the business says")
    with acting_as(someone("bob", Role.EDITOR)):
        update_target_dataset(dataset=airport, expected_version=airport.version, owner="Team Air")
    page = words(read(reader, f"/datasets/{airport.key}/changes/"))
    assert "bob dataset rawcore.rc_air_airport changed owner Team Air" in page
    assert "mia column rawcore.rc_air_airport.title renamed “as the business says”" in page
    assert "name name → title" in page
    assert page.index("owner Team Air") < page.index("name → title")


def test_changes_tab_omits_entries_of_other_datasets(reader: Client, airport: TargetDataset, add_routes: Callable):
    add_routes(airport)
    page = read(reader, f"/datasets/{airport.key}/changes/")
    assert "rc_net_route.origin_icao" not in page
    assert "rc_net_route" in read(reader, f"/datasets/{TargetDataset.objects.get(name='rc_net_route').key}/changes/")


def test_changes_tab_of_a_history_shows_entries_of_its_base(reader: Client, airport: TargetDataset):
    rename("name", "title")
    page = words(read(reader, f"/datasets/{airport.history.key}/changes/"))
    assert "rawcore.rc_air_airport.title renamed" in page
    assert "dataset rawcore.rc_air_airport_hist created" in page


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("actor=bob", 1),
        ("action=renamed", 1),
        ("kind=column", 2),
        ("q=title", 2),
        ("q=as+the+business", 1),
        ("until=2001-01-01", 0),
    ],
)
def test_entries_are_filtered(reader: Client, airport: TargetDataset, query: str, count: int):
    rename("name", "title", reason="as the business says")
    with acting_as(someone("bob", Role.EDITOR)):
        update_target_column(column=column("title"), expected_version=2, owner="Kim")
    page = read(reader, f"/datasets/{airport.key}/changes/?{query}")
    assert words(page).count("rawcore.rc_air_airport.title") == count
    assert ("No entries match" in page) == (count == 0)


def test_many_entries_are_paged(reader: Client, airport: TargetDataset):
    for number in range(51):
        row = column("name")
        update_target_column(column=row, expected_version=row.version, owner=f"owner {number}")
    first = read(reader, f"/datasets/{airport.key}/changes/?kind=column")
    assert "1–50 of 51 entries" in words(first)
    assert "kind=column&amp;page=2" in first
    assert "51–51 of 51 entries" in words(read(reader, f"/datasets/{airport.key}/changes/?kind=column&page=2"))


def test_queries_do_not_grow_with_entries(
    reader: Client, airport: TargetDataset, django_assert_num_queries: DjangoAssertNumQueries
):
    address = f"/datasets/{airport.key}/changes/"
    reader.get(address)
    with django_assert_num_queries(18):
        reader.get(address)
    for name in ("a", "b", "c"):
        row = column("name")
        update_target_column(column=row, expected_version=row.version, owner=name)
    with django_assert_num_queries(18):
        reader.get(address)


def test_changes_tab_lists_former_names_newest_first(reader: Client, airport: TargetDataset):
    rename("name", "title")
    execute_and_rename("title", "label")
    rename_airport("rc_air_field")
    page = words(read(reader, f"/datasets/{airport.key}/changes/"))
    assert "rc_air_airport is rc_air_field title is label name is label" in page


# --- search by former names ------------------------------------------------------------------------


def results_of(client: Client, query: str) -> set[str]:
    text = read(client, f"/datasets/?q={query}")
    return set(re.findall(r'class="name" href="[^"]+">([\w.]+)</a>', text))


@pytest.mark.parametrize(
    "query",
    [
        "rc_air_airport",
        "rawcore.rc_air_airport",
        "full_title",
        "rawcore.rc_air_field.full_title",
        "rawcore.rc_air_airport.label",
        "Größe",
    ],
)
def test_a_former_name_of_dataset_or_column_finds_the_dataset(reader: Client, airport: TargetDataset, query: str):
    rename("elevation", "Größe")
    execute_and_rename("Größe", "height")
    rename("name", "full_title")
    execute_and_rename("full_title", "label")
    rename_airport("rc_air_field")
    assert "rawcore.rc_air_field" in results_of(reader, query)


def test_dataset_list_shows_the_former_name_that_matched(reader: Client, airport: TargetDataset):
    rename("name", "full_title")
    execute_and_rename("full_title", "label")
    assert "column label, formerly name, full_title" in words(read(reader, "/datasets/?q=full_title"))
    rename_airport("rc_air_field")
    assert "formerly rc_air_airport" in words(read(reader, "/datasets/?q=rc_air_airport"))


def test_dataset_list_finds_no_dataset_by_names_never_used(reader: Client, airport: TargetDataset):
    assert results_of(reader, "rawcore.rc_air_airport.wingspan") == set()
    assert results_of(reader, "full_title") == set()


def test_api_finds_datasets_by_former_names(reader: Client, airport: TargetDataset):
    def answered(query: str) -> set[str]:
        return {row["name"] for row in reader.get("/api/v1/datasets/", {"q": query}).json()["results"]}

    rename("name", "label")
    rename_airport("rc_air_field")
    assert answered("rc_air_airport") >= {"rc_air_field"}
    assert answered("rawcore.rc_air_airport") == {"rc_air_field", "rc_air_field_hist"}
    assert answered("rawcore.rc_air_field.name") == {"rc_air_field"}
