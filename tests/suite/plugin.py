"""Pytest plugin of the suite: options of its runs, order and distribution of tests, recorded outcomes."""

import json
import math
from pathlib import Path

import pytest

from tests.suite.durations import Recorder, file_of, stored_durations
from tests.suite.order import TwoEndedScheduling, spark_first
from tests.suite.tiers import OTHER_NEEDS, is_at_a_door

_RECORDER = "recorder"
# Files with a collected test that uses the database.
_BEGUN = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("elevata")
    group.addoption("--outcomes", metavar="FILE", help="write seconds, kinds and failures of the tests into this file")
    group.addoption("--until", type=float, default=math.inf, help="begin no further file after this time (epoch)")
    group.addoption("--only", metavar="FILE", help="run the tests of this file's JSON list of ids, and no others")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.getoption("--outcomes")), _RECORDER)


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests of interfaces, and those of them that use a database and are not the first one of their file."""
    file = file_of(item.nodeid)
    if not is_at_a_door(file):
        return
    if not any(item.get_closest_marker(name) for name in OTHER_NEEDS):
        item.add_marker("door")
    if item.get_closest_marker("core") or not item.get_closest_marker("database"):
        return
    files = item.session.stash.setdefault(_BEGUN, set())
    if file in files:
        item.add_marker("full")
    files.add(file)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect other tests, and order the rest if several processes run them."""
    if chosen := config.getoption("--only"):
        ids = set(json.loads(Path(chosen).read_text()))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
        items[:] = [item for item in items if item.nodeid in ids]
    if hasattr(config, "workerinput"):
        items[:] = spark_first(items, stored_durations(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> TwoEndedScheduling:
    scheduling = TwoEndedScheduling(config, log, until=config.getoption("--until"))
    config.pluginmanager.get_plugin(_RECORDER).left_out = scheduling.left_out
    return scheduling
