"""Change-log entries that approvals depend on: retention keeps them until their changes are executed."""

import pytest

from architecture.selectors.authors import entries_needed
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.retention import NEEDED_ENTRIES
from tests.architecture.world import World, customers, make_world
from tests.elevata.web.pages import rename

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    built_world = make_world()
    customers(built_world.author)
    return built_world


def about_datasets() -> set[int]:
    return set(ChangeLogEntry.objects.filter(subject_kind__in=["dataset", "column"]).values_list("pk", flat=True))


def test_entries_of_changes_not_executed_are_needed(world: World) -> None:
    assert about_datasets() <= entries_needed()


def test_entries_of_executed_changes_are_not_needed(world: World) -> None:
    world.executed()
    assert about_datasets() & entries_needed() == set()


def test_retention_setting_lists_the_needed_entries() -> None:
    assert entries_needed in NEEDED_ENTRIES


def test_entries_of_a_later_pending_change_are_needed(world: World) -> None:
    world.executed()
    before = about_datasets()
    rename(world, "balance", "amount")
    assert entries_needed() >= about_datasets() - before
