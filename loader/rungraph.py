"""A load run as a picture: its datasets as a graph, when each was worked on, and the critical path.

Pure: what is known of the datasets goes in, nothing is asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

from loader.domain import runs as states
from loader.domain.critical_path import CriticalPath, critical_path
from metadata.graph import INPUT, Edge, Graph, Node

# More than this nobody can look at, and no browser lays out quickly.
MOST_DRAWN = 150
# What a person looks at first.
_TELLING = (states.FAILED, states.RUNNING)
_TO_COME = (states.QUEUED, states.RUNNING)
_LEAST_WIDTH = 0.6


@dataclass(frozen=True)
class Part:
    """What is known of one dataset in a run: ``key`` and ``waits_for`` are stable keys, ``seconds`` as measured."""

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
    """When a dataset was worked on, in per cent of the run's time."""

    x: float
    width: float


@dataclass(frozen=True)
class RunPicture:
    """A run's datasets, in their order of loading. ``usual`` is how long each took the time before."""

    parts: tuple[Part, ...]
    usual: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def by_key(self) -> dict[str, Part]:
        return {part.key: part for part in self.parts}

    @cached_property
    def path(self) -> CriticalPath:
        """The critical path; what is not finished counts with its usual time."""
        try:
            return critical_path(
                {part.key: self._takes(part) for part in self.parts}, {part.key: part.waits_for for part in self.parts}
            )
        except ValueError:  # rows that an earlier attempt left, and metadata has turned round since
            return CriticalPath()

    @property
    def is_expected(self) -> bool:
        """Whether some of the path is still to come."""
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

    # --- drawn -----------------------------------------------------------------------------------

    @cached_property
    def drawn(self) -> tuple[Part, ...]:
        """All of them; of too many those on the path and those to look at, with their neighbours."""
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
        """Datasets and what they wait for; ``urls`` leads from a dataset's key to where it is told of."""
        shown = {part.key for part in self.drawn}
        steps = set(pairwise(self.path.path))
        nodes = (
            Node(
                part.key,
                part.name.partition(".")[2] or part.name,
                told(part),
                part.layer,
                state=part.status,
                # There is room for one of both: rows and seconds say that it succeeded.
                said="" if part.status == states.SUCCEEDED else part.status,
                url=urls.get(part.key, ""),
                marked=self.is_critical(part.key),
            )
            for part in self.drawn
        )
        edges = (
            Edge(one, part.key, INPUT, marked=(one, part.key) in steps)
            for part in self.drawn
            for one in dict.fromkeys(part.waits_for)
            if one in shown
        )
        return Graph(tuple(nodes), tuple(edges))

    def bars(self, *, start: datetime | None, end: datetime | None) -> dict[str, Bar]:
        """When each dataset was worked on, between the run's start and its end (or now)."""
        if start is None or end is None or end <= start:
            return {}
        whole = (end - start).total_seconds()
        found = {}
        for part in self.parts:
            if part.started_at is None or part.started_at < start:  # done in an earlier attempt
                continue
            begins = (part.started_at - start).total_seconds() / whole * 100
            ends = ((part.finished_at or end) - start).total_seconds() / whole * 100
            width = min(max(ends - begins, _LEAST_WIDTH), 100.0)
            found[part.key] = Bar(round(min(max(begins, 0.0), 100.0 - width), 2), round(width, 2))
        return found


def told(part: Part) -> str:
    """What there is to say besides its state: ``28,130 rows, 6.4 s``, or what is being done."""
    if part.status in _TO_COME:
        return part.phase
    said = [f"{part.rows:,} rows"] if part.rows is not None else []
    said += [in_seconds(part.seconds)] if part.seconds is not None else []
    return ", ".join(said)


def in_seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def parts_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Parts from rows of ``DatasetRun`` as ``.values()`` gives them."""
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
