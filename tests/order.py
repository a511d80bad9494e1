"""Order of test files among processes: the longest first."""

from collections import Counter
from collections.abc import Sequence

import pytest

# About how many seconds a test takes, by what it needs.
_SPARK, _BROWSER = 4.0, 3.0
_COMMITTING, _WITH_DATABASE, _PURE = 0.6, 0.2, 0.02


def seconds(item: pytest.Item) -> float:
    """Estimate how long a test takes: what its mark ``takes`` says, else by what it needs."""
    if said := item.get_closest_marker("takes"):
        return float(said.kwargs["seconds"])
    spark, browser = item.get_closest_marker("spark"), item.get_closest_marker("browser")
    if spark or browser:
        return _SPARK if spark else _BROWSER
    marker = item.get_closest_marker("django_db")
    wanted = set(getattr(item, "fixturenames", ()))
    if (marker and marker.kwargs.get("transaction")) or wanted & {"transactional_db", "live_server"}:
        return _COMMITTING
    return _WITH_DATABASE if marker or "db" in wanted else _PURE


def longest_files_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests file by file, each file's in the order they had."""
    cost: Counter[str] = Counter()
    for item in items:
        cost[_file(item)] += seconds(item)
    return sorted(items, key=lambda item: (-cost[_file(item)], _file(item)))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
