"""Pages of lists: what takes long to find is found once."""

import pytest
from django.db.models import QuerySet

from metadata.models import ChangeLogEntry
from metadata.views.paging import Found
from tests.architecture.world import World
from tests.web.controlling import rename

pytestmark = pytest.mark.django_db


@pytest.fixture
def entries(world: World) -> QuerySet[ChangeLogEntry]:
    for name in ("first_name", "given_name", "display_name"):
        rename(world, "full_name", name)
        rename(world, name, "full_name")
    return ChangeLogEntry.objects.order_by("-pk")


def test_pages_are_those_of_the_search_in_its_order(entries: QuerySet[ChangeLogEntry]):
    found = entries.filter(action="renamed")
    pages = Found(found, entries, 4)
    assert pages.count == 6
    assert [entry for number in pages.page_range for entry in pages.page(number)] == list(found)


def test_rows_come_with_all_that_is_shown_of_them(entries: QuerySet[ChangeLogEntry], django_assert_num_queries):
    with django_assert_num_queries(2):
        page = Found(entries.filter(action="renamed"), entries.select_related("user"), 4).get_page(9)
        assert {entry.user.username for entry in page} == {"ada"}


def test_a_row_that_went_meanwhile_is_left_out(entries: QuerySet[ChangeLogEntry]):
    pages = Found(entries.filter(action="renamed"), entries.none(), 4)
    assert (pages.count, list(pages.page(1))) == (6, [])
