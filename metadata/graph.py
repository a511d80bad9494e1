"""Graphs of datasets, as ``static/js/graph.js`` draws them and the lists beside them tell them.

Pure: whoever shows a graph makes the nodes and edges, and ``templates/parts/graph.html`` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metadata.selectors import Lineage, LineageNode

# Layers from left to right, with their heads; sources and histories are drawn as layers of their own.
LAYERS = {
    "source": "Source",
    "raw": "Raw",
    "stage": "Stage",
    "rawcore": "Rawcore",
    "history": "History",
    "bizcore": "Bizcore",
    "serving": "Serving",
}
# What an edge says: rows flow, rows are kept as versions, rows refer to others. Only the last has no direction
# in which a graph is laid out.
INPUT, HISTORY, REFERENCE = "input", "history", "reference"
KINDS = {INPUT: "rows flow", HISTORY: "versions are kept", REFERENCE: "refers to"}


@dataclass(frozen=True)
class Node:
    """A dataset. ``layer`` gives it a colour and its place, ``state`` another colour that ``said`` puts in words.

    ``here`` is what the page is about, ``marked`` what is to stand out (a critical path), ``muted`` what is retired.
    """

    id: str
    title: str
    sub: str = ""
    layer: str = ""
    state: str = ""
    said: str = ""
    url: str = ""
    here: bool = False
    marked: bool = False
    muted: bool = False


@dataclass(frozen=True)
class Edge:
    """From node to node, of a kind of ``KINDS``; ``label`` is read where one points at it."""

    start: str
    end: str
    kind: str = INPUT
    label: str = ""
    marked: bool = False


@dataclass(frozen=True)
class Graph:
    """Nodes and edges. ValueError for ids that are there twice, and for edges that lead nowhere."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        ids = {node.id for node in self.nodes}
        if len(ids) != len(self.nodes):
            raise ValueError("two nodes have the same id")
        lost = next((edge for edge in self.edges if not {edge.start, edge.end} <= ids), None)
        if lost is not None:
            raise ValueError(f"there is no node for the edge from {lost.start} to {lost.end}")

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The column of each node, from 0: that of its layer, or further right if it reads its own layer.

        Empty where a layer is not known: then the columns follow from the edges alone.
        """
        if any(node.layer not in LAYERS for node in self.nodes):
            return {}
        order = {layer: place for place, layer in enumerate(LAYERS)}
        ranks = {node.id: order[node.layer] * len(self.nodes) for node in self.nodes}
        flows = [edge for edge in self.edges if edge.kind != REFERENCE]
        for _ in self.nodes:  # a circle would push its nodes on for ever
            moved = False
            for edge in flows:
                if ranks[edge.end] <= ranks[edge.start] and edge.end != edge.start:
                    ranks[edge.end], moved = ranks[edge.start] + 1, True
            if not moved:
                break
        used = {rank: place for place, rank in enumerate(sorted(set(ranks.values())))}
        return {node: used[rank] for node, rank in ranks.items()}

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Return the heading above each column of the drawing; empty where several layers share it."""
        layers: dict[int, set[str]] = {}
        for node in self.nodes:
            if self.ranks:
                layers.setdefault(self.ranks[node.id], set()).add(node.layer)
        return tuple(LAYERS[min(found)] if len(found) == 1 else "" for _, found in sorted(layers.items()))

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers in it, from left to right, for the key."""
        used = {node.layer for node in self.nodes}
        return tuple(layer for layer in LAYERS if layer in used)

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The kinds of edges in it with their words, for the key."""
        used = {edge.kind for edge in self.edges}
        return tuple((kind, said) for kind, said in KINDS.items() if kind in used)

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """The states in it with their words, in the order in which they come up, for the key."""
        return tuple(dict.fromkeys((node.state, node.said) for node in self.nodes if node.state and node.said))

    @property
    def has_marked(self) -> bool:
        return any(one.marked for one in (*self.nodes, *self.edges))

    def as_json(self) -> dict[str, Any]:
        """Return the input of ``graph.js``; empty parts are left out."""
        ranked = [_plain(node) | ({"rank": self.ranks[node.id]} if self.ranks else {}) for node in self.nodes]
        found: dict[str, Any] = {"nodes": ranked, "edges": [_plain(edge) for edge in self.edges]}
        return found | ({"heads": list(self.heads)} if any(self.heads) else {})


def _plain(one: Node | Edge) -> dict[str, Any]:
    return {field.name: value for field in fields(one) if (value := getattr(one, field.name))}


# --- of a lineage ----------------------------------------------------------------------------


def layer_of(node: LineageNode) -> str:
    """Sources and histories are layers of their own."""
    return node.kind if node.kind in ("source", "history") else node.layer


def of_lineage(lineage: Lineage, url_of: Callable[[LineageNode], str]) -> Graph:
    """A lineage as a graph; the dataset that it is about is ``here``."""
    nodes = (_node(node, url_of(node)) for node in lineage.nodes)
    return Graph(tuple(nodes), tuple(Edge(one.start, one.end, one.kind, one.label) for one in lineage.edges))


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
