"""Datasets of a report and everything downstream of them, as a graph and as lists."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from django.urls import reverse

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.policy import DESTRUCTIVE, REVIEW, SAFE, risk_of
from architecture.models import ChangeReport
from architecture.services.reports.reports import operations_of
from metadata.computed_fields import stable_keys
from metadata.graph import HISTORY, LAYERS, Edge, Graph, Node, of_lineage
from metadata.models import TargetDataset
from metadata.selectors import Lineage, downstream

# More boxes than that nobody can read; they are listed only.
DRAWN = 300
AFFECTED = "affected"
_WORDS = {
    ops.BLOCKED: "blocked",
    DESTRUCTIVE: "destructive",
    REVIEW: "needs review",
    SAFE: "safe",
    AFFECTED: "reads from it",
}


@dataclass(frozen=True)
class Touched:
    """``changed`` are datasets with operations, the worst first; ``reading`` all others downstream of them."""

    graph: Graph
    changed: tuple[Node, ...]
    reading: tuple[Node, ...]

    @property
    def is_drawn(self) -> bool:
        return 0 < len(self.graph.nodes) <= DRAWN


def touched_by(report: ChangeReport) -> Touched:
    """The datasets of a report's operations with what is downstream of them as metadata describes it now."""
    operations = operations_of(report)
    described = _described(report, {one.dataset_key for one in operations})
    found = downstream(set(described.values()))
    keys = {node: str(key) for node, key in stable_keys(found).items()}
    plain = of_lineage(found, lambda node: reverse("dataset_page", args=[keys[node.id]]))
    graph = _marked(plain, _risks(operations, found, keys, described))
    graph = _with_gone(graph, operations, described, keys, report)
    order = {state: place for place, state in enumerate(_WORDS)}
    told = sorted(graph.nodes, key=lambda node: (order[node.state], node.sub, node.title))
    return Touched(
        graph,
        tuple(node for node in told if node.state != AFFECTED),
        tuple(node for node in told if node.state == AFFECTED),
    )


def _described(report: ChangeReport, keys: Collection[str]) -> dict[str, str]:
    """The metadata's stable key of each dataset that it still describes; the environment may know it by another.

    The report's content is long, and read only for names of what its stable key does not lead to.
    """
    rows = TargetDataset.objects.filter(key__among=keys, history_of__isnull=True)
    found = {str(key): str(key) for key in rows.values_list("key", flat=True)}
    others = {key for key in keys if key not in found}
    if others:
        names = {(row[1], row[2]): row[0] for row in report.content["desired"] if row[0] in others}
        named = TargetDataset.objects.filter(name__in={name for _, name in names}, history_of__isnull=True)
        for schema, name, key in named.values_list("schema__name", "name", "key"):
            if (schema, name) in names:
                found[names[schema, name]] = str(key)
    return found


def _risks(
    operations: Iterable[Operation], found: Lineage, keys: Mapping[str, str], described: Mapping[str, str]
) -> dict[str, str]:
    """Return the highest risk of each node. Operations on an undescribed history count for its base."""
    nodes = {key: node for node, key in keys.items()}
    histories = {edge.start: edge.end for edge in found.edges if edge.kind == HISTORY}
    done: dict[str, list[Operation]] = {}
    for one in operations:
        base = nodes.get(described.get(one.dataset_key, ""))
        if base is not None:
            done.setdefault(histories.get(base, base) if one.side == ops.HISTORY else base, []).append(one)
    return {node: worst(its) for node, its in done.items()}


def worst(operations: Iterable[Operation]) -> str:
    """blocked, destructive, review or safe."""
    its = tuple(operations)
    return ops.BLOCKED if any(one.decision == ops.BLOCKED for one in its) else risk_of(its)


def _marked(graph: Graph, risks: Mapping[str, str]) -> Graph:
    nodes = (_in_state(node, risks.get(node.id, AFFECTED)) for node in graph.nodes)
    return Graph(tuple(nodes), graph.edges)


def _in_state(node: Node, state: str) -> Node:
    """``here`` is one dataset of a lineage; of a report it would be every changed one."""
    return replace(node, state=state, said=_WORDS[state], here=False)


def _with_gone(
    graph: Graph,
    operations: Iterable[Operation],
    described: Mapping[str, str],
    keys: Mapping[str, str],
    report: ChangeReport,
) -> Graph:
    """Datasets that nothing describes any more, with who read them as it was applied."""
    its: dict[str, list[Operation]] = {}
    for one in operations:
        if one.dataset_key not in described:
            its.setdefault(one.dataset_key, []).append(one)
    if not its:
        return graph
    gone = {key: _gone(key, done) for key, done in its.items()}
    nodes = {key: node for node, key in keys.items()}
    nodes |= {known: nodes[key] for known, key in described.items() if key in nodes}
    nodes |= {key: node.id for key, node in gone.items()}
    read = (
        Edge(gone[source].id, nodes[state[0]])
        for state, *_ in report.content["current"]
        for source in state[9]
        if source in gone and state[0] in nodes
    )
    return Graph((*graph.nodes, *gone.values()), (*graph.edges, *read))


def _gone(key: str, operations: list[Operation]) -> Node:
    named = next((one.dataset for one in operations if one.side == ops.BASE), operations[0].dataset)
    schema, _, name = named.partition(".")
    layer = schema if schema in LAYERS else "rawcore"
    return _in_state(Node(f"gone:{key}", name, f"{schema} · not described", layer), worst(operations))
