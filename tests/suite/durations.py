"""Durations and outcomes of tests: written by each run, read by ``order`` and ``run``."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

import pytest

CACHE_KEY = "elevata/durations"
# The first of these marks decides a test's kind.
_KINDS = {"servers": "servers", "browser": "browser", "spark": "Spark", "database": "database"}
_PURE = "pure"
_SLOWEST_FILES = 10


def kind_of(marks: Iterable[str]) -> str:
    """Return the kind of a test with these marks."""
    return next((kind for mark, kind in _KINDS.items() if mark in marks), _PURE)


def file_of(test: str) -> str:
    """Return the file of a test id."""
    return test.partition("::")[0]


def stored_durations(config: pytest.Config) -> dict[str, float]:
    """Return the seconds of each test in its newest run in this checkout, by test id."""
    cache = getattr(config, "cache", None)
    return cache.get(CACHE_KEY, {}) if cache else {}


@dataclass
class Outcomes:
    """Seconds and kind of each test of a run, failed tests, and tests left out because the time was over.

    Seconds include set-up and teardown.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the outcomes that a run has written; empty if it ended early."""
        return cls(**json.loads(file.read_text())) if file.is_file() else cls()

    def add(self, report: pytest.TestReport) -> None:
        """Add the report of one phase of a test."""
        test = report.nodeid
        self.seconds[test] = round(self.seconds.get(test, 0) + report.duration, 3)
        self.kinds[test] = kind_of(report.keywords)
        if report.failed and test not in self.failed:
            self.failed.append(test)


class Recorder:
    """Plugin of the controlling process: writes durations into pytest's cache, and outcomes into a file."""

    def __init__(self, file: str | None) -> None:
        self._file = Path(file) if file else None
        self._outcomes = Outcomes()
        # Shared with the scheduling, which fills it.
        self.left_out: list[str] = self._outcomes.left_out

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._outcomes.add(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what was recorded; a run of a few tests keeps the stored durations of the others."""
        cache = getattr(session.config, "cache", None)
        if cache and self._outcomes.seconds:
            cache.set(CACHE_KEY, stored_durations(session.config) | self._outcomes.seconds)
        self._outcomes.left_out = self.left_out
        if self._file:
            self._file.write_text(json.dumps(asdict(self._outcomes)))


def summary(seconds: Mapping[str, float], kinds: Mapping[str, str]) -> list[str]:
    """Return lines with the time by kind, and with the slowest files."""
    by_kind: Counter[str] = Counter()
    by_file: Counter[str] = Counter()
    tests = Counter(kinds[test] for test in seconds)
    for test, duration in seconds.items():
        by_kind[kinds[test]] += duration
        by_file[file_of(test)] += duration
    return [
        *(f"{duration:8.1f} s  {kind}, {tests[kind]} tests" for kind, duration in by_kind.most_common()),
        *(f"{duration:8.1f} s  {file}" for file, duration in by_file.most_common(_SLOWEST_FILES)),
    ]
