"""Lineage of datasets: the datasets upstream and downstream, with their references."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from metadata.domain import naming
from metadata.models import DatasetInput, Reference, SourceDataset, TargetDataset


@dataclass(frozen=True)
class LineageNode:
    """Dataset in a lineage graph. ``kind`` is source, target or history; ``distance`` is negative upstream.

    A dataset that only a reference connects is one step further than the dataset at the reference's other end.
    """

    id: str
    kind: str
    label: str
    layer: str
    pk: int
    active: bool
    distance: int


@dataclass(frozen=True)
class LineageEdge:
    """Edge of kind input (rows flow), history (rows are historized) or reference (child to parent)."""

    start: str
    end: str
    kind: str
    label: str = ""


@dataclass(frozen=True)
class Lineage:
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]

    @property
    def flowing(self) -> frozenset[str]:
        """Return the IDs of the nodes that rows flow through: those at distance 0, and all not only referred to."""
        ends = {end for edge in self.edges if edge.kind != "reference" for end in (edge.start, edge.end)}
        return frozenset(ends | {node.id for node in self.nodes if node.distance == 0})

    @property
    def downstream_pks(self) -> list[int]:
        """Return the primary keys of the target datasets at distance 0, and of those that read them, with histories."""
        flowing = self.flowing
        return [node.pk for node in self.nodes if node.kind != "source" and node.distance >= 0 and node.id in flowing]


def lineage(dataset: TargetDataset | SourceDataset) -> Lineage:
    """Return the datasets upstream and downstream of a dataset, with their references, in five queries."""
    start = f"{'source' if isinstance(dataset, SourceDataset) else 'target'}:{dataset.pk}"
    flows = _flows()
    upstream = _distances([start], _neighbours((end, begin) for begin, end in flows), -1)
    distances = upstream | _distances([start], _neighbours(flows), 1)
    edges = _edges_within(flows, distances)
    edges += _reference_edges(distances)
    return Lineage(_nodes(distances), tuple(edges))


def downstream(keys: Collection[str]) -> Lineage:
    """Return the target datasets with these stable keys, at distance 0, and all their readers, in four queries.

    Unknown keys are ignored.
    """
    starts = [f"target:{pk}" for pk in TargetDataset.objects.filter(key__among=keys).values_list("pk", flat=True)]
    flows = _flows()
    distances = _distances(starts, _neighbours(flows), 1)
    return Lineage(_nodes(distances), tuple(_edges_within(flows, distances)))


def neighbourhood(datasets: Collection[int]) -> QuerySet[TargetDataset]:
    """Return target datasets with all their readers, everything that these read, and the parents of their references.

    A change of the datasets has no effect on what is planned for others.
    """
    flows = _flows()
    readers = _distances((f"target:{pk}" for pk in datasets), _neighbours(flows), 1)
    read = _distances(readers, _neighbours((end, begin) for begin, end in flows), -1)
    pks = [int(node.partition(":")[2]) for node in read if node.startswith("target:")]
    parents = Reference.objects.filter(child__id__among=pks, active=True).values_list("parent_id", flat=True)
    return TargetDataset.objects.filter(pk__among=[*pks, *parents])


def _distances(starts: Iterable[str], follow: Mapping[str, Iterable[str]], step: int) -> dict[str, int]:
    """Return the distance of each reachable node from the starts, in multiples of ``step``."""
    distances = dict.fromkeys(starts, 0)
    queue = deque(distances)
    while queue:
        node = queue.popleft()
        for neighbour in follow.get(node, ()):
            if neighbour not in distances:
                distances[neighbour] = distances[node] + step
                queue.append(neighbour)
    return distances


def _edges_within(flows: Mapping[tuple[str, str], str], nodes: Collection[str]) -> list[LineageEdge]:
    return [LineageEdge(begin, end, kind) for (begin, end), kind in flows.items() if begin in nodes and end in nodes]


def _flows() -> dict[tuple[str, str], str]:
    """Return all flows of rows: (from, to) and the kind."""
    inputs = DatasetInput.objects.order_by("dataset_id", "ordinal", "id")
    flows = {
        (f"source:{source}" if source else f"target:{upstream}", f"target:{target}"): "input"
        for source, upstream, target in inputs.values_list("source_id", "upstream_id", "dataset_id")
    }
    histories = TargetDataset.objects.filter(history_of__isnull=False).order_by("id")
    for base, history in histories.values_list("history_of_id", "id"):
        flows[f"target:{base}", f"target:{history}"] = "history"
    return flows


def _neighbours(flows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    follow: dict[str, list[str]] = {}
    for begin, end in flows:
        follow.setdefault(begin, []).append(end)
    return follow


def _reference_edges(distances: dict[str, int]) -> list[LineageEdge]:
    """Return the references from and to datasets in the graph, and add the datasets at their other ends to it."""
    edges = []
    known = dict(distances)
    used = Reference.objects.filter(active=True).order_by("id")
    for child_pk, parent_pk, role_name, parent_name in used.values_list(
        "child_id", "parent_id", "role_name", "parent__name"
    ):
        child, parent = f"target:{child_pk}", f"target:{parent_pk}"
        if child not in known and parent not in known:
            continue
        # Not at distance 0, which only the dataset of the graph has.
        if parent not in distances:
            distances[parent] = known[child] + (1 if known[child] > 0 else -1)
        if child not in distances:
            distances[child] = known[parent] + (-1 if known[parent] < 0 else 1)
        label = naming.foreign_key_name(role_name, parent_name)
        edges.append(LineageEdge(child, parent, "reference", label))
    return edges


def _nodes(distances: dict[str, int]) -> tuple[LineageNode, ...]:
    ids = {kind: [int(node.split(":")[1]) for node in distances if node.startswith(kind)] for kind in _KINDS}
    nodes = [
        LineageNode(f"source:{row.pk}", "source", str(row), "source", row.pk, row.active, 0)
        for row in SourceDataset.objects.select_related("system").filter(pk__among=ids["source"])
    ] + [
        LineageNode(
            f"target:{row.pk}",
            "history" if row.history_of_id else "target",
            str(row),
            row.schema.layer,
            row.pk,
            row.active,
            0,
        )
        for row in TargetDataset.objects.select_related("schema").filter(pk__among=ids["target"])
    ]
    nodes = [LineageNode(**{**vars(node), "distance": distances[node.id]}) for node in nodes]
    return tuple(sorted(nodes, key=lambda node: (node.distance, node.label)))


_KINDS = ("source", "target")
