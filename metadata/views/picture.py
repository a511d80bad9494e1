"""The lineage picture: boxes in columns from source to history, lines between them.

Pure layout: a lineage goes in, positions come out; the template draws them as SVG.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from metadata.selectors import Lineage, LineageEdge, LineageNode

BOX_WIDTH, BOX_HEIGHT = 196, 46
GAP_X, GAP_Y, MARGIN, HEAD = 52, 18, 2, 26
LABEL_LENGTH = 23

_ORDER = ("source", "raw", "stage", "rawcore", "history", "bizcore", "serving")
_HEADS = dict(zip(_ORDER, ("Source", "Raw", "Stage", "Rawcore", "History", "Bizcore", "Serving"), strict=True))


@dataclass(frozen=True)
class Box:
    """A dataset in the picture; ``x`` and ``y`` are its upper left corner."""

    node: LineageNode
    layer: str
    title: str
    sub: str
    url: str
    here: bool
    x: int = 0
    y: int = 0

    @property
    def middle(self) -> float:
        return self.y + BOX_HEIGHT / 2

    @property
    def text_x(self) -> int:
        return self.x + 14


@dataclass(frozen=True)
class Line:
    """An edge as an SVG path."""

    kind: str
    path: str
    label: str


@dataclass(frozen=True)
class Head:
    x: int
    label: str


@dataclass(frozen=True)
class Picture:
    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    heads: tuple[Head, ...]
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def draw(lineage: Lineage, url_of: Callable[[LineageNode], str]) -> Picture:
    """Lay a lineage out, left to right."""
    ranks = _ranks(lineage)
    columns = _columns(lineage, ranks)
    boxes: dict[str, Box] = {}
    tallest = max((len(column) for column in columns), default=0)
    for index, column in enumerate(columns):
        offset = (tallest - len(column)) * (BOX_HEIGHT + GAP_Y) // 2
        for place, node in enumerate(column):
            boxes[node.id] = replace(
                _box(node, url_of(node)),
                x=MARGIN + index * (BOX_WIDTH + GAP_X),
                y=HEAD + MARGIN + offset + place * (BOX_HEIGHT + GAP_Y),
            )
    heads = tuple(Head(MARGIN + index * (BOX_WIDTH + GAP_X), _head(column)) for index, column in enumerate(columns))
    bulge = max((_span(boxes, edge) for edge in lineage.edges if edge.kind == "reference"), default=0)
    return Picture(
        width=2 * MARGIN + len(columns) * BOX_WIDTH + max(len(columns) - 1, 0) * GAP_X + (30 if bulge else 0),
        height=HEAD + 2 * MARGIN + max(tallest * (BOX_HEIGHT + GAP_Y) - GAP_Y, 0),
        boxes=tuple(boxes.values()),
        lines=tuple(_lines(lineage.edges, boxes)),
        heads=heads,
    )


def layer_of(node: LineageNode) -> str:
    """Sources and histories are drawn as layers of their own."""
    return node.kind if node.kind in ("source", "history") else node.layer


def _box(node: LineageNode, url: str) -> Box:
    before, _, name = node.label.partition(".")
    title = name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…"
    sub = before + ("" if node.active else " · retired")
    return Box(node, layer_of(node), title, sub, url, node.distance == 0)


def _ranks(lineage: Lineage) -> dict[str, int]:
    """A column for every node: that of its layer, or further right if it reads its own layer."""
    ranks = {node.id: _ORDER.index(layer_of(node)) * len(lineage.nodes) for node in lineage.nodes}
    flows = [edge for edge in lineage.edges if edge.kind != "reference"]
    for _ in lineage.nodes:
        moved = False
        for edge in flows:
            if ranks[edge.end] <= ranks[edge.start]:
                ranks[edge.end] = ranks[edge.start] + 1
                moved = True
        if not moved:
            break
    used = sorted(set(ranks.values()))
    return {node: used.index(rank) for node, rank in ranks.items()}


def _columns(lineage: Lineage, ranks: dict[str, int]) -> list[list[LineageNode]]:
    """The nodes of each column, ordered so that neighbours stand beside each other."""
    columns: list[list[LineageNode]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in lineage.nodes:
        columns[ranks[node.id]].append(node)
    near: dict[str, list[str]] = defaultdict(list)
    for edge in lineage.edges:
        if edge.kind != "reference":
            near[edge.start].append(edge.end)
            near[edge.end].append(edge.start)
    for sweep in range(4):
        place = {node.id: index for column in columns for index, node in enumerate(column)}
        for column in columns if sweep % 2 == 0 else reversed(columns):
            column.sort(key=lambda node: (_average(near[node.id], place, place[node.id]), node.label))
            place |= {node.id: index for index, node in enumerate(column)}
    return columns


def _average(neighbours: list[str], place: dict[str, int], own: int) -> float:
    return sum(place[one] for one in neighbours) / len(neighbours) if neighbours else own


def _head(column: list[LineageNode]) -> str:
    layers = {layer_of(node) for node in column}
    return _HEADS[layers.pop()] if len(layers) == 1 else ""


def _span(boxes: dict[str, Box], edge: LineageEdge) -> int:
    """Whether an edge stays in the last column, where its bulge needs room."""
    return int(boxes[edge.start].x == boxes[edge.end].x == max(box.x for box in boxes.values()))


def _lines(edges: Iterable[LineageEdge], boxes: dict[str, Box]) -> Iterator[Line]:
    """Several edges between the same two boxes are drawn beside each other."""
    drawn: Counter[tuple[str, str]] = Counter()
    for edge in edges:
        pair = (edge.start, edge.end)
        yield Line(edge.kind, _path(boxes[edge.start], boxes[edge.end], drawn[pair]), edge.label)
        drawn[pair] += 1


def _path(start: Box, end: Box, number: int) -> str:
    """Rightwards a gentle S, within a column a bulge at the right side, leftwards the same mirrored."""
    right = start.x + BOX_WIDTH
    if start.x == end.x:
        reach = right + 20 + 12 * number
        aside = (8 + 5 * number) * (1 if start.y < end.y else -1)
        leaves, arrives = start.middle + aside, end.middle - aside
        return f"M{right} {leaves} C{reach} {leaves} {reach} {arrives} {right + 7} {arrives}"
    shift = 5 * number
    if start.x < end.x:
        begins, ends = right, end.x - 7
    else:
        begins, ends = start.x, end.x + BOX_WIDTH + 7
    half, leaves, arrives = (begins + ends) / 2, start.middle + shift, end.middle + shift
    return f"M{begins} {leaves} C{half} {leaves} {half} {arrives} {ends} {arrives}"
