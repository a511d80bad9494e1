"""Shared fixtures of architecture control."""

import pytest

from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, customers_built, make_world, remembered_in
from tests.database.row_cache import remembered


@pytest.fixture
def world(db) -> World:
    """People and an empty warehouse."""
    return remembered("people", make_world)


@pytest.fixture
def built(world) -> World:
    """The same, with a historized dataset that is described and built."""
    remembered_in(world, "customers of these people", lambda: customers_built(world))
    return world


@pytest.fixture
def renamed(built) -> World:
    """The same, with a column that is described under another name."""
    rename(built, "full_name", "display_name")
    return built
