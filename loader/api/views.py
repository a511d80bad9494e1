"""Read-only API of load runs, and of the records of governed ones."""

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from loader.api.serializers import (
    GovernedRecordListSerializer,
    GovernedRecordSerializer,
    LoadRunListSerializer,
    LoadRunSerializer,
    RunEventSerializer,
)
from loader.converters import RunIdConverter
from loader.filtersets import GovernedRecordFilter, LoadRunFilter
from loader.models import GovernedRunRecord, LoadRun
from loader.selectors import load_run_detail, load_runs, run_events
from metadata.api.views import ReadOnly


class LoadRunViewSet(ReadOnly):
    """Load runs, found by their run id."""

    queryset = LoadRun.objects.none()
    serializer_class = LoadRunSerializer
    list_serializer_class = LoadRunListSerializer
    filterset_class = LoadRunFilter
    lookup_field = "run_id"
    lookup_value_regex = RunIdConverter.regex

    def get_queryset(self) -> QuerySet[LoadRun]:
        return load_run_detail() if self.action == "retrieve" else load_runs()

    @extend_schema(
        responses=RunEventSerializer(many=True),
        filters=False,
        parameters=[OpenApiParameter("after", int, description="Only lines after the one with this id.")],
    )
    @action(detail=True, filter_backends=())
    def events(self, request: Request, run_id: str) -> Response:
        """The run's log, oldest line first."""
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 19):
            raise ValidationError({"after": ["Must be the id of a line."]})
        page = self.paginate_queryset(run_events(run=self.get_object(), after=int(after)))
        return self.get_paginated_response(RunEventSerializer(page, many=True).data)


class GovernedRecordViewSet(ReadOnly):
    """Sealed records of history batches, reverts and prunes, the newest first, found by their id."""

    queryset = GovernedRunRecord.objects.none()
    serializer_class = GovernedRecordSerializer
    list_serializer_class = GovernedRecordListSerializer
    filterset_class = GovernedRecordFilter
    lookup_field = "record_id"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[GovernedRunRecord]:
        return GovernedRunRecord.objects.select_related("run").order_by("-pk")
