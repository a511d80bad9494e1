"""Graphs of datasets, which ``static/js/graph/graph.js`` draws.

Callers create the nodes and edges, and ``templates/parts/graph.html`` renders the graph and a list of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

# Layers from left to right, with their headings; sources and histories are drawn as layers of their own.
LAYERS = {
    "source": "Source",
    "raw": "Raw",
    "stage": "Stage",
    "rawcore": "Rawcore",
    "history": "History",
    "bizcore": "Bizcore",
    "serving": "Serving",
    "copy": "Copy",
    "exposure": "Exposure",
}
COPY = "copy"
# Kinds of edges. References have no influence on the layout.
INPUT, HISTORY, REFERENCE = "input", "history", "reference"
KINDS = {INPUT: "rows flow", HISTORY: "versions are kept", REFERENCE: "refers to"}


@dataclass(frozen=True)
class Port:
    """Column in the box of its dataset. ``note`` is its type, ``tip`` the expression that it is computed by."""

    id: str
    title: str
    note: str = ""
    tip: str = ""
    url: str = ""
    here: bool = False
    muted: bool = False


@dataclass(frozen=True)
class Node:
    """Node of a dataset. ``layer`` sets its colour and column, ``state`` a second colour with ``state_label``.

    ``here`` is True for the subject of the page, ``marked`` for a highlighted node (critical path), ``muted`` for a
    retired dataset. ``ports`` are its columns, if the graph shows columns.
    """

    id: str
    title: str
    sub: str = ""
    layer: str = ""
    state: str = ""
    state_label: str = ""
    url: str = ""
    here: bool = False
    marked: bool = False
    muted: bool = False
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True)
class Edge:
    """Edge of a kind in ``KINDS``; ``label`` is its tooltip. It begins and ends at ports of its nodes, if given."""

    start: str
    end: str
    kind: str = INPUT
    label: str = ""
    marked: bool = False
    start_port: str = ""
    end_port: str = ""


@dataclass(frozen=True)
class Graph:
    """Graph of nodes and edges. Raises ValueError for duplicate ids and for edges to unknown nodes or ports."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    def __post_init__(self) -> None:
        ids = {node.id for node in self.nodes}
        if len(ids) != len(self.nodes):
            raise ValueError("two nodes have the same id")
        dangling = next((edge for edge in self.edges if not {edge.start, edge.end} <= ids), None)
        if dangling is not None:
            raise ValueError(f"there is no node for the edge from {dangling.start} to {dangling.end}")
        ports = {"", *(port.id for node in self.nodes for port in node.ports)}
        dangling = next((edge for edge in self.edges if not {edge.start_port, edge.end_port} <= ports), None)
        if dangling is not None:
            raise ValueError(f"there is no port for the edge from {dangling.start_port} to {dangling.end_port}")

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Return the column of each node, from 0: the layer's, or one further right if it reads its own layer.

        Return an empty dict if a layer is unknown; the columns then depend on the edges only.
        """
        if any(node.layer not in LAYERS for node in self.nodes):
            return {}
        order = {layer: place for place, layer in enumerate(LAYERS)}
        ranks = {node.id: order[node.layer] * len(self.nodes) for node in self.nodes}
        flows = {(edge.start, edge.end) for edge in self.edges if edge.kind != REFERENCE and edge.start != edge.end}
        for _ in self.nodes:  # bounds the loop if the graph is cyclic
            moved = False
            for start, end in sorted(flows):
                if ranks[end] <= ranks[start]:
                    ranks[end], moved = ranks[start] + 1, True
            if not moved:
                break
        used = {rank: place for place, rank in enumerate(sorted(set(ranks.values())))}
        return {node: used[rank] for node, rank in ranks.items()}

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """Return the heading of each column; empty for a column of several layers."""
        layers: dict[int, set[str]] = {}
        for node in self.nodes:
            if self.ranks:
                layers.setdefault(self.ranks[node.id], set()).add(node.layer)
        return tuple(LAYERS[min(names)] if len(names) == 1 else "" for _, names in sorted(layers.items()))

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the layers of the graph, from left to right, for the legend."""
        used = {node.layer for node in self.nodes}
        return tuple(layer for layer in LAYERS if layer in used)

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Return the kinds of edges of the graph with their labels, for the legend."""
        used = {edge.kind for edge in self.edges}
        return tuple((kind, label) for kind, label in KINDS.items() if kind in used)

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """Return the states of the graph with their labels, in order of appearance, for the legend."""
        labels = ((node.state, node.state_label) for node in self.nodes)
        return tuple(dict.fromkeys(pair for pair in labels if all(pair)))

    @property
    def has_marked(self) -> bool:
        return any(node.marked for node in self.nodes) or any(edge.marked for edge in self.edges)

    def as_json(self) -> dict[str, Any]:
        """Return the input of ``static/js/graph``, without empty parts."""
        ranked = [_plain(node) | ({"rank": self.ranks[node.id]} if self.ranks else {}) for node in self.nodes]
        document: dict[str, Any] = {"nodes": ranked, "edges": [_plain(edge) for edge in self.edges]}
        return document | ({"heads": list(self.heads)} if any(self.heads) else {})


def _plain(item: Node | Edge | Port) -> dict[str, Any]:
    values = {field.name: value for field in fields(item) if (value := getattr(item, field.name))}
    return values | ({"ports": list(map(_plain, item.ports))} if isinstance(item, Node) and item.ports else {})
