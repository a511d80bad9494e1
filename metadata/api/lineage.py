"""API of lineage and dependents."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metadata.api import views
from metadata.api.serializers import LineageNodeSerializer, LineageSerializer
from metadata.domain import impact
from metadata.domain.column_lineage import BOTH, DIRECTIONS, DOWNSTREAM, KINDS, UPSTREAM
from metadata.domain.exposures import KINDS as EXPOSURE_KINDS
from metadata.selectors import dependents
from metadata.selectors.column_lineage import MOST_STEPS, column_lineage
from metadata.selectors.columns import stable_keys
from metadata.selectors.dataset_lineage import Lineage, LineageNode, lineage
from metadata.selectors.impact import impact_of

COLUMN_KINDS = tuple(KINDS.items())
RENAME, RETIRE, DELETE, RETYPE = "rename", "retire", "delete", "retype"


class ReachRequest(serializers.Serializer):
    """Direction and depth of a lineage request."""

    direction = serializers.ChoiceField(choices=DIRECTIONS, default=BOTH)
    depth = serializers.IntegerField(
        min_value=1, max_value=MOST_STEPS, default=MOST_STEPS, help_text="Maximum distance in steps."
    )


class ImpactRequest(serializers.Serializer):
    """Change of an object whose effects are requested."""

    change = serializers.ChoiceField(choices=(RENAME, RETIRE, DELETE))
    name = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=200,
        help_text="New name of a rename; shows the rewritten texts.",
    )


class ColumnImpactRequest(ImpactRequest):
    """Change of a column whose effects are requested."""

    change = serializers.ChoiceField(choices=(RENAME, RETIRE, DELETE, RETYPE))


class ColumnNodeSerializer(serializers.Serializer):
    """Column. ``distance`` is 0 for the requested column, negative upstream, positive downstream.

    A column of a history has the key of its base's column, and an id of its own.
    """

    id = serializers.CharField()
    key = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=COLUMN_KINDS)
    name = serializers.CharField()
    type = serializers.CharField()
    expression = serializers.CharField(allow_blank=True, help_text="Empty if the value is passed on unchanged.")
    dataset = serializers.CharField()
    dataset_key = serializers.UUIDField()
    layer = serializers.CharField()
    active = serializers.BooleanField()
    distance = serializers.IntegerField()


class ColumnEdgeSerializer(serializers.Serializer):
    """Edge of the lineage: values flow from the id ``start`` of a column to ``end``, a column or exposure."""

    start = serializers.CharField()
    end = serializers.CharField()


class ExposureNodeSerializer(serializers.Serializer):
    """Consumer of a dataset's columns."""

    id = serializers.CharField()
    key = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=tuple(EXPOSURE_KINDS.items()))
    owner = serializers.CharField()
    dataset = serializers.CharField()
    dataset_key = serializers.UUIDField()
    distance = serializers.IntegerField()


class RowInputSerializer(serializers.Serializer):
    """Column that decides which rows a model has, by a condition, join, grouping, limit or subquery."""

    column = serializers.CharField(help_text="Id of the column.")
    name = serializers.CharField()
    dataset = serializers.CharField(help_text="The model.")
    dataset_key = serializers.UUIDField()


class ColumnLineageSerializer(serializers.Serializer):
    nodes = ColumnNodeSerializer(many=True)
    exposures = ExposureNodeSerializer(many=True)
    edges = ColumnEdgeSerializer(many=True)
    row_inputs = RowInputSerializer(many=True)
    cycles = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField()), help_text="Ids of columns that read each other."
    )


class DependentSerializer(serializers.Serializer):
    """Dependent object, and the effect of the change on it.

    It is updated (follows), is unchanged (stays), has nothing left to read (breaks) or prevents the change (refuses).
    """

    effect = serializers.ChoiceField(choices=(impact.FOLLOWS, impact.STAYS, impact.BREAKS, impact.REFUSES))
    dataset = serializers.UUIDField(source="dataset.key")
    dataset_name = serializers.CharField(source="dataset")
    what = serializers.CharField()
    says = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)


class ImpactSerializer(serializers.Serializer):
    """Dependents that a change affects, and every dataset downstream of the changed one."""

    change = serializers.ChoiceField(choices=(RENAME, RETIRE, DELETE, RETYPE))
    name = serializers.CharField(allow_blank=True)
    refused = serializers.BooleanField(help_text="True if something prevents the change.")
    dependents = DependentSerializer(many=True)
    downstream = LineageNodeSerializer(many=True)


