"""Serializers of reports, approvals, previews, executions and records."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from architecture.domain.dialect_statements import RENDERER
from architecture.models import (
    Approval,
    ChangeReport,
    Execution,
    ExecutionEvent,
    ExecutionOperation,
    ExecutionRecord,
    Preview,
)
from architecture.selectors.undo_forecasts import forecasts
from architecture.services.approvals import approvals_missing
from architecture.services.change_policy import policy_of
from architecture.services.execution_records import record_artifact
from architecture.services.reports import authors_of_report, report_document
from elevata.api.requests import ChangeSerializer
from metadata.api.scope import ScopeFieldsSerializer
from metadata.domain.scope import Scope


class ReportScopeSerializer(ScopeFieldsSerializer):
    """Scope of a report, which also keeps the datasets that a selected one reads."""

    without_blocked = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Leave out datasets with a change that the policy blocks, and changed datasets that read them. "
        "Warnings `LEFT_OUT` of the report name them. Not for the scope `dataset`.",
    )


class ReportRequestSerializer(ChangeSerializer, ReportScopeSerializer):
    """Scope of a new report, and the reason for it."""


def scope_of(given: Mapping[str, Any]) -> Scope:
    """Return the requested scope. Raise ScopeProblem if its parts contradict each other."""
    return Scope(**{name: given[name] for name in ("kind", "name", "target_only", "exclude", "without_blocked")})


class ApprovalSerializer(serializers.ModelSerializer):
    person = serializers.CharField(source="person_name", read_only=True)
    roles = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Approval
        fields = ("person", "decision", "note", "readers_lost", "contracts_broken", "fingerprint", "roles", "at")


class ReportListSerializer(serializers.ModelSerializer):
    environment = serializers.CharField(source="environment.name", read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True, default=None, allow_null=True)
    authors = serializers.ListField(child=serializers.CharField(), read_only=True)
    scope = serializers.SerializerMethodField()

    class Meta:
        model = ChangeReport
        fields: tuple[str, ...] = (
            "report_id",
            "title",
            "fingerprint",
            "status",
            "risk",
            "destructive",
            "environment",
            "scope",
            "authors",
            "observed_at",
            "created_by",
            "created_at",
        )

    @extend_schema_field(ReportScopeSerializer)
    def get_scope(self, report: ChangeReport) -> dict[str, Any]:
        return report.scope


class ReportSerializer(ReportListSerializer):
    """Report with its document, ``change-report/v1``, and its approvals."""

    report = serializers.SerializerMethodField()
    approvals = ApprovalSerializer(many=True, read_only=True)
    approvals_needed = serializers.SerializerMethodField()
    approvals_missing = serializers.SerializerMethodField()
    authors = serializers.SerializerMethodField()  # type: ignore[assignment]  # it replaces the field of the base
    superseded_by = serializers.UUIDField(
        source="superseded_by.report_id", read_only=True, default=None, allow_null=True
    )
    undo_of = serializers.UUIDField(source="undo_of.record_id", read_only=True, default=None, allow_null=True)

    class Meta(ReportListSerializer.Meta):
        fields = (
            *ReportListSerializer.Meta.fields,
            "report",
            "approvals",
            "approvals_needed",
            "approvals_missing",
            "superseded_by",
            "undo_of",
        )

    def get_report(self, report: ChangeReport) -> dict[str, Any]:
        return report_document(report)

    def get_approvals_needed(self, report: ChangeReport) -> int:
        return policy_of(report.environment).approvals[report.risk].count

    def get_approvals_missing(self, report: ChangeReport) -> int:
        return approvals_missing(report)

    def get_authors(self, report: ChangeReport) -> list[str]:
        return sorted(authors_of_report(report))


class NoteSerializer(ChangeSerializer):
    note = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=2000,
        help_text="Stays with the approval; without it `changelog_message` does.",
    )


class ApproveSerializer(NoteSerializer):
    readers_lost = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Accept that tables lose the readers that the operations name, instead of being written anew.",
    )
    contracts_broken = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Accept that contracts are broken; their consumers are named by the operations.",
    )


class ReasonSerializer(ChangeSerializer):
    reason = serializers.CharField(max_length=200)


class PreviewSerializer(serializers.ModelSerializer):
    document = serializers.DictField(
        read_only=True, help_text="The steps with their statements, in order, and the views that are created or change."
    )
    sizes = serializers.DictField(read_only=True)
    estimate = serializers.DictField(read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True, default=None, allow_null=True)

    class Meta:
        model = Preview
        fields = ("fingerprint", "document", "sizes", "estimate", "observed_at", "created_by", "created_at")


class ExecuteSerializer(ChangeSerializer):
    preview = serializers.RegexField(
        r"\A[0-9a-f]{64}\Z",
        required=False,
        help_text="Fingerprint of the reviewed preview, in addition to If-Match.",
    )


class ExecutionListSerializer(serializers.ModelSerializer):
    status = serializers.ChoiceField(choices=Execution.STATUSES, read_only=True)
    environment = serializers.CharField(source="environment.name", read_only=True)
    report = serializers.UUIDField(source="report.report_id", read_only=True, default=None, allow_null=True)
    record = serializers.SerializerMethodField()
    who = serializers.CharField(read_only=True, help_text="Requesting user; system if none.")
    seconds = serializers.FloatField(read_only=True, allow_null=True)
    error = serializers.DictField(read_only=True, allow_null=True)
    operation_count = serializers.IntegerField(read_only=True)
    done_count = serializers.IntegerField(read_only=True)
    failed_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = Execution
        fields: tuple[str, ...] = (
            "id",
            "status",
            "environment",
            "report",
            "record",
            "who",
            "command",
            "reason",
            "attempt",
            "phase",
            "error",
            "requested_at",
            "started_at",
            "finished_at",
            "seconds",
            "operation_count",
            "done_count",
            "failed_count",
        )

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_record(self, execution: Execution) -> str | None:
        record = getattr(execution, "record", None)
        return None if record is None else str(record.record_id)


class StepSerializer(serializers.ModelSerializer):
    class Meta:
        model = ExecutionOperation
        fields = (
            "ordinal",
            "operation",
            "op",
            "qualified_name",
            "column_name",
            "statement",
            "status",
            "attempt",
            "version_before",
            "version_after",
            "error",
            "seconds",
        )


class ExecutionSerializer(ExecutionListSerializer):
    steps = StepSerializer(source="operations", many=True, read_only=True)
    versions = serializers.DictField(read_only=True)

    class Meta(ExecutionListSerializer.Meta):
        fields = (*ExecutionListSerializer.Meta.fields, "versions", "steps")


class ExecutionEventSerializer(serializers.ModelSerializer):
    class Meta:
        model = ExecutionEvent
        fields = ("id", "at", "attempt", "level", "step", "message")


class RecordListSerializer(serializers.ModelSerializer):
    environment = serializers.CharField(source="environment.name", read_only=True)
    execution = serializers.IntegerField(source="execution_id", read_only=True)

    class Meta:
        model = ExecutionRecord
        fields: tuple[str, ...] = ("record_id", "execution", "environment", "outcome", "digest", "created_at")


class RefusedSerializer(serializers.Serializer):
    """Reason why something cannot be done."""

    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField()


class DialectRequest(serializers.Serializer):
    def get_fields(self) -> dict[str, serializers.Field]:
        titles = RENDERER.get().titles
        return {"dialect": serializers.ChoiceField(choices=list(titles.items()), help_text="An SQL dialect.")}


def dialect_of(request: Request) -> str:
    """Return the requested dialect. Raise ValidationError for none or an unknown one."""
    query = DialectRequest(data=request.query_params)
    query.is_valid(raise_exception=True)
    return query.validated_data["dialect"]


class StatementsField(serializers.ListField):
    child = serializers.CharField()


class OperationStatementsSerializer(serializers.Serializer):
    op = serializers.CharField()
    dataset = serializers.CharField()
    text = serializers.CharField(source="describe", help_text="The operation in words.")
    statements = StatementsField(
        help_text="In order, with semicolons; a comment with NOT_RENDERED and the reason for a step without any."
    )


class ReportSqlSerializer(serializers.Serializer):
    """Statements of each operation of a report in an SQL dialect, in order."""

    dialect = serializers.CharField()
    operations = OperationStatementsSerializer(many=True)


class UndoOptionSerializer(serializers.Serializer):
    """Operations that can only be undone together, by their ordinals in the record, and the steps that undo them."""

    operations = serializers.ListField(child=serializers.IntegerField())
    done = serializers.ListField(child=serializers.CharField())
    undo = serializers.ListField(
        child=serializers.CharField(), help_text="Empty where no table changes, only what is known of the dataset."
    )
    possible = serializers.BooleanField()
    refused = RefusedSerializer(allow_null=True)
    decision = serializers.CharField(
        help_text="Decision of the change policy: allowed, needs_approval, blocked or metadata_only; empty if unknown."
    )
    losses = serializers.ListField(child=serializers.CharField(), help_text="What the undo removes from the tables.")
    metadata = serializers.CharField(help_text="Change of the metadata, made if `metadata` is true; empty for none.")


class RecordSerializer(RecordListSerializer):
    """Record with its artifact for ``manage.py verify_artifact``, and the undo options of its operations."""

    artifact = serializers.SerializerMethodField()
    undo_options = serializers.SerializerMethodField()
    undo_reports = serializers.SerializerMethodField()

    class Meta(RecordListSerializer.Meta):
        fields = (*RecordListSerializer.Meta.fields, "artifact", "undo_options", "undo_reports")

    def get_artifact(self, record: ExecutionRecord) -> dict[str, Any]:
        return record_artifact(record)

    @extend_schema_field(UndoOptionSerializer(many=True))
    def get_undo_options(self, record: ExecutionRecord) -> list[dict[str, Any]]:
        return [forecast.as_json() for forecast in forecasts(record)]

    @extend_schema_field(serializers.ListField(child=serializers.UUIDField()))
    def get_undo_reports(self, record: ExecutionRecord) -> list[str]:
        return [str(pk) for pk in record.undo_reports.order_by("-pk").values_list("report_id", flat=True)]


class UndoSerializer(ChangeSerializer):
    operations = serializers.ListField(
        child=serializers.IntegerField(min_value=0),
        required=False,
        allow_null=True,
        default=None,
        allow_empty=False,
        max_length=10_000,
        help_text="Ordinals of the record; of those that belong together any one means all. Without it, all of them.",
    )
    metadata = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Change the metadata back at once, too; refused if the change policy blocks the report.",
    )
