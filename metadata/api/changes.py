"""The API of the change log: entries, newest first, and an export that proves itself."""

import json
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request

from elevata.api.resources import ReadOnly
from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import entries
from elevata.audit.services.exports import MEDIA_TYPE, selection
from metadata.filtersets import ChangeFilter


class ChangeLogEntrySerializer(serializers.ModelSerializer):
    """A change-log entry; ``changes`` maps fields to their values before and after."""

    user = serializers.CharField(source="user_id", allow_null=True, read_only=True, help_text="ID of the user.")
    changes = serializers.SerializerMethodField()

    class Meta:
        model = ChangeLogEntry
        fields = (
            "id",
            "at",
            "actor",
            "actor_kind",
            "user",
            "action",
            "subject_kind",
            "subject_key",
            "subject_name",
            "dataset_key",
            "changes",
            "reason",
            "request_id",
        )
        read_only_fields = fields

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "object"}})
    def get_changes(self, entry: ChangeLogEntry) -> dict[str, Any]:
        return json.loads(entry.changes)


class ChangeLogViewSet(ReadOnly):
    """The change log: actor, time, and values before and after."""

    queryset = ChangeLogEntry.objects.none()
    serializer_class = ChangeLogEntrySerializer
    filterset_class = ChangeFilter
    lookup_value_regex = r"[0-9]{1,18}"
    parameters = {"export": frozenset(ChangeFilter.base_filters)}

    def get_queryset(self) -> QuerySet[ChangeLogEntry]:
        return entries()

    @extend_schema(
        operation_id="changes_export",
        responses={(200, MEDIA_TYPE): OpenApiResponse(OpenApiTypes.STR, description="One JSON object a line.")},
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def export(self, request: Request) -> StreamingHttpResponse:
        """Return all entries that match the filters, oldest first, as JSON lines with their links in the hash chain.

        `manage.py verify_export` proves the file without a database.
        """
        return exported(selection(self.filter_queryset(entries()), request.query_params.dict()))


def exported(lines: Any) -> StreamingHttpResponse:
    """Lines of an export as a download."""
    answer = StreamingHttpResponse(lines, content_type=MEDIA_TYPE)
    answer.headers["Content-Disposition"] = 'attachment; filename="change-log.jsonl"'
    return answer
