"""Picture of a load run: graph of its datasets, their time bars, and the critical path.

It works on the given datasets and queries no database.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

from elevata.jobs import states
from elevata.web.graph import INPUT, Edge, Graph, Node
from loader.domain.critical_path import CriticalPath, critical_path

# Number of datasets above which a graph is unreadable, and slow to lay out in a browser.
MOST_DRAWN = 150
# States of the datasets that are drawn even in a larger graph.
_ALWAYS_DRAWN = (states.FAILED, states.RUNNING)
_UNFINISHED = (states.QUEUED, states.RUNNING)
_MIN_WIDTH = 0.6


@dataclass(frozen=True)
class Part:
    """Dataset of a run: ``key`` and ``waits_for`` are stable keys, ``seconds`` is the measured duration."""

    key: str
    name: str
    layer: str
    status: str
    phase: str = ""
    waits_for: tuple[str, ...] = ()
    rows: int | None = None
    seconds: float | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class Bar:
    """Time bar of a dataset: start and duration, in per cent of the run's time."""

    x: float
    width: float


@dataclass(frozen=True)
class RunPicture:
    """Picture of a run's datasets, in load order; ``usual`` has their durations in an earlier run, by stable key."""

    parts: tuple[Part, ...]
    usual: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def by_key(self) -> dict[str, Part]:
        return {part.key: part for part in self.parts}

    @cached_property
    def path(self) -> CriticalPath:
        """Return the critical path; unfinished datasets count with their usual durations."""
        try:
            return critical_path(
                {part.key: self._duration(part) for part in self.parts},
                {part.key: part.waits_for for part in self.parts},
            )
        except ValueError:  # circular, if metadata changed since an earlier attempt wrote its rows
            return CriticalPath()

    @property
    def is_expected(self) -> bool:
        """Return True if a dataset on the path is still queued or running."""
        return any(part.status in _UNFINISHED for part in self.chain)

    @property
    def chain(self) -> list[Part]:
        return [self.by_key[key] for key in self.path.path]

    def is_critical(self, key: str) -> bool:
        return key in self.path.path

    def _duration(self, part: Part) -> float:
        if part.seconds is not None:
            return part.seconds
        if part.status in _UNFINISHED:
            return self.usual.get(part.key, 0.0)
        return 0.0

    # --- drawing ---------------------------------------------------------------------------------

    @cached_property
    def drawn(self) -> tuple[Part, ...]:
        """Return the datasets to draw: all, or if too many, critical, failed and running ones and their neighbours."""
        if len(self.parts) <= MOST_DRAWN:
            return self.parts
        chosen = dict.fromkeys(self.path.path)
        chosen |= dict.fromkeys(part.key for status in _ALWAYS_DRAWN for part in self.parts if part.status == status)
        chosen = dict.fromkeys(list(chosen)[:MOST_DRAWN])
        neighbours = dict.fromkeys(
            key
            for part in self.parts
            for key in (part.key, *part.waits_for)
            if key in self.by_key and (part.key in chosen or not chosen.keys().isdisjoint(part.waits_for))
        )
        drawn_keys = set(list(chosen | neighbours)[:MOST_DRAWN])
        return tuple(part for part in self.parts if part.key in drawn_keys)

    @property
    def left_out(self) -> int:
        return len(self.parts) - len(self.drawn)

    def graph(self, urls: Mapping[str, str]) -> Graph:
        """Return the graph of the datasets and their dependencies; ``urls`` maps a dataset's key to its address."""
        shown = {part.key for part in self.drawn}
        steps = set(pairwise(self.path.path))
        nodes = (
            Node(
                part.key,
                part.name.partition(".")[2] or part.name,
                summary(part),
                part.layer,
                state=part.status,
                # There is room for one label, and rows and seconds imply that the dataset succeeded.
                state_label="" if part.status == states.SUCCEEDED else part.status,
                url=urls.get(part.key, ""),
                marked=self.is_critical(part.key),
            )
            for part in self.drawn
        )
        edges = (
            Edge(upstream, part.key, INPUT, marked=(upstream, part.key) in steps)
            for part in self.drawn
            for upstream in dict.fromkeys(part.waits_for)
            if upstream in shown
        )
        return Graph(tuple(nodes), tuple(edges))

    def bars(self, *, start: datetime | None, end: datetime | None) -> dict[str, Bar]:
        """Return the bars of the datasets between start and end (or now), without those of earlier attempts."""
        if start is None or end is None or end <= start:
            return {}
        whole = (end - start).total_seconds()
        bars = {}
        for part in self.parts:
            if part.started_at is None or part.started_at < start:  # done in an earlier attempt
                continue
            begins = (part.started_at - start).total_seconds() / whole * 100
            ends = ((part.finished_at or end) - start).total_seconds() / whole * 100
            width = min(max(ends - begins, _MIN_WIDTH), 100.0)
            bars[part.key] = Bar(round(min(max(begins, 0.0), 100.0 - width), 2), round(width, 2))
        return bars


def summary(part: Part) -> str:
    """Return a dataset's rows and seconds, ``28,130 rows, 6.4 s``, or its phase if it is unfinished."""
    if part.status in _UNFINISHED:
        return part.phase
    words = [f"{part.rows:,} rows"] if part.rows is not None else []
    words += [in_seconds(part.seconds)] if part.seconds is not None else []
    return ", ".join(words)


def in_seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def parts_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the parts of ``.values()`` rows of ``DatasetRun``."""
    return tuple(
        Part(
            key=str(row["dataset_key"]),
            name=row["qualified_name"],
            layer=row["kind"],
            status=row["status"],
            phase=row["phase"],
            waits_for=tuple(row["depends_on"]),
            rows=row["counts"].get("rows"),
            seconds=row["seconds"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
        )
        for row in rows
    )
