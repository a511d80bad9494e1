"""Endpoints of dry runs and their results. A dry run is requested at its report (``loader.api``)."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.api.serializers import RefusedSerializer
from architecture.dry_run_results import readable_result
from architecture.filtersets import RehearsalFilter
from architecture.models import Rehearsal
from elevata.jobs.states import QUEUED, RUNNING
from metadata.api.resources import ReadOnly
from metadata.services.actor import current_actor


class RehearsalListSerializer(serializers.ModelSerializer):
    status = serializers.CharField(read_only=True, help_text="queued, running, succeeded or failed.")
    environment = serializers.CharField(source="preview.report.environment.name", read_only=True)
    report = serializers.UUIDField(source="preview.report.report_id", read_only=True)
    preview = serializers.CharField(source="preview.fingerprint", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    error = serializers.SerializerMethodField(help_text="Why there is no result.")

    class Meta:
        model = Rehearsal
        fields = (
            "id",
            "status",
            "environment",
            "report",
            "preview",
            "requested_by",
            "requested_at",
            "finished_at",
            "error",
        )

    @extend_schema_field(RefusedSerializer(allow_null=True))
    def get_error(self, rehearsal: Rehearsal) -> dict[str, Any] | None:
        return rehearsal.error


class RehearsalSerializer(RehearsalListSerializer):
    """With what was seen: each step, each table before and after with samples, each query that breaks."""

    result = serializers.SerializerMethodField()

    class Meta(RehearsalListSerializer.Meta):
        fields = (*RehearsalListSerializer.Meta.fields, "result")

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_result(self, rehearsal: Rehearsal) -> dict[str, Any] | None:
        return readable_result(rehearsal, current_actor().user)


class RehearsalViewSet(ReadOnly):
    """Dry runs of previews on clones, the newest first."""

    queryset = Rehearsal.objects.none()
    serializer_class = RehearsalSerializer
    list_serializer_class = RehearsalListSerializer
    filterset_class = RehearsalFilter
    # The job's own number: beyond its range it is found nowhere, where the key to the job would overflow.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[Rehearsal]:
        found = Rehearsal.objects.select_related("preview__report__environment", "requested_by").order_by("-pk")
        return found.defer("result") if self.action == "list" else found

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return a dry run; ``Retry-After`` says when to ask again while it is not finished."""
        answer = super().retrieve(request, *args, **kwargs)
        if answer.data["status"] in (QUEUED, RUNNING):
            answer.headers["Retry-After"] = "1"
        return answer
