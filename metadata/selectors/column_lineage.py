"""Lineage of columns across all layers, from sources to exposures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from django.db.models import F, Q

from metadata.domain.column_lineage import (
    BOTH,
    DOWNSTREAM,
    HISTORY,
    SOURCE,
    TARGET,
    UPSTREAM,
    ColumnLineage,
    ColumnNode,
    ExposureNode,
    RowInput,
)
from metadata.domain.types import DataType
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Exposure,
    SourceColumn,
    SourceDataset,
    TargetColumn,
    TargetDataset,
)
from metadata.selectors.row_inputs import row_inputs

MOST_STEPS = 100

ColumnId = tuple[str, int]
_Flow = tuple[ColumnId, ColumnId]
_ORDER = ("column_id", "ordinal", "pk")
_ENDS = ("column_id", "source_column_id", "upstream_column_id", "dataset_input__upstream__history_of_id")


def column_lineage(
    column: TargetColumn | SourceColumn, direction: str = BOTH, depth: int = MOST_STEPS
) -> ColumnLineage:
    """Return the columns that are at most ``depth`` steps away from a column."""
    kind = SOURCE if isinstance(column, SourceColumn) else TARGET
    return lineage_of([(kind, column.pk)], direction, depth, depth)


def dataset_columns(dataset: TargetDataset | SourceDataset) -> list[ColumnId]:
    """Return the ids of a dataset's active columns; a history has those of its base."""
    owner: SourceDataset | TargetDataset = dataset
    kind = SOURCE if isinstance(dataset, SourceDataset) else TARGET
    if isinstance(dataset, TargetDataset) and dataset.history_of is not None:
        kind, owner = HISTORY, dataset.history_of
    return [(kind, pk) for pk in owner.columns.filter(active=True).values_list("pk", flat=True)]


def lineage_of(
    starts: Iterable[ColumnId], direction: str = BOTH, up: int = MOST_STEPS, down: int = MOST_STEPS
) -> ColumnLineage:
    """Return the columns at most ``up`` steps upstream and ``down`` steps downstream of the start columns.

    The number of queries depends on the number of steps only.
    """
    distances: dict[ColumnId, int] = dict.fromkeys(starts, 0)
    flows: dict[_Flow, None] = {}
    start = set(distances)
    if direction in (BOTH, UPSTREAM):
        _walk(start, up, -1, distances, flows)
    if direction in (BOTH, DOWNSTREAM):
        _walk(start, down, 1, distances, flows)
    with_exposures = direction in (BOTH, DOWNSTREAM)
    sides = ({-1, 0} if direction in (BOTH, UPSTREAM) else set()) | ({0, 1} if with_exposures else set())
    return _lineage(distances, flows, sides)


def whole_lineage() -> ColumnLineage:
    """Return all active columns and the flows between them, with distance 0."""
    ids: list[ColumnId] = [(SOURCE, pk) for pk in SourceColumn.objects.filter(active=True).values_list("pk", flat=True)]
    targets = list(TargetColumn.objects.filter(active=True, dataset__active=True).values_list("pk", flat=True))
    ids += [(TARGET, pk) for pk in targets]
    ids += [(HISTORY, pk) for pk in _historized(targets)]
    distances, flows = dict.fromkeys(ids, 0), dict.fromkeys(_upstream(ids))
    return _lineage(distances, {flow: None for flow in flows if set(flow) <= set(distances)}, {-1, 0, 1})


def _walk(
    start: set[ColumnId], steps: int, step: int, distances: dict[ColumnId, int], flows: dict[_Flow, None]
) -> None:
    seen, reached = set(start), start
    for away in range(1, steps + 1):
        edges = list(_upstream(reached) if step < 0 else _downstream(reached))
        flows.update(dict.fromkeys(edges))
        reached = {begin if step < 0 else end for begin, end in edges} - seen
        if not reached:
            return
        seen |= reached
        for node in reached:
            distances.setdefault(node, step * away)


