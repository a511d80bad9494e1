"""Lineage graph of a report's datasets and all datasets downstream of them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from django.urls import reverse

from architecture.domain import operations as ops
from architecture.domain.change_policy import DESTRUCTIVE, REVIEW, SAFE, risk_of
from architecture.domain.operations import Operation
from architecture.domain.report_content import read_current, read_desired
from architecture.models import ChangeReport
from architecture.services.reports import operations_of
from elevata.web.graph import HISTORY, LAYERS, Edge, Graph, Node
from metadata.models import TargetDataset
from metadata.selectors.columns import stable_keys
from metadata.selectors.copies import copies_of
from metadata.selectors.dataset_lineage import Lineage, downstream
from metadata.selectors.lineage import exposures_of, of_lineage

# Larger graphs are unreadable; their datasets are only listed.
DRAWN = 300
AFFECTED = "affected"
_WORDS = {
    ops.BLOCKED: "blocked",
    DESTRUCTIVE: "high risk",
    REVIEW: "medium risk",
    SAFE: "low risk",
    AFFECTED: "reads from it",
}


@dataclass(frozen=True)
class DownstreamGraph:
    """Graph of changed datasets and their readers.

    ``changed`` are the datasets with operations, highest risk first; ``reading`` the others downstream of them.
    """

    graph: Graph
    changed: tuple[Node, ...]
    reading: tuple[Node, ...]

    @property
    def is_drawn(self) -> bool:
        return 0 < len(self.graph.nodes) <= DRAWN


def downstream_graph(report: ChangeReport) -> DownstreamGraph:
    """Return the datasets of a report's operations and all datasets downstream of them in the current metadata."""
    operations = operations_of(report)
    described = _metadata_keys(report, {operation.dataset_key for operation in operations})
    lineage = downstream(set(described.values()))
    keys = {node: str(key) for node, key in stable_keys(lineage).items()}
    plain = of_lineage(
        lineage,
        lambda node: reverse("dataset_page", args=[keys[node.id]]),
        exposures_of(lineage),
        copies_of(lineage),
    )
    graph = _with_risks(plain, _risks(operations, lineage, keys, described))
    graph = _with_removed(graph, operations, described, keys, report)
    order = {state: index for index, state in enumerate(_WORDS)}
    nodes = sorted(graph.nodes, key=lambda node: (order[node.state], node.sub, node.title))
    return DownstreamGraph(
        graph,
        tuple(node for node in nodes if node.state != AFFECTED),
        tuple(node for node in nodes if node.state == AFFECTED),
    )


def _metadata_keys(report: ChangeReport, keys: Collection[str]) -> dict[str, str]:
    """Return the stable keys in the metadata by the environment's keys, without datasets that were removed.

    The report's content is large, so it is read only if a stable key is unknown.
    """
    rows = TargetDataset.objects.filter(key__among=keys, history_of__isnull=True)
    metadata_keys = {str(key): str(key) for key in rows.values_list("key", flat=True)}
    others = {key for key in keys if key not in metadata_keys}
    if others:
        desired = (row for row in read_desired(report.content) if row.key in others)
        names = {(row.schema, row.name): row.key for row in desired}
        rows = TargetDataset.objects.filter(name__in={name for _, name in names}, history_of__isnull=True)
        for schema, name, key in rows.values_list("schema__name", "name", "key"):
            if (schema, name) in names:
                metadata_keys[names[schema, name]] = str(key)
    return metadata_keys


def _risks(
    operations: Iterable[Operation], lineage: Lineage, keys: Mapping[str, str], described: Mapping[str, str]
) -> dict[str, str]:
    """Return the highest risk of each node. Operations on a history without a node count for its base."""
    nodes = {key: node for node, key in keys.items()}
    histories = {edge.start: edge.end for edge in lineage.edges if edge.kind == HISTORY}
    by_node: dict[str, list[Operation]] = {}
    for operation in operations:
        base = nodes.get(described.get(operation.dataset_key, ""))
        if base is not None:
            node = histories.get(base, base) if operation.side == ops.HISTORY else base
            by_node.setdefault(node, []).append(operation)
    return {node: worst(group) for node, group in by_node.items()}


def worst(operations: Iterable[Operation]) -> str:
    """Return the highest risk of the operations: blocked, destructive, review or safe."""
    operations = tuple(operations)
    is_blocked = any(operation.decision == ops.BLOCKED for operation in operations)
    return ops.BLOCKED if is_blocked else risk_of(operations)


def _with_risks(graph: Graph, risks: Mapping[str, str]) -> Graph:
    nodes = (_with_state(node, risks.get(node.id, AFFECTED)) for node in graph.nodes)
    return Graph(tuple(nodes), graph.edges)


def _with_state(node: Node, state: str) -> Node:
    """Return the node with a state and its word, and without the mark of a lineage's centre (``here``)."""
    return replace(node, state=state, state_label=_WORDS[state], here=False)


def _with_removed(
    graph: Graph,
    operations: Iterable[Operation],
    described: Mapping[str, str],
    keys: Mapping[str, str],
    report: ChangeReport,
) -> Graph:
    """Return the graph with datasets that were removed from the metadata, and the edges to their applied readers."""
    by_dataset: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.dataset_key not in described:
            by_dataset.setdefault(operation.dataset_key, []).append(operation)
    if not by_dataset:
        return graph
    removed = {key: _removed_node(key, group) for key, group in by_dataset.items()}
    nodes = {key: node for node, key in keys.items()}
    nodes |= {known: nodes[key] for known, key in described.items() if key in nodes}
    nodes |= {key: node.id for key, node in removed.items()}
    edges = (
        Edge(removed[source].id, nodes[row.dataset.key])
        for row in read_current(report.content)
        for source in row.dataset.inputs
        if source in removed and row.dataset.key in nodes
    )
    return Graph((*graph.nodes, *removed.values()), (*graph.edges, *edges))


def _removed_node(key: str, operations: list[Operation]) -> Node:
    dataset = next((operation.dataset for operation in operations if operation.side == ops.BASE), operations[0].dataset)
    schema, _, name = dataset.partition(".")
    layer = schema if schema in LAYERS else "rawcore"
    return _with_state(Node(f"gone:{key}", name, f"{schema} · not described", layer), worst(operations))
