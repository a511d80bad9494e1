"""Load run as a graph of its datasets, with a bar of time for each and the critical path.

Pure: it works on the given datasets and queries nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

from elevata.jobs import states
from elevata.web.graph import INPUT, Edge, Graph, Node
from loader.domain.dependencies import CriticalPath, critical_path

# A larger graph is unreadable, and slow to lay out in a browser.
MOST_DRAWN = 150
# States that are drawn even if not all datasets are.
_TELLING = (states.FAILED, states.RUNNING)
_TO_COME = (states.QUEUED, states.RUNNING)
_LEAST_WIDTH = 0.6


@dataclass(frozen=True)
class Part:
    """One dataset of a run: ``key`` and ``waits_for`` are stable keys, ``seconds`` is the measured duration."""

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
    """Start and duration of one dataset's work, in per cent of the run's time."""

    x: float
    width: float


@dataclass(frozen=True)
class RunPicture:
    """A run's datasets in load order. ``usual`` is the duration of each in the comparable run before, by stable key."""

    parts: tuple[Part, ...]
    usual: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def by_key(self) -> dict[str, Part]:
        return {part.key: part for part in self.parts}

    @cached_property
    def path(self) -> CriticalPath:
        """Return the critical path; a dataset that is not finished counts with its usual duration."""
        try:
            return critical_path(
                {part.key: self._takes(part) for part in self.parts}, {part.key: part.waits_for for part in self.parts}
            )
        except ValueError:  # circular, if metadata changed since an earlier attempt wrote its rows
            return CriticalPath()

    @property
    def is_expected(self) -> bool:
        """Return True if a dataset on the path is still queued or running."""
        return any(part.status in _TO_COME for part in self.chain)

    @property
    def chain(self) -> list[Part]:
        return [self.by_key[key] for key in self.path.path]

    def is_critical(self, key: str) -> bool:
        return key in self.path.path

    def _takes(self, part: Part) -> float:
        if part.seconds is not None:
            return part.seconds
        if part.status in _TO_COME:
            return self.usual.get(part.key, 0.0)
        return 0.0

    # --- drawing ---------------------------------------------------------------------------------

    @cached_property
    def drawn(self) -> tuple[Part, ...]:
        """Return the datasets to draw: all, or of too many the path, failed and running ones, and neighbours."""
        if len(self.parts) <= MOST_DRAWN:
            return self.parts
        chosen = dict.fromkeys(self.path.path)
        chosen |= dict.fromkeys(part.key for status in _TELLING for part in self.parts if part.status == status)
        chosen = dict.fromkeys(list(chosen)[:MOST_DRAWN])
        near = dict.fromkeys(
            key
            for part in self.parts
            for key in (part.key, *part.waits_for)
            if key in self.by_key and (part.key in chosen or not chosen.keys().isdisjoint(part.waits_for))
        )
        kept = set(list(chosen | near)[:MOST_DRAWN])
        return tuple(part for part in self.parts if part.key in kept)

    @property
    def left_out(self) -> int:
        return len(self.parts) - len(self.drawn)

    def graph(self, urls: Mapping[str, str]) -> Graph:
        """Return the datasets and their dependencies; ``urls`` maps a dataset's key to the address that shows it."""
        shown = {part.key for part in self.drawn}
        steps = set(pairwise(self.path.path))
        nodes = (
            Node(
                part.key,
                part.name.partition(".")[2] or part.name,
                told(part),
                part.layer,
                state=part.status,
                # There is room for one of the two, and rows and seconds imply that it succeeded.
                said="" if part.status == states.SUCCEEDED else part.status,
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
        """Return each dataset's bar between the run's start and its end (or now), without those of earlier attempts."""
        if start is None or end is None or end <= start:
            return {}
        whole = (end - start).total_seconds()
        bars = {}
        for part in self.parts:
            if part.started_at is None or part.started_at < start:  # done in an earlier attempt
                continue
            begins = (part.started_at - start).total_seconds() / whole * 100
            ends = ((part.finished_at or end) - start).total_seconds() / whole * 100
            width = min(max(ends - begins, _LEAST_WIDTH), 100.0)
            bars[part.key] = Bar(round(min(max(begins, 0.0), 100.0 - width), 2), round(width, 2))
        return bars


def told(part: Part) -> str:
    """Return a dataset's rows and seconds, ``28,130 rows, 6.4 s``, or its phase while it is queued or running."""
    if part.status in _TO_COME:
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
    """Return parts from rows of ``DatasetRun`` as ``.values()`` gives them."""
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
