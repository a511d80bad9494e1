"""Pytest plugin of the suite: options of its runs, order and distribution of tests, recorded outcomes."""

import json
import math
from pathlib import Path

import pytest

from tests.suite.durations import Recorder, file_of, stored_durations
from tests.suite.order import TwoEndedScheduling, spark_first
from tests.suite.tiers import OTHER_NEEDS, is_at_a_door

_RECORDER = "recorder"
# Files of interfaces and tests with parameters of which one has been collected.
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
    """Mark tests of interfaces, and those that ``make test`` leaves out because it runs a similar one (``full``).

    These are the tests of an interface that use a database, but for the first one of a file, and the cases of a test of
    Spark or the browser, but for the first one, unless its mark is ``core(each=True)``.
    """
    if item.get_closest_marker("nightly"):
        return
    file, core = file_of(item.nodeid), item.get_closest_marker("core")
    is_light = not any(item.get_closest_marker(name) for name in OTHER_NEEDS)
    at_a_door = is_at_a_door(file)
    if at_a_door and is_light:
        item.add_marker("door")
    if at_a_door and not core and item.get_closest_marker("database"):
        mark_full_but_first(item, file)
    elif core and not is_light and not core.kwargs.get("each"):
        mark_full_but_first(item, item.nodeid.partition("[")[0])


def mark_full_but_first(item: pytest.Item, group: str) -> None:
    """Mark a test as ``full`` if one of its group was collected before."""
    begun = item.session.stash.setdefault(_BEGUN, set())
    if group in begun:
        item.add_marker("full")
    begun.add(group)


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
