"""Lineage of datasets and columns, and what a change would touch: read before it is made."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metadata import dependents
from metadata.api import views
from metadata.api.errors import refusals
from metadata.api.serializers import LineageNodeSerializer, LineageSerializer
from metadata.column_lineage import BOTH, DIRECTIONS, DOWNSTREAM, MOST_STEPS, UPSTREAM, column_lineage
from metadata.computed_fields import stable_keys
from metadata.selectors import Lineage, LineageNode, lineage

COLUMN_KINDS = (("source", "source"), ("target", "target"))
RENAME, RETIRE, DELETE = "rename", "retire", "delete"


class ReachRequest(serializers.Serializer):
    """Direction and depth of a lineage request."""

    direction = serializers.ChoiceField(choices=DIRECTIONS, default=BOTH)
    depth = serializers.IntegerField(
        min_value=1, max_value=MOST_STEPS, default=MOST_STEPS, help_text="At most so many steps away."
    )


class ImpactRequest(serializers.Serializer):
    """The change that is meant."""

    change = serializers.ChoiceField(choices=(RENAME, RETIRE, DELETE))
    name = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=200,
        help_text="Of a rename: the new name, so that what is rewritten can be shown.",
    )


class ColumnNodeSerializer(serializers.Serializer):
    """``distance`` is 0 for the column asked about, negative upstream, positive downstream."""

    key = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=COLUMN_KINDS)
    name = serializers.CharField()
    dataset = serializers.CharField()
    dataset_key = serializers.UUIDField()
    active = serializers.BooleanField()
    distance = serializers.IntegerField()


class ColumnEdgeSerializer(serializers.Serializer):
    """Values flow from ``start`` to ``end``."""

    start = serializers.UUIDField()
    end = serializers.UUIDField()


class ColumnLineageSerializer(serializers.Serializer):
    nodes = ColumnNodeSerializer(many=True)
    edges = ColumnEdgeSerializer(many=True)


class DependentSerializer(serializers.Serializer):
    """One thing that hangs on it, and what becomes of it.

    It follows, stays as it is, breaks (nothing is left for it to read), or refuses (it stands in the way).
    """

    effect = serializers.ChoiceField(
        choices=(dependents.FOLLOWS, dependents.STAYS, dependents.BREAKS, dependents.REFUSES)
    )
    dataset = serializers.UUIDField(source="dataset.key")
    dataset_name = serializers.CharField(source="dataset")
    what = serializers.CharField()
    says = serializers.CharField()
    before = serializers.CharField(allow_blank=True)
    after = serializers.CharField(allow_blank=True)


class ImpactSerializer(serializers.Serializer):
    """Dependents of a change, and every dataset downstream of them."""

    change = serializers.ChoiceField(choices=(RENAME, RETIRE, DELETE))
    name = serializers.CharField(allow_blank=True)
    refused = serializers.BooleanField(help_text="Whether something stands in the way.")
    dependents = DependentSerializer(many=True)
    downstream = LineageNodeSerializer(many=True)


def _read(serializer: type[serializers.Serializer], request: Request) -> dict[str, Any]:
    read = serializer(data=request.query_params.dict())
    read.is_valid(raise_exception=True)
    return read.validated_data


def _nodes(found: Lineage, chosen: list[LineageNode]) -> list[dict[str, Any]]:
    keys = stable_keys(found)
    return [
        {
            "key": keys[node.id],
            "kind": node.kind,
            "name": node.label,
            "layer": node.layer,
            "active": node.active,
            "distance": node.distance,
        }
        for node in chosen
    ]


def _within(found: Lineage, direction: str, depth: int) -> list[LineageNode]:
    """The nodes on one side, so many steps away."""
    sides = {UPSTREAM: lambda far: far <= 0, DOWNSTREAM: lambda far: far >= 0, BOTH: lambda far: True}
    return [node for node in found.nodes if sides[direction](node.distance) and abs(node.distance) <= depth]


def _impact(asked: dict[str, Any], touched: list[dependents.Dependent], dataset: Any) -> Response:
    found = lineage(dataset)
    flowing = dependents.downstream(dataset)
    told = {
        **asked,
        "refused": any(one.effect == dependents.REFUSES for one in touched),
        "dependents": touched,
        "downstream": _nodes(found, flowing),
    }
    return Response(ImpactSerializer(told).data)


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
        asked, found = _read(ReachRequest, request), lineage(self.get_object())
        chosen = _within(found, asked["direction"], asked["depth"])
        keys, ids = stable_keys(found), {node.id for node in chosen}
        edges = [
            {"start": keys[edge.start], "end": keys[edge.end], "kind": edge.kind, "label": edge.label}
            for edge in found.edges
            if {edge.start, edge.end} <= ids
        ]
        return Response(LineageSerializer({"nodes": _nodes(found, chosen), "edges": edges}).data)

    @extend_schema(responses=ImpactSerializer, filters=False, parameters=[ImpactRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def impact(self, request: Request, key: UUID) -> Response:
        """Return the effects of a rename, a retirement or a deletion; nothing is changed."""
        asked, row = _read(ImpactRequest, request), self.get_object()
        with refusals():
            touched = {
                RENAME: lambda: dependents.of_dataset_rename(row, asked["name"]),
                RETIRE: lambda: dependents.of_dataset_retirement(row),
                DELETE: lambda: dependents.of_dataset_deletion(row),
            }[asked["change"]]()
        return _impact(asked, touched, row)


class ColumnViewSet(views.ColumnViewSet):
    __doc__ = views.ColumnViewSet.__doc__

    parameters = views.ColumnViewSet.parameters | _PARAMETERS

    @extend_schema(responses=ColumnLineageSerializer, filters=False, parameters=[ReachRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def lineage(self, request: Request, key: UUID) -> Response:
        """The columns its values come from and go to."""
        asked = _read(ReachRequest, request)
        found = column_lineage(self.get_object(), asked["direction"], asked["depth"])
        edges = [{"start": start, "end": end} for start, end in found.edges]
        return Response(ColumnLineageSerializer({"nodes": found.nodes, "edges": edges}).data)

    @extend_schema(responses=ImpactSerializer, filters=False, parameters=[ImpactRequest])
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def impact(self, request: Request, key: UUID) -> Response:
        """Return the effects of a rename, a retirement or a deletion; nothing is changed."""
        asked, row = _read(ImpactRequest, request), self.get_object()
        with refusals():
            touched = {
                RENAME: lambda: dependents.of_column_rename(row, asked["name"]),
                RETIRE: lambda: dependents.of_column_retirement(row),
                DELETE: lambda: dependents.of_column_deletion(row),
            }[asked["change"]]()
        return _impact(asked, touched, row.dataset)
