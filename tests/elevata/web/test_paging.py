"""Paged lists: an expensive search runs once."""

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


def test_keyed_pages_have_the_found_rows_in_their_order(entries: QuerySet[ChangeLogEntry]):
    selection = entries.filter(action="renamed")
    pages = KeyedPages(selection, 4, every=entries, once=True)
    assert pages.count == 6
    assert [entry for number in pages.page_range for entry in pages.page(number)] == list(selection)


def test_keyed_page_loads_rows_and_related_users_in_two_queries(
    entries: QuerySet[ChangeLogEntry], django_assert_num_queries
):
    with django_assert_num_queries(2):
        page = KeyedPages(
            entries.filter(action="renamed"), 4, every=entries.select_related("user"), once=True
        ).get_page(9)
        assert {entry.user.username for entry in page} == {"ada"}


def test_keyed_page_omits_a_row_deleted_after_the_search(entries: QuerySet[ChangeLogEntry]):
    pages = KeyedPages(entries.filter(action="renamed"), 4, every=entries.none(), once=True)
    assert (pages.count, list(pages.page(1))) == (6, [])


def test_keyed_pages_count_first_and_read_only_the_keys_of_a_page(
    entries: QuerySet[ChangeLogEntry], django_assert_num_queries
):
    selection = entries.filter(action="renamed")
    second = list(selection[4:])
    pages = KeyedPages(selection, 4, every=entries)
    with django_assert_num_queries(3):
        assert (pages.count, list(pages.page(2))) == (6, second)


@pytest.mark.parametrize("ordering", [",", ",,", "name,", ",name"])
@pytest.mark.django_db
def test_list_accepts_an_ordering_with_empty_names(reader: Client, ordering: str):
    assert reader.get("/datasets/", {"ordering": ordering}).status_code == 200
