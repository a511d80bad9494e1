"""API of reports, dry runs, executions and records."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from architecture.api.serializers import (
    ApprovalSerializer,
    ApproveSerializer,
    DialectRequest,
    ExecuteSerializer,
    ExecutionEventSerializer,
    ExecutionListSerializer,
    ExecutionSerializer,
    NoteSerializer,
    PreviewSerializer,
    ReasonSerializer,
    RecordListSerializer,
    RecordSerializer,
    RefusedSerializer,
    ReportListSerializer,
    ReportRequestSerializer,
    ReportSerializer,
    ReportSqlSerializer,
    UndoSerializer,
    dialect_of,
    scope_of,
)
from architecture.domain.decisions import ACCEPTABLE
from architecture.domain.refusals import Refused
from architecture.filtersets import DryRunFilter, ExecutionFilter, RecordFilter, ReportFilter
from architecture.models import ChangeReport, DryRun, Execution, ExecutionRecord
from architecture.selectors.dry_run_results import readable_result
from architecture.selectors.executions import execution_events, executions, records
from architecture.selectors.reports import reports
from architecture.services.approvals import approve, reject, withdraw_report
from architecture.services.dialects import statements_of_report
from architecture.services.dry_runs import request_dry_run
from architecture.services.environments import current_environment
from architecture.services.execution_records import approval_artifact
from architecture.services.executions import (
    Requested,
    abandon_execution,
    cancel_execution,
    request_execution,
    resume_execution,
)
from architecture.services.previews import build_previewed_report, make_preview, newest_preview
from architecture.services.report_basis import named_scope
from architecture.services.reports import operations_of
from architecture.services.undo import undo_report
from architecture.views.refusals import MayBuild
from elevata.accounts.actors import current_actor
from elevata.accounts.roles import Permission
from elevata.api.preconditions import must_name
from elevata.api.progress import LINES_AT_ONCE, Work, as_followed, is_wanted, line_after, stream
from elevata.api.requests import NoParametersSerializer, joined_reason
from elevata.api.resources import PAGES, ReadOnly, permitted_to
from elevata.audit.services.transactions import writing
from elevata.jobs.states import ACTIVE

APPROVES, EXECUTES = permitted_to(Permission.APPROVE_REPORTS), permitted_to(Permission.EXECUTE_REPORTS)

# ETag of a preview, which an execution must name.
PREVIEW_TAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=True, description="The preview that this is; execute asks for it."
)


class DryRunListSerializer(serializers.ModelSerializer):
    status = serializers.CharField(
        read_only=True, help_text="queued, running, succeeded, failed, canceling or canceled."
    )
    environment = serializers.CharField(source="preview.report.environment.name", read_only=True)
    report = serializers.UUIDField(source="preview.report.report_id", read_only=True)
    preview = serializers.CharField(source="preview.fingerprint", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    error = serializers.SerializerMethodField(help_text="Why there is no result.")

    class Meta:
        model = DryRun
        fields: tuple[str, ...] = (
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
    def get_error(self, dry_run: DryRun) -> dict[str, Any] | None:
        return dry_run.error


class DryRunSerializer(DryRunListSerializer):
    """Dry run with its steps, tables before and after with samples, and broken queries."""

    result = serializers.SerializerMethodField()

    class Meta(DryRunListSerializer.Meta):
        fields = (*DryRunListSerializer.Meta.fields, "result")

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_result(self, dry_run: DryRun) -> dict[str, Any] | None:
        return readable_result(dry_run, current_actor().user)


class ReportViewSet(ReadOnly):
    """Change reports by id. A report is created from the last observations.

    A decision is about one fingerprint. A report's ETag begins with it, and a decision must name the ETag.
    """

    queryset = ChangeReport.objects.none()
    serializer_class = ReportSerializer
    list_serializer_class = ReportListSerializer
    filterset_class = ReportFilter
    lookup_field = "report_id"
    lookup_value_converter = "uuid"
    needs = {
        "create": MayBuild,
        "approve": APPROVES,
        "reject": APPROVES,
        "withdraw": MayBuild,
        "make_preview": EXECUTES,
        "dry_run": EXECUTES,
        "execute": EXECUTES,
    }
    tagged = True
    must_see = frozenset({"approve", "reject", "execute"})
    parameters: ClassVar = {"sql": frozenset({"dialect"})}

    def version_of(self, row: ChangeReport) -> str:
        return row.fingerprint

    def get_queryset(self) -> QuerySet[ChangeReport]:
        if self.action == "list":
            return reports()
        related = ("environment", "created_by", "undo_of", "superseded_by")
        return ChangeReport.objects.select_related(*related).prefetch_related("approvals")

    @extend_schema(request=ReportRequestSerializer, responses={201: ReportSerializer})
    def create(self, request: Request) -> Response:
        """Create the report of a scope from the last observations, with its preview; an equal one is returned again."""
        given, reason = self.given(ReportRequestSerializer)
        with writing(reason):
            environment = current_environment()
            scope = named_scope(environment=environment, scope=scope_of(given))
            report = build_previewed_report(environment=environment, scope=scope, user=request.user)
        answer = self.answer(report, status.HTTP_201_CREATED)
        answer.headers["Location"] = self.reverse_action("detail", kwargs={self.lookup_field: report.report_id})
        return answer

    @extend_schema(request=ApproveSerializer, responses={201: ApprovalSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def approve(self, request: Request, report_id: UUID) -> Response:
        """Approve the report version of the ETag in `If-Match`."""
        return self._decide(approve, request, ApproveSerializer)

    @extend_schema(request=NoteSerializer, responses={201: ApprovalSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def reject(self, request: Request, report_id: UUID) -> Response:
        """Reject the report version of the ETag in `If-Match`, which ends the report."""
        return self._decide(reject, request)

    @extend_schema(request=ReasonSerializer, responses=ReportSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def withdraw(self, request: Request, report_id: UUID) -> Response:
        """Withdraw a blocked report, as an author of its changes or an approver."""
        given, message = self.given(ReasonSerializer)
        report = self.get_object()
        with writing(joined_reason(given["reason"], message)):
            withdraw_report(report=report, user=request.user, reason=given["reason"])
        return self.answer(report, status.HTTP_200_OK)

    def _decide(self, decide: Any, request: Request, serializer: type[NoteSerializer] = NoteSerializer) -> Response:
        report = self.get_object()
        must_name(request, self.version_of(report))
        given, reason = self.given(serializer)
        accepted = {name: True for name in ACCEPTABLE if given.get(name)}
        # A note is stored with the approval, so the change log need not repeat it.
        with writing(reason if given["note"] else ""):
            approval = decide(report=report, user=request.user, note=given["note"] or reason, **accepted)
        return Response(ApprovalSerializer(approval).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=OpenApiResponse(response={"type": "object"}), filters=False)
    @action(detail=True, filter_backends=(), pagination_class=None)
    def approvals(self, request: Request, report_id: UUID) -> Response:
        """Return the report and its decisions, in the form of ``manage.py verify_artifact``."""
        return Response(approval_artifact(self.get_object()))

    @extend_schema(responses=ReportSqlSerializer, filters=False, parameters=[DialectRequest])
    @action(detail=True, filter_backends=(), pagination_class=None)
    def sql(self, request: Request, report_id: UUID) -> Response:
        """Return the statements of each operation in an SQL dialect, against the last observations."""
        report, dialect = self.get_object(), dialect_of(request)
        pairs = zip(operations_of(report), statements_of_report(report, dialect), strict=True)
        operations = [
            {"op": operation.op, "dataset": operation.dataset, "describe": operation.describe(), "statements": texts}
            for operation, texts in pairs
        ]
        return Response(ReportSqlSerializer({"dialect": dialect, "operations": operations}).data)

    @extend_schema(responses=PreviewSerializer, filters=False, parameters=[PREVIEW_TAG])
    @action(detail=True, filter_backends=(), pagination_class=None)
    def preview(self, request: Request, report_id: UUID) -> Response:
        """Return the newest preview; 404 if there is none."""
        preview = newest_preview(self.get_object())
        if preview is None:
            raise NotFound("The report has no preview yet.")
        return self.tagged_answer(PreviewSerializer(preview).data, preview.fingerprint)

    @extend_schema(request=NoParametersSerializer, responses={201: PreviewSerializer}, parameters=[PREVIEW_TAG])
    @preview.mapping.post
    def make_preview(self, request: Request, report_id: UUID) -> Response:
        """Create the preview from the last observations."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            made = make_preview(report=self.get_object(), user=request.user)
        return self.tagged_answer(PreviewSerializer(made).data, made.fingerprint, status.HTTP_201_CREATED)

    @extend_schema(
        request=NoParametersSerializer,
        responses={202: DryRunSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    @action(detail=True, methods=["post"], url_path="dry-run", filter_backends=(), pagination_class=None)
    def dry_run(self, request: Request, report_id: UUID) -> Response:
        """Request a dry run of the newest preview on clones; one that is queued or under way is returned instead."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            preview = newest_preview(self.get_object())
            if preview is None:
                raise Refused("NO_PREVIEW")
            asked = request_dry_run(preview=preview, user=request.user)
        asked.wake_after_commit()
        dry_run = asked.dry_run
        where = reverse("api-dry-run-detail", args=[dry_run.pk], request=request)
        return Response(DryRunSerializer(dry_run).data, status.HTTP_202_ACCEPTED, headers={"Location": where})

    @extend_schema(
        request=ExecuteSerializer,
        responses={202: ExecutionSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def execute(self, request: Request, report_id: UUID) -> Response:
        """Execute the report as shown by the preview whose ETag `If-Match` names.

        A repeated request returns the same execution.
        """
        report = self.get_object()
        preview = newest_preview(report)
        must_name(request, preview and preview.fingerprint)
        given, reason = self.given(ExecuteSerializer)
        seen = given.get("preview") or (preview.fingerprint if preview else "")
        with writing(reason):
            asked = request_execution(report=report, user=request.user, preview_fingerprint=seen, command="REST")
        asked.wake_after_commit()
        execution = executions().prefetch_related("operations").get(pk=asked.execution.pk)
        where = reverse("api-execution-detail", args=[execution.pk], request=request)
        return Response(ExecutionSerializer(execution).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


def work_of_execution(execution: Execution) -> Work:
    """Return the work of an execution, whose state has the fields of lists of executions."""

    def state() -> tuple[dict[str, Any], bool]:
        now = executions().get(pk=execution.pk)
        return dict(ExecutionListSerializer(now).data), now.is_finished

    def lines(after: int) -> list[dict[str, Any]]:
        events = execution_events(execution=execution, after=after)[:LINES_AT_ONCE]
        return list(ExecutionEventSerializer(events, many=True).data)

    return Work(state, lines)


class ExecutionViewSet(ReadOnly):
    """Executions, with their steps and their log."""

    queryset = Execution.objects.none()
    serializer_class = ExecutionSerializer
    list_serializer_class = ExecutionListSerializer
    filterset_class = ExecutionFilter
    # The job's own number: beyond its range it is found nowhere, where the key to the job would overflow.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"
    needs = {"cancel": EXECUTES, "abandon": EXECUTES, "resume": EXECUTES}
    parameters = {"events": PAGES | {"after"}}

    def get_queryset(self) -> QuerySet[Execution]:
        return executions() if self.action == "list" else executions().prefetch_related("operations")

    @as_followed(ExecutionEventSerializer)
    @action(detail=True, filter_backends=())
    def events(self, request: Request, pk: int) -> HttpResponseBase:
        """Return the execution's log, oldest line first: a page, or (``Accept: text/event-stream``) as it comes."""
        if is_wanted(request):
            return stream(request, work_of_execution(self.get_object()))
        page = self.paginate_queryset(execution_events(execution=self.get_object(), after=line_after(request)))
        return self.get_paginated_response(ExecutionEventSerializer(page, many=True).data)

    @extend_schema(request=NoParametersSerializer, responses=ExecutionSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def cancel(self, request: Request, pk: int) -> Response:
        """Cancel the execution after the running step."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            cancel_execution(execution=self.get_object(), user=request.user)
        return self.as_it_is()

    @extend_schema(request=ReasonSerializer, responses=ExecutionSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def abandon(self, request: Request, pk: int) -> Response:
        """Abandon an execution that failed, was cancelled or lost; its record is sealed."""
        given, message = self.given(ReasonSerializer)
        with writing(joined_reason(given["reason"], message)):
            abandon_execution(execution=self.get_object(), user=request.user, reason=given["reason"])
        return self.as_it_is()

    @extend_schema(request=NoParametersSerializer, responses={202: ExecutionSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def resume(self, request: Request, pk: int) -> Response:
        """Queue a failed, cancelled or lost execution again; finished steps are not repeated."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            resumed = resume_execution(execution=self.get_object(), user=request.user)
        Requested(resumed).wake_after_commit()
        return self.as_it_is(status.HTTP_202_ACCEPTED)

    def as_it_is(self, code: int = status.HTTP_200_OK) -> Response:
        """Return the execution."""
        return Response(ExecutionSerializer(self.get_object()).data, status=code)


class RecordViewSet(ReadOnly):
    """Sealed execution records by id."""

    queryset = ExecutionRecord.objects.none()
    serializer_class = RecordSerializer
    list_serializer_class = RecordListSerializer
    filterset_class = RecordFilter
    lookup_field = "record_id"
    lookup_value_converter = "uuid"
    needs = {"undo": MayBuild}

    def get_queryset(self) -> QuerySet[ExecutionRecord]:
        return records()

    @extend_schema(request=UndoSerializer, responses={201: ReportSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def undo(self, request: Request, record_id: UUID) -> Response:
        """Create the report that undoes the record's operations, or the given ones.

        It needs the same approvals as any report. The metadata is changed back if `metadata` is true, which needs the
        permission to edit it; otherwise change it back, too.
        """
        given, reason = self.given(UndoSerializer)
        with writing(reason):
            report = undo_report(record=self.get_object(), user=request.user, **given)
        return self.tagged_answer(ReportSerializer(report).data, report.fingerprint, status.HTTP_201_CREATED)


class DryRunViewSet(ReadOnly):
    """Dry runs of previews on clones, newest first."""

    queryset = DryRun.objects.none()
    serializer_class = DryRunSerializer
    list_serializer_class = DryRunListSerializer
    filterset_class = DryRunFilter
    # The job's own number: beyond its range it is found nowhere, where the key to the job would overflow.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[DryRun]:
        queryset = DryRun.objects.select_related("preview__report__environment", "requested_by").order_by("-pk")
        return queryset.defer("result") if self.action == "list" else queryset

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return a dry run; ``Retry-After`` says when to ask again while it is not finished."""
        answer = super().retrieve(request, *args, **kwargs)
        if answer.data["status"] in ACTIVE:
            answer.headers["Retry-After"] = "1"
        return answer
