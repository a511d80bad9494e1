"""Lineage of datasets and of their columns as graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from django.db.models import QuerySet
from django.urls import reverse

from elevata.web.graph import COPY, HISTORY, INPUT, Edge, Graph, Node, Port
from metadata.domain import column_lineage
from metadata.domain.column_lineage import ColumnLineage, ColumnNode, ExposureNode
from metadata.domain.exposures import KINDS as EXPOSURE_KINDS
from metadata.models import Exposure
from metadata.selectors.copies import CopyResult
from metadata.selectors.dataset_lineage import Lineage, LineageNode


def layer_of(node: LineageNode) -> str:
    """Return the layer; sources and histories are layers of their own."""
    return node.kind if node.kind in ("source", "history") else node.layer


def of_lineage(
    lineage: Lineage,
    url_of: Callable[[LineageNode], str],
    exposures: Iterable[Exposure] = (),
    copies: Iterable[CopyResult] = (),
) -> Graph:
    """Return a lineage as a graph, with the exposures and copies of its datasets; its dataset is ``here``."""
    nodes = [_node(node, url_of(node)) for node in lineage.nodes]
    edges = [Edge(edge.start, edge.end, edge.kind, edge.label) for edge in lineage.edges]
    by_pk = {node.pk: node.id for node in lineage.nodes if node.kind != "source"}
    for row in exposures:
        sub = f"{row.get_kind_display().lower()} of {row.owner}"
        url = reverse("dataset_contract", args=[row.dataset.key])
        nodes.append(Node(f"exposure:{row.pk}", row.name, sub, column_lineage.EXPOSURE, url=url))
        edges.append(Edge(by_pk[row.dataset_id], f"exposure:{row.pk}"))
    for each in copies:
        node = _copy_node(each)
        nodes.append(node)
        edges.append(Edge(by_pk[each.copy.dataset_id], node.id))
    return Graph(tuple(nodes), tuple(edges))


def _copy_node(result: CopyResult) -> Node:
    row = result.copy
    return Node(
        f"copy:{row.pk}",
        row.table_name,
        f"in {row.system.short_name}",
        COPY,
        state=result.status,
        state_label=result.label.lower(),
        url=result.page,
        muted=not (row.dataset.active and row.system.active),
    )


def exposures_of(lineage: Lineage) -> QuerySet[Exposure]:
    """Return the exposures of the dataset of a lineage, and of those downstream of it."""
    rows = Exposure.objects.filter(dataset__id__among=lineage.downstream_pks)
    return rows.select_related("dataset").order_by("pk")


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


# Lineage of columns: each dataset is a node, and its columns are ports.


def of_columns(
    lineage: ColumnLineage,
    url_of: Callable[[ColumnNode | ExposureNode], str],
    column_url: Callable[[ColumnNode], str],
    here: Collection[str] = (),
) -> Graph:
    """Return a lineage of columns as a graph. ``url_of`` is the address of a box, ``here`` the selected columns."""
    columns: dict[str, list[ColumnNode]] = {}
    for node in lineage.nodes:
        columns.setdefault(node.dataset_id, []).append(node)
    boxes = [_box(dataset, group, url_of(group[0]), column_url, here) for dataset, group in columns.items()]
    for each in lineage.exposures:
        sub = f"{EXPOSURE_KINDS[each.kind].lower()} of {each.owner}"
        boxes.append(Node(each.id, each.name, sub, column_lineage.EXPOSURE, url=url_of(each)))
    return Graph(tuple(boxes), tuple(_flow(lineage, start, end) for start, end in lineage.edges))


def _box(
    dataset: str,
    columns: list[ColumnNode],
    url: str,
    column_url: Callable[[ColumnNode], str],
    here: Collection[str],
) -> Node:
    before, _, name = columns[0].dataset.partition(".")
    ports = (
        Port(each.id, each.name, each.type, each.expression, column_url(each), each.id in here, not each.active)
        for each in columns
    )
    return Node(dataset, name, before, columns[0].layer, url=url, ports=tuple(ports))


def _flow(lineage: ColumnLineage, start: str, end: str) -> Edge:
    begin, reader = lineage.by_id[start], lineage.by_id.get(end)
    if reader is None:  # an exposure, which has no columns
        return Edge(begin.dataset_id, end, start_port=start)
    kind = HISTORY if reader.kind == column_lineage.HISTORY else INPUT
    return Edge(begin.dataset_id, reader.dataset_id, kind, start_port=start, end_port=end)
