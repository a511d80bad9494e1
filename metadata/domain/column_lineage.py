"""Lineage of columns: columns, the flows of values between them, and cycles of flows.

The ids of columns are texts, ``<kind>:<key>``: a history has the columns of its base under ids of its own.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

SOURCE, TARGET, HISTORY, EXPOSURE = "source", "target", "history", "exposure"
KINDS = {SOURCE: "source", TARGET: "target", HISTORY: "history"}
UPSTREAM, DOWNSTREAM, BOTH = "upstream", "downstream", "both"
DIRECTIONS = (BOTH, UPSTREAM, DOWNSTREAM)

Flow = tuple[str, str]


@dataclass(frozen=True)
class ColumnNode:
    """Column. ``expression`` is empty for values that are passed on unchanged.

    ``distance`` is the number of steps from the requested columns: negative upstream, 0 for these.
    """

    id: str
    kind: str
    key: str
    name: str
    type: str
    expression: str
    dataset: str
    dataset_key: str
    layer: str
    active: bool
    distance: int

    @property
    def qualified_name(self) -> str:
        return f"{self.dataset}.{self.name}"

    @property
    def dataset_id(self) -> str:
        return f"{self.kind}:{self.dataset_key}"


@dataclass(frozen=True)
class ExposureNode:
    """Consumer of the columns of a dataset."""

    id: str
    key: str
    name: str
    kind: str
    owner: str
    dataset: str
    dataset_key: str
    distance: int


@dataclass(frozen=True)
class RowInput:
    """Column that decides which rows a model has; ``column`` is its id."""

    column: str
    name: str
    dataset: str
    dataset_key: str


@dataclass(frozen=True)
class ColumnLineage:
    """Columns, consumers, and the ids of those between which values flow.

    ``row_inputs`` are columns that decide the rows of models: of those with columns here at most 0 steps away, and of
    those that columns here at least 0 steps away decide.
    """

    nodes: tuple[ColumnNode, ...] = ()
    edges: tuple[Flow, ...] = ()
    exposures: tuple[ExposureNode, ...] = ()
    row_inputs: tuple[RowInput, ...] = ()

    @cached_property
    def by_id(self) -> dict[str, ColumnNode]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def reads(self) -> dict[str, list[ColumnNode]]:
        """Return the columns that each column or exposure reads, by its id."""
        reads: dict[str, list[ColumnNode]] = defaultdict(list)
        for start, end in self.edges:
            reads[end].append(self.by_id[start])
        return reads

    @cached_property
    def cycles(self) -> tuple[tuple[ColumnNode, ...], ...]:
        """Return the cycles of columns, each in the order of its flows."""
        return tuple(tuple(self.by_id[node] for node in cycle) for cycle in cycles(self.edges))

    def passed_on(self, column: str) -> list[ColumnNode]:
        """Return the columns upstream whose values reach a column (by id) unchanged, the nearest first."""
        columns: dict[str, ColumnNode] = {}
        pending = [column]
        while pending:
            reached = [own for name in pending if not self.by_id[name].expression for own in self.reads[name]]
            pending = [own.id for own in reached if own.id not in columns and own.id != column]
            columns |= {own.id: own for own in reached if own.id != column}
        return list(columns.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "nodes": [asdict(node) for node in self.nodes],
            "exposures": [asdict(exposure) for exposure in self.exposures],
            "edges": [{"start": start, "end": end} for start, end in self.edges],
            "row_inputs": [asdict(each) for each in self.row_inputs],
            "cycles": [[node.id for node in cycle] for cycle in self.cycles],
        }


def cycles(flows: Iterable[Flow]) -> list[tuple[str, ...]]:
    """Return one cycle of each group of ids that reach each other, in the order of their flows."""
    follow: dict[str, list[str]] = defaultdict(list)
    for start, successor in flows:
        follow[start].append(successor)
    loops: list[tuple[str, ...]] = []
    done: set[str] = set()
    for start in list(follow):
        path: dict[str, int] = {}
        pending = [(start, iter(follow[start]))] if start not in done else []
        path.update((node, 0) for node, _ in pending)
        while pending:
            node, ends = pending[-1]
            end = next(ends, None)
            if end is None:
                pending.pop()
                path.pop(node)
                done.add(node)
            elif end in path:
                cycle = tuple(path)[path[end] :]
                if not any(set(cycle) & set(other) for other in loops):
                    loops.append(cycle)
            elif end not in done:
                path[end] = len(path)
                pending.append((end, iter(follow.get(end, ()))))
    return loops
