"""The API of the change log: entries, newest first, and an export that proves itself."""

import json
from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.accounts.roles import Permission
from elevata.api.requests import NoParametersSerializer
from elevata.api.resources import ReadOnly, permitted_to
from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import entries
from elevata.audit.services.exports import MEDIA_TYPE, selection
from metadata.api.bulk import BadRows, ChangedRowSerializer, RowProblem
from metadata.filtersets import ChangeFilter
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.services.bulk_edits import EditsRefused, RowEdit, apply_edits
from metadata.services.bulk_undo import undo_edits


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


class UndoneSerializer(serializers.Serializer):
    """Datasets, columns and sources whose values were set back, newest change first."""

    undone = ChangedRowSerializer(many=True)


class ChangeLogViewSet(ReadOnly):
    """The change log: actor, time, and values before and after."""

    queryset = ChangeLogEntry.objects.none()
    serializer_class = ChangeLogEntrySerializer
    filterset_class = ChangeFilter
    lookup_value_regex = r"[0-9]{1,18}"
    parameters = {"export": frozenset(ChangeFilter.base_filters)}
    needs = {"undo": permitted_to(Permission.CHANGE_METADATA)}

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

    @extend_schema(request=NoParametersSerializer, responses=UndoneSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def undo(self, request: Request, pk: str) -> Response:
        """Undo all changes that were made together with this one, all or nothing.

        Names, tags, owner, description, classification, filter and retirement of datasets and columns, all fields of
        a column but its place, and tags, owner and description of sources can be undone, while they are as the change
        left them.
        """
        entry = self.get_object()
        _, reason = self.given(NoParametersSerializer)
        edits = undo_edits(entry)
        try:
            apply_edits(edits, reason or f"Undo of change {entry.pk}")
        except EditsRefused as refused:
            raise BadRows(_problems(refused.edits)) from None
        keys = [edit.row.key for edit in edits if edit.row is not None]
        stored = {
            row["key"]: row
            for model in (TargetDataset, TargetColumn, SourceDataset)
            for row in model.objects.filter(key__in=keys).values("key", "version")
        }
        return Response(UndoneSerializer({"undone": [stored[key] for key in keys]}).data)


def _problems(edits: Iterable[RowEdit]) -> list[RowProblem]:
    """Return the problems of refused edits, with the names and keys of their rows."""
    return [
        RowProblem.of(edit.name, edit.problem, key="" if edit.row is None else str(edit.row.key))
        for edit in edits
        if edit.problem is not None
    ]


def exported(lines: Any) -> StreamingHttpResponse:
    """Lines of an export as a download."""
    answer = StreamingHttpResponse(lines, content_type=MEDIA_TYPE)
    answer.headers["Content-Disposition"] = 'attachment; filename="change-log.jsonl"'
    return answer
