"""Order and distribution of test files among processes.

The queue has two ends: Spark's files are at its front, all others at its back, the longest outermost. The first
process takes files from the front, the others from the back. So one process starts the Spark session and keeps it
warm, and what is left in the middle when the ends meet is short.
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.suite.durations import file_of

# Estimated seconds of a test that no run has measured yet, by its kind.
_SPARK, _BROWSER = 4.0, 3.0
_COMMITTING, _WITH_DATABASE, _PURE = 0.6, 0.2, 0.02


def estimated_seconds(item: pytest.Item) -> float:
    """Estimate the duration of a test: by its mark ``takes``, else by its kind."""
    if estimate := item.get_closest_marker("takes"):
        return float(estimate.kwargs["seconds"])
    spark, browser = item.get_closest_marker("spark"), item.get_closest_marker("browser")
    if spark or browser:
        return _SPARK if spark else _BROWSER
    marker = item.get_closest_marker("django_db")
    fixtures = set(getattr(item, "fixturenames", ()))
    if (marker and marker.kwargs.get("transaction")) or fixtures & {"transactional_db", "live_server"}:
        return _COMMITTING
    return _WITH_DATABASE if marker or "db" in fixtures else _PURE


def spark_first(items: Sequence[pytest.Item], measured: Mapping[str, float]) -> list[pytest.Item]:
    """Return the tests file by file: Spark's files with the longest first, then the others with the longest last."""
    cost: Counter[str] = Counter()
    of_spark: set[str] = set()
    for item in items:
        file = file_of(item.nodeid)
        cost[file] += measured.get(item.nodeid) or estimated_seconds(item)
        if item.get_closest_marker("spark"):
            of_spark.add(file)

    def place(item: pytest.Item) -> tuple[bool, float, str]:
        file = file_of(item.nodeid)
        return (False, -cost[file], file) if file in of_spark else (True, cost[file], file)

    return sorted(items, key=place)


class TwoEndedScheduling(LoadScopeScheduling):
    """Scheduling of whole files: from the front of the queue for the first process, from its back for all others.

    After ``until`` (seconds since 1970) no further file is started; ``left_out`` has the tests of the remaining files.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None, until: float = math.inf) -> None:
        super().__init__(config, log)
        self._until = until
        self.left_out: list[str] = []

    def _reschedule(self, node: WorkerController) -> None:
        if time.time() > self._until:
            self.left_out += [test for tests in self.workqueue.values() for test in tests]
            self.workqueue.clear()
        super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        return file_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is not self.nodes[0]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
