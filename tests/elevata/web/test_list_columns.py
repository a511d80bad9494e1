"""Lists: order by their headings, and complete CSV files."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from elevata.lists.selectors import filtered_lists
from metadata.models import TargetDataset
from tests.architecture.world import World
from tests.elevata.web.html import text_of
from tests.elevata.web.pages import downloaded, signed_in
from tests.factories import SourceDatasetFactory, TargetDatasetFactory
from tests.loader.factories import COUNTS, LoadRunFactory, loaded

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Client:
    return signed_in(User.objects.create_superuser("root"))


def test_a_heading_sorts_and_a_second_click_turns_the_order(reader: Client, airport: TargetDataset):
    assert 'href="?ordering=name"' in text_of(reader, "/datasets/")
    text = text_of(reader, "/datasets/?ordering=name&layer=rawcore")
    assert 'aria-sort="ascending"' in text
    assert 'href="?ordering=-name&amp;layer=rawcore"' in text


def test_filters_keep_the_order(reader: Client, airport: TargetDataset):
    assert '<input type="hidden" name="ordering" value="-name">' in text_of(reader, "/datasets/?ordering=-name")


# Columns without an order: lists of words, and numbers counted only for the rows of a page.
UNSORTED = {
    "change_list": {"From → to"},
    "column_list": {"Tags", "Failed checks"},
    "dataset_changes": {"From → to"},
    "dataset_list": {"Rows", "Open versions", "Tags"},
    "report_list": {"Operations", "Authors"},
    "run_list": {"Datasets", "Rows", "New", "Changed", "Deleted"},
    "saved_query_list": {"Query"},
    "schedule_list": {"Loads", "When"},
    "schema_list": {"Tags"},
    "sensitive_list": {"Class", "Copies", "Readers", "Last read"},
    "sensitive_source_list": {"Class", "Copies", "Readers", "Last read"},
    "source_list": {"Tags"},
    "user_list": {"Global roles", "Scoped roles"},
}
WITH_COLUMNS = {route: view for route, view in filtered_lists().items() if view.columns}


@pytest.mark.parametrize("route", sorted(WITH_COLUMNS))
def test_every_column_is_sorted_or_listed_here(route: str):
    assert {column.label for column in WITH_COLUMNS[route].columns if not column.sort} == UNSORTED.get(route, set())


@pytest.mark.parametrize("route", sorted(WITH_COLUMNS))
def test_list_accepts_the_ordering_of_each_column(route: str, admin: Client, airport: TargetDataset):
    loaded(airport)
    address = reverse(route, args=[airport.key] if route == "dataset_changes" else [])
    for column in WITH_COLUMNS[route].columns:
        for order in (column.sort, f"-{column.sort}") if column.sort else ():
            answer = admin.get(address, {"ordering": order})
            assert answer.context["filter"].is_valid(), (route, order)
            assert list(answer.context["page"]) is not None


def test_rows_without_a_value_are_last_in_both_directions(reader: Client, airport: TargetDataset):
    loaded(airport)
    for order in ("last_load", "-last_load"):
        rows = downloaded(reader, f"/datasets/?ordering={order}&format=csv")
        loads = [bool(row["last load"]) for row in rows]
        assert loads == sorted(loads, reverse=True)
        assert any(loads)


def test_sensitivity_is_sorted_by_level(reader: Client):
    for level in ("public", "restricted", "internal"):
        TargetDatasetFactory(sensitivity=level)
    rows = downloaded(reader, "/datasets/?ordering=-sensitivity&format=csv")
    assert [row["sensitivity"] for row in rows][:3] == ["restricted", "internal", "public"]


def test_the_file_has_the_filtered_rows_of_all_pages(reader: Client, airport: TargetDataset):
    TargetDatasetFactory.create_batch(60, schema=airport.schema)
    rows = downloaded(reader, "/datasets/?layer=rawcore&format=csv&page=2")
    assert len(rows) == TargetDataset.objects.filter(schema__layer="rawcore").count()
    assert {row["layer"] for row in rows} == {"rawcore"}


def test_csv_file_escapes_formulas(reader: Client):
    SourceDatasetFactory(name="odd", description="=1+1")
    assert [row["description"] for row in downloaded(reader, "/sources/?format=csv")] == ["'=1+1"]


def test_runs_and_reports_are_downloaded(reader: Client):
    LoadRunFactory(run_id="good")
    assert [row["run"] for row in downloaded(reader, "/load-runs/?format=csv")] == ["good"]
    assert downloaded(reader, "/reports/?format=csv") == []


def test_the_file_has_the_counts_that_the_list_shows(reader: Client, airport: TargetDataset):
    loaded(airport)
    (run,) = downloaded(reader, "/load-runs/?format=csv")
    assert {name: run[name] for name in ("new", "changed", "deleted")} == {
        name: str(COUNTS.get(name, "")) for name in ("new", "changed", "deleted")
    }
    (row,) = [row for row in downloaded(reader, "/datasets/?format=csv") if row["dataset"] == str(airport)]
    assert (row["rows"], row["load state"]) == (str(COUNTS["rows"]), "succeeded")


def test_the_number_of_operations_of_a_report_is_in_the_file(world: World):
    report = world.report()
    rows = downloaded(signed_in(world.author), "/reports/?format=csv")
    (row,) = [row for row in rows if row["report"] == str(report.report_id)]
    assert row["operations"] == str(len(report.document["operations"]))


@pytest.mark.parametrize("route", sorted(WITH_COLUMNS))
def test_every_list_with_columns_is_downloaded(route: str, admin: Client, airport: TargetDataset):
    loaded(airport)
    address = reverse(route, args=[airport.key] if route == "dataset_changes" else [])
    count = admin.get(address).context["page"].paginator.count
    assert len(downloaded(admin, f"{address}?format=csv")) == count


def test_list_links_to_its_csv_file_with_the_same_filter(reader: Client, airport: TargetDataset):
    assert 'href="?layer=raw&amp;format=csv"' in text_of(reader, "/datasets/?layer=raw")
