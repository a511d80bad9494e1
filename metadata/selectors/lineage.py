"""Lineage of columns, and of datasets as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from elevata.web.graph import Edge, Graph, Node
from metadata.models import ColumnInput, SourceColumn, TargetColumn
from metadata.selectors.datasets import Lineage, LineageNode

UPSTREAM, DOWNSTREAM, BOTH = "upstream", "downstream", "both"
DIRECTIONS = (BOTH, UPSTREAM, DOWNSTREAM)
MOST_STEPS = 100

_Id = tuple[str, int]


@dataclass(frozen=True)
class ColumnNode:
    """Column. ``kind`` is source or target; ``distance`` is negative upstream, 0 for the requested one."""

    key: UUID
    kind: str
    name: str
    dataset: str
    dataset_key: UUID
    active: bool
    distance: int


@dataclass(frozen=True)
class ColumnLineage:
    """Columns, and the keys of those between which values flow."""

    nodes: tuple[ColumnNode, ...]
    edges: tuple[tuple[UUID, UUID], ...]


def column_lineage(column: TargetColumn, direction: str = BOTH, depth: int = MOST_STEPS) -> ColumnLineage:
    """Return the columns that are at most ``depth`` steps away; one query for each step, and two for the columns."""
    start: _Id = ("target", column.pk)
    distances: dict[_Id, int] = {start: 0}
    edges: dict[tuple[_Id, _Id], None] = {}
    if direction in (BOTH, UPSTREAM):
        _walk(start, depth, -1, distances, edges)
    if direction in (BOTH, DOWNSTREAM):
        _walk(start, depth, 1, distances, edges)
    nodes = dict(_nodes(distances))
    shown = tuple((nodes[begin].key, nodes[end].key) for begin, end in edges)
    return ColumnLineage(tuple(sorted(nodes.values(), key=lambda one: (one.distance, one.dataset, one.name))), shown)


def _walk(start: _Id, depth: int, step: int, distances: dict[_Id, int], edges: dict[tuple[_Id, _Id], None]) -> None:
    seen, reached = {start}, {start}
    for away in range(1, depth + 1):
        pks = [pk for kind, pk in reached if kind == "target"]
        if not pks:
            return
        found = list(_upstream(pks) if step < 0 else _downstream(pks))
        edges.update(dict.fromkeys(found))
        reached = {begin if step < 0 else end for begin, end in found} - seen
        seen |= reached
        for one in reached:
            distances.setdefault(one, step * away)


def _upstream(pks: list[int]) -> Iterable[tuple[_Id, _Id]]:
    rows = ColumnInput.objects.filter(column__in=pks).order_by("column_id", "ordinal", "pk")
    for column, source, upstream in rows.values_list("column_id", "source_column_id", "upstream_column_id"):
        yield (("source", source) if source else ("target", upstream)), ("target", column)


def _downstream(pks: list[int]) -> Iterable[tuple[_Id, _Id]]:
    rows = ColumnInput.objects.filter(upstream_column__in=pks).order_by("column_id", "ordinal", "pk")
    for column, upstream in rows.values_list("column_id", "upstream_column_id"):
        yield ("target", upstream), ("target", column)


def _nodes(distances: dict[_Id, int]) -> Iterable[tuple[_Id, ColumnNode]]:
    for kind, model, parent in (
        ("source", SourceColumn, "dataset__system"),
        ("target", TargetColumn, "dataset__schema"),
    ):
        pks = [pk for other, pk in distances if other == kind]
        for row in model.objects.filter(pk__in=pks).select_related(parent) if pks else ():
            away = distances[kind, row.pk]
            told = ColumnNode(row.key, kind, row.name, str(row.dataset), row.dataset.key, row.active, away)
            yield (kind, row.pk), told


# Lineage of datasets as a graph.


def layer_of(node: LineageNode) -> str:
    """Return the layer; sources and histories are layers of their own."""
    return node.kind if node.kind in ("source", "history") else node.layer


def of_lineage(lineage: Lineage, url_of: Callable[[LineageNode], str]) -> Graph:
    """Return a lineage as a graph; its dataset is ``here``."""
    nodes = (_node(node, url_of(node)) for node in lineage.nodes)
    return Graph(tuple(nodes), tuple(Edge(edge.start, edge.end, edge.kind, edge.label) for edge in lineage.edges))


def _node(node: LineageNode, url: str) -> Node:
    before, _, name = node.label.partition(".")
    return Node(
        node.id,
        name,
        before if node.active else f"{before} · retired",
        layer_of(node),
        url=url,
        here=node.distance == 0,
        muted=not node.active,
    )