def _pks(ids: Iterable[ColumnId], kind: str) -> list[int]:
    return [pk for other, pk in ids if other == kind]


def _historized(pks: Collection[int]) -> Iterable[int]:
    """Return the columns that a history has, too."""
    rows = TargetColumn.objects.filter(pk__among=pks, dataset__history__active=True)
    return rows.order_by("pk").values_list("pk", flat=True)


def _upstream(ids: Collection[ColumnId]) -> Iterator[_Flow]:
    """Yield the flows into these columns."""
    yield from (((TARGET, pk), (HISTORY, pk)) for pk in _pks(ids, HISTORY))
    pks = _pks(ids, TARGET)
    if not pks:
        return
    fed = set()
    for begin, end in _inputs(column__id__among=pks):
        fed.add(end[1])
        yield begin, end
    unfed = [pk for pk in pks if pk not in fed]
    if unfed:
        for side, kind in _SIDES:
            yield from _by_name(side, kind, id__among=unfed)


def _downstream(ids: Collection[ColumnId]) -> Iterator[_Flow]:
    """Yield the flows out of these columns."""
    sources, targets, histories = (_pks(ids, kind) for kind in (SOURCE, TARGET, HISTORY))
    if sources:
        yield from _inputs(source_column__id__among=sources)
    if targets:
        yield from _inputs(upstream_column__id__among=targets, dataset_input__upstream__history_of=None)
        yield from (((TARGET, pk), (HISTORY, pk)) for pk in _historized(targets))
    if histories:
        yield from _inputs(upstream_column__id__among=histories, dataset_input__upstream__history_of__isnull=False)
    for (side, kind), pks in zip(_SIDES, (sources, targets), strict=True):
        if pks:
            yield from _by_name(side, kind, **{f"dataset__inputs__{side}__columns__id__among": pks})


_SIDES = (("source", SOURCE), ("upstream", TARGET))


def _inputs(**conditions: Any) -> Iterator[_Flow]:
    rows = ColumnInput.objects.filter(**conditions).order_by(*_ORDER)
    for column, source, upstream, history in rows.values_list(*_ENDS):
        begin = (SOURCE, source) if source else (HISTORY if history else TARGET, upstream)
        yield begin, (TARGET, column)


def _by_name(side: str, kind: str, **conditions: Any) -> Iterator[_Flow]:
    """Yield the flows into columns without inputs and expression, which loads fill by name."""
    columns = f"dataset__inputs__{side}__columns"
    rows = TargetColumn.objects.filter(
        active=True,
        expression="",
        inputs=None,
        dataset__select="",
        **{"name": F(f"{columns}__name"), f"{columns}__active": True},
        **conditions,
    )
    for begin, end in rows.order_by("pk").values_list(f"{columns}__pk", "pk"):
        yield (kind, begin), (TARGET, end)


_TYPE = ("data_type", "length", "precision", "scale")
_FIELDS = ("pk", "key", "name", "active", *_TYPE)


def _lineage(distances: dict[ColumnId, int], flows: Iterable[_Flow], sides: Collection[int]) -> ColumnLineage:
    """Return a lineage; ``sides`` has -1 if it reaches upstream, and 1 if it reaches downstream."""
    by_row = dict(_columns(distances))
    edges = [(by_row[begin].id, by_row[end].id) for begin, end in flows if begin in by_row and end in by_row]
    ordered = sorted(by_row.values(), key=lambda node: (node.distance, node.dataset))
    exposures = tuple(_exposures(ordered)) if 1 in sides else ()
    for exposure in exposures:
        edges += [(node.id, exposure.id) for node in ordered if _is_exposed(node, exposure)]
    return ColumnLineage(tuple(ordered), tuple(edges), exposures, tuple(_row_inputs(by_row, sides)))


