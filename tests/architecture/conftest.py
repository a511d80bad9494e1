"""What the tests of architecture control stand on."""

import pytest

from tests.architecture.world import World, customers, make_world


@pytest.fixture
def world(db) -> World:
    """People and an empty warehouse."""
    return make_world()


@pytest.fixture
def built(world) -> World:
    """The same, with a historized dataset that is described and built."""
    customers(world.author)
    world.executed()
    return world
