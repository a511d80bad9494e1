"""Shared fixtures of architecture control."""

import pytest

from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, customers_built, make_world, remembered_in
from tests.database.row_cache import remembered


@pytest.fixture
def world(db) -> World:
    """Return the world of three users with an empty warehouse."""
    return remembered("people", make_world)


@pytest.fixture
def built(world) -> World:
    """Return the world with a historized dataset that is described and built."""
    remembered_in(world, "customers of these people", lambda: customers_built(world))
    return world


@pytest.fixture
def renamed(built) -> World:
    """Return the world with a pending rename of a column."""
    rename(built, "full_name", "display_name")
    return built