def _row_inputs(nodes: Mapping[ColumnId, ColumnNode], sides: Collection[int]) -> Iterator[RowInput]:
    """Yield the columns that decide rows of models upstream, and those here that decide rows of models downstream."""
    up = {node.dataset_key for node in nodes.values() if -1 in sides and node.distance <= 0 and node.kind == TARGET}
    down = {node.dataset_key for node in nodes.values() if 1 in sides and node.distance >= 0 and node.kind != SOURCE}
    models = TargetDataset.objects.exclude(select="").filter(active=True)
    readers = DatasetInput.objects.filter(upstream__key__among=list(down)).order_by()
    rows = models.filter(Q(key__among=list(up)) | Q(pk__in=readers.values("dataset"))).select_related("schema")
    decided = list(rows.order_by("schema__name", "name"))
    if not decided:
        return
    inputs = row_inputs(decided)
    known = dict(nodes)
    distances = dict.fromkeys((column for ids in inputs.values() for column in ids if column not in known), 0)
    known |= _columns(distances)
    for model in decided:
        key = str(model.key)
        for column in inputs[model.pk]:
            is_here = column in nodes and nodes[column].distance >= 0 and 1 in sides
            if key in up or is_here:
                yield RowInput(known[column].id, known[column].qualified_name, str(model), key)


def _is_exposed(node: ColumnNode, exposure: ExposureNode) -> bool:
    return node.kind == TARGET and node.distance >= 0 and node.dataset_key == exposure.dataset_key


def _columns(distances: dict[ColumnId, int]) -> Iterator[tuple[ColumnId, ColumnNode]]:
    sources = SourceColumn.objects.filter(pk__among=_pks(distances, SOURCE)).order_by("dataset_id", "ordinal", "pk")
    of_source = ("dataset__system__short_name", "dataset__name", "dataset__key")
    for *row, system, name, key in sources.values_list(*_FIELDS, *of_source):
        yield _node(SOURCE, row, "", f"{system}.{name}", key, SOURCE, distances)
    pks = {*_pks(distances, TARGET), *_pks(distances, HISTORY)}
    targets = TargetColumn.objects.filter(pk__among=pks).order_by("dataset_id", "ordinal", "pk")
    of_target = ("expression", "dataset__schema__name", "dataset__name", "dataset__key", "dataset__schema__layer")
    of_history = ("dataset__history__schema__name", "dataset__history__name", "dataset__history__key")
    for values in targets.values_list(*_FIELDS, *of_target, *of_history):
        row, (expression, schema, name, key, layer), history = values[:8], values[8:13], values[13:]
        if (TARGET, row[0]) in distances:
            yield _node(TARGET, row, expression, f"{schema}.{name}", key, layer, distances)
        if (HISTORY, row[0]) in distances:
            yield _node(HISTORY, row, "", f"{history[0]}.{history[1]}", history[2], HISTORY, distances)


def _node(
    kind: str, row: Any, expression: str, dataset: str, dataset_key: Any, layer: str, distances: dict[ColumnId, int]
) -> tuple[ColumnId, ColumnNode]:
    pk, key, name, active, *parts = row
    node = ColumnNode(
        id=f"{kind}:{key}",
        kind=kind,
        key=str(key),
        name=name,
        type=str(DataType(*parts)),
        expression=expression,
        dataset=dataset,
        dataset_key=str(dataset_key),
        layer=layer,
        active=active,
        distance=distances[kind, pk],
    )
    return (kind, pk), node


def _exposures(nodes: Collection[ColumnNode]) -> Iterator[ExposureNode]:
    distances: dict[str, int] = {}
    for node in nodes:
        if node.kind == TARGET and node.distance >= 0:
            distances[node.dataset_key] = max(node.distance + 1, distances.get(node.dataset_key, 0))
    rows = Exposure.objects.filter(dataset__key__among=list(distances)).select_related("dataset__schema")
    for row in rows.order_by("dataset_id", "name"):
        key = str(row.dataset.key)
        yield ExposureNode(
            f"exposure:{row.key}", str(row.key), row.name, row.kind, row.owner, str(row.dataset), key, distances[key]
        )
