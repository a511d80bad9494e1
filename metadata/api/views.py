"""Read-only API of metadata. Rows are found by their stable key (systems and schemas by their name)."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ReadOnlyModelViewSet

from metadata.api.serializers import (
    DatasetListSerializer,
    DatasetSerializer,
    LineageSerializer,
    SchemaSerializer,
    SourceDatasetListSerializer,
    SourceDatasetSerializer,
    SystemSerializer,
)
from metadata.filtersets import DatasetFilter, SchemaFilter, SourceDatasetFilter, SystemFilter
from metadata.models import SourceDataset, System, TargetDataset, TargetSchema
from metadata.selectors import (
    lineage,
    schemas,
    source_dataset_detail,
    source_datasets,
    systems,
    target_datasets,
)
from metadata.shown import details, stable_keys

# In addresses: anything a name may be, without what a database could choke on.
NAME = r"[^/\x00]+"


class JsonOnly(BaseContentNegotiation):
    """Answers are JSON, whatever is asked for; ``?format=`` is left to the filters."""

    def select_parser(self, request: Request, parsers: list) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: list, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class ReadOnly(ReadOnlyModelViewSet):
    """Signed-in people read; a list has its own, shorter serializer."""

    permission_classes = (IsAuthenticated,)
    content_negotiation_class = JsonOnly
    list_serializer_class: Any = None

    def get_serializer_class(self) -> Any:
        if self.action == "list" and self.list_serializer_class is not None:
            return self.list_serializer_class
        return super().get_serializer_class()


class SystemViewSet(ReadOnly):
    """Systems that deliver data."""

    queryset = System.objects.none()
    serializer_class = SystemSerializer
    filterset_class = SystemFilter
    lookup_field = "short_name"
    lookup_value_regex = NAME

    def get_queryset(self) -> QuerySet[System]:
        return systems()


class SourceDatasetViewSet(ReadOnly):
    """Source datasets: contracts of what is delivered."""

    queryset = SourceDataset.objects.none()
    serializer_class = SourceDatasetSerializer
    list_serializer_class = SourceDatasetListSerializer
    filterset_class = SourceDatasetFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[SourceDataset]:
        return source_datasets() if self.action == "list" else source_dataset_detail()


class SchemaViewSet(ReadOnly):
    """Schemas of the warehouse, each in one layer."""

    queryset = TargetSchema.objects.none()
    serializer_class = SchemaSerializer
    filterset_class = SchemaFilter
    lookup_field = "name"
    lookup_value_regex = NAME

    def get_queryset(self) -> QuerySet[TargetSchema]:
        return schemas()


class DatasetViewSet(ReadOnly):
    """Target datasets, history included."""

    queryset = TargetDataset.objects.none()
    serializer_class = DatasetSerializer
    list_serializer_class = DatasetListSerializer
    filterset_class = DatasetFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[TargetDataset]:
        return details() if self.action == "retrieve" else target_datasets()

    @extend_schema(responses=LineageSerializer, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def lineage(self, request: Request, key: str) -> Response:
        """Everything upstream and downstream of a dataset, and what these refer to."""
        found = lineage(self.get_object())
        keys = stable_keys(found)
        nodes = [
            {
                "key": keys[node.id],
                "kind": node.kind,
                "name": node.label,
                "layer": node.layer,
                "active": node.active,
                "distance": node.distance,
            }
            for node in found.nodes
        ]
        edges = [
            {"start": keys[edge.start], "end": keys[edge.end], "kind": edge.kind, "label": edge.label}
            for edge in found.edges
        ]
        return Response(LineageSerializer({"nodes": nodes, "edges": edges}).data)
