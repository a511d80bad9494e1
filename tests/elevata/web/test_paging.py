"""Pages of lists: what takes long to find is found once."""

import pytest
from django.db.models import QuerySet
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from elevata.web.paging import KeyedPages
from tests.architecture.world import World
from tests.elevata.web.pages import rename

pytestmark = pytest.mark.django_db


@pytest.fixture
def entries(world: World) -> QuerySet[ChangeLogEntry]:
    for name in ("first_name", "given_name", "display_name"):
        rename(world, "full_name", name)
        rename(world, name, "full_name")
    return ChangeLogEntry.objects.order_by("-pk")


def test_pages_are_those_of_the_search_in_its_order(entries: QuerySet[ChangeLogEntry]):
    found = entries.filter(action="renamed")
    pages = KeyedPages(found, 4, every=entries, once=True)
    assert pages.count == 6
    assert [entry for number in pages.page_range for entry in pages.page(number)] == list(found)


def test_rows_come_with_all_that_is_shown_of_them(entries: QuerySet[ChangeLogEntry], django_assert_num_queries):
    with django_assert_num_queries(2):
        page = KeyedPages(
            entries.filter(action="renamed"), 4, every=entries.select_related("user"), once=True
        ).get_page(9)
        assert {entry.user.username for entry in page} == {"ada"}


def test_a_row_that_went_meanwhile_is_left_out(entries: QuerySet[ChangeLogEntry]):
    pages = KeyedPages(entries.filter(action="renamed"), 4, every=entries.none(), once=True)
    assert (pages.count, list(pages.page(1))) == (6, [])


def test_what_is_quickly_found_is_counted_and_only_a_pages_keys_are_read(
    entries: QuerySet[ChangeLogEntry], django_assert_num_queries
):
    found = entries.filter(action="renamed")
    second = list(found[4:])
    pages = KeyedPages(found, 4, every=entries)
    with django_assert_num_queries(3):
        assert (pages.count, list(pages.page(2))) == (6, second)


@pytest.mark.parametrize("ordering", [",", ",,", "name,", ",name"])
@pytest.mark.django_db
def test_an_order_with_empty_names_is_no_accident(reader: Client, ordering: str):
    assert reader.get("/datasets/", {"ordering": ordering}).status_code == 200