def _query(serializer: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    query = serializer(data=request.query_params.dict())
    query.is_valid(raise_exception=True)
    return query.validated_data


def _nodes(graph: Lineage, nodes: list[LineageNode]) -> list[dict[str, Any]]:
    keys = stable_keys(graph)
    return [
        {
            "key": keys[node.id],
            "kind": node.kind,
            "name": node.label,
            "layer": node.layer,
            "active": node.active,
            "distance": node.distance,
        }
        for node in nodes
    ]


def _within(graph: Lineage, direction: str, depth: int) -> list[LineageNode]:
    """Return the nodes in a direction, up to ``depth`` steps away."""
    sides = {UPSTREAM: lambda steps: steps <= 0, DOWNSTREAM: lambda steps: steps >= 0, BOTH: lambda steps: True}
    return [node for node in graph.nodes if sides[direction](node.distance) and abs(node.distance) <= depth]


def _impact(query: dict[str, Any], affected: list[dependents.Dependent], dataset: Any) -> Response:
    impact = {
        **query,
        "refused": any(dependent.effect == dependents.REFUSES for dependent in affected),
        "dependents": affected,
        "downstream": _nodes(lineage(dataset), dependents.downstream(dataset)),
    }
    return Response(ImpactSerializer(impact).data)


_PARAMETERS = {
    "lineage": frozenset(ReachRequest._declared_fields),
    "impact": frozenset(ImpactRequest._declared_fields),
}


class DatasetViewSet(views.DatasetViewSet):
    __doc__ = views.DatasetViewSet.__doc__

    parameters = views.DatasetViewSet.parameters | _PARAMETERS

    @extend_schema(responses=LineageSerializer, filters=False, parameters=[ReachRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def lineage(self, request: Request, key: UUID) -> Response:
        """Return the datasets upstream and downstream of a dataset, and their references."""
        query, graph = _query(ReachRequest, request), lineage(self.get_object())
        nodes = _within(graph, query["direction"], query["depth"])
        keys, ids = stable_keys(graph), {node.id for node in nodes}
        edges = [
            {"start": keys[edge.start], "end": keys[edge.end], "kind": edge.kind, "label": edge.label}
            for edge in graph.edges
            if {edge.start, edge.end} <= ids
        ]
        return Response(LineageSerializer({"nodes": _nodes(graph, nodes), "edges": edges}).data)

    @extend_schema(responses=ImpactSerializer, filters=False, parameters=[ImpactRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def impact(self, request: Request, key: UUID) -> Response:
        """Return the effects of a rename, a retirement or a deletion; nothing is changed."""
        query, row = _query(ImpactRequest, request), self.get_object()
        affected = {
            RENAME: lambda: dependents.of_dataset_rename(row, query["name"]),
            RETIRE: lambda: dependents.of_dataset_retirement(row),
            DELETE: lambda: dependents.of_dataset_deletion(row),
        }[query["change"]]()
        return _impact(query, affected, row)


class ColumnViewSet(views.ColumnViewSet):
    __doc__ = views.ColumnViewSet.__doc__

    parameters = views.ColumnViewSet.parameters | _PARAMETERS

    @extend_schema(responses=ColumnLineageSerializer, filters=False, parameters=[ReachRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def lineage(self, request: Request, key: UUID) -> Response:
        """Return the columns upstream and downstream of a column, with their expressions, and the exposures."""
        query = _query(ReachRequest, request)
        lineage = column_lineage(self.get_object(), query["direction"], query["depth"])
        return Response(ColumnLineageSerializer(lineage.as_json()).data)

    @extend_schema(responses=ImpactSerializer, filters=False, parameters=[ColumnImpactRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def impact(self, request: Request, key: UUID) -> Response:
        """Return the effects of a rename, retirement, deletion or new type on everything downstream."""
        query, row = _query(ColumnImpactRequest, request), self.get_object()
        affected = {
            RENAME: lambda: impact_of(row, impact.RENAME, query["name"]),
            RETIRE: lambda: impact_of(row, impact.DROP),
            RETYPE: lambda: impact_of(row, impact.RETYPE),
            DELETE: lambda: dependents.of_column_deletion(row),
        }[query["change"]]()
        return _impact(query, affected, row.dataset)
