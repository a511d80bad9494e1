"""The API of reports, executions and records. What wakes a worker is added by the loader (``loader.api``)."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.api.errors import MayBuild, refusals
from architecture.api.serializers import (
    ApprovalSerializer,
    ExecutionEventSerializer,
    ExecutionListSerializer,
    ExecutionSerializer,
    NoteSerializer,
    PreviewSerializer,
    ReasonSerializer,
    RecordListSerializer,
    RecordSerializer,
    ReportListSerializer,
    ReportRequestSerializer,
    ReportSerializer,
    UndoSerializer,
    scope_of,
)
from architecture.domain.reports.scope import Scope
from architecture.filtersets import ExecutionFilter, RecordFilter, ReportFilter
from architecture.models import ChangeReport, Execution, ExecutionRecord
from architecture.selectors import execution_events, executions, records, reports
from architecture.services.executions.executions import abandon_execution, cancel_execution
from architecture.services.executions.records import approval_artifact
from architecture.services.reports.approvals import approve, reject
from architecture.services.reports.previews import make_preview, newest_preview
from architecture.services.reports.reports import build_report
from architecture.services.reports.undo_reports import undo_report
from architecture.services.states.environments import current_environment
from metadata.api.etags import must_name
from metadata.api.permissions import permitted_to
from metadata.api.resources import PAGES, ReadOnly
from metadata.api.strict_fields import NothingSerializer, both
from metadata.domain.roles import Permission
from metadata.services.common import writing

APPROVES, EXECUTES = permitted_to(Permission.APPROVE_REPORTS), permitted_to(Permission.EXECUTE_REPORTS)

# A preview's tag: what an execution says it was asked for over.
PREVIEW_TAG = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=True, description="The preview that this is; execute asks for it."
)


class ReportViewSet(ReadOnly):
    """Change reports, found by their id. A report is made from what was last seen of the warehouse.

    A decision counts for one fingerprint, so a report's ETag begins with it, and who decides names it.
    """

    queryset = ChangeReport.objects.none()
    serializer_class = ReportSerializer
    list_serializer_class = ReportListSerializer
    filterset_class = ReportFilter
    lookup_field = "report_id"
    lookup_value_converter = "uuid"
    needs = {"create": MayBuild, "approve": APPROVES, "reject": APPROVES, "make_preview": EXECUTES}
    tagged = True
    must_see = frozenset({"approve", "reject"})

    def version_of(self, row: ChangeReport) -> str:
        return row.fingerprint

    def get_queryset(self) -> QuerySet[ChangeReport]:
        if self.action == "list":
            return reports()
        related = ("environment", "created_by", "undo_of", "superseded_by")
        return ChangeReport.objects.select_related(*related).prefetch_related("approvals")

    @extend_schema(request=ReportRequestSerializer, responses={201: ReportSerializer})
    def create(self, request: Request) -> Response:
        """Make the report of a scope; the same report again is the same one."""
        given, reason = self.given(ReportRequestSerializer)
        with refusals(), writing(reason):
            return self.made(scope_of(given), request.user)

    def made(self, scope: Scope, person: Any) -> Response:
        """The report of a scope, from what was last seen."""
        report = build_report(environment=current_environment(), scope=scope, person=person)
        answer = self.answer(report, status.HTTP_201_CREATED)
        answer.headers["Location"] = self.reverse_action("detail", kwargs={self.lookup_field: report.report_id})
        return answer

    @extend_schema(request=NoteSerializer, responses={201: ApprovalSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def approve(self, request: Request, report_id: UUID) -> Response:
        """Say yes to what the ETag in `If-Match` stands for."""
        return self._decide(approve, request)

    @extend_schema(request=NoteSerializer, responses={201: ApprovalSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def reject(self, request: Request, report_id: UUID) -> Response:
        """Say no to what the ETag in `If-Match` stands for, which ends the report."""
        return self._decide(reject, request)

    def _decide(self, decide: Any, request: Request) -> Response:
        report = self.get_object()
        must_name(request, self.version_of(report))
        given, reason = self.given(NoteSerializer)
        # What stays with the approval need not stand in the change log, too.
        with refusals(), writing(reason if given["note"] else ""):
            approval = decide(report=report, person=request.user, note=given["note"] or reason)
        return Response(ApprovalSerializer(approval).data, status=status.HTTP_201_CREATED)

    @extend_schema(responses=OpenApiResponse(response={"type": "object"}), filters=False)
    @action(detail=True, filter_backends=(), pagination_class=None)
    def approvals(self, request: Request, report_id: UUID) -> Response:
        """The report and what people decided, as ``manage.py verify_artifact`` takes it."""
        return Response(approval_artifact(self.get_object()))

    @extend_schema(responses=PreviewSerializer, filters=False, parameters=[PREVIEW_TAG])
    @action(detail=True, filter_backends=(), pagination_class=None)
    def preview(self, request: Request, report_id: UUID) -> Response:
        """The newest preview; 404 while there is none."""
        found = newest_preview(self.get_object())
        if found is None:
            raise NotFound("The report has no preview yet.")
        return self.tagged_answer(PreviewSerializer(found).data, found.fingerprint)

    @extend_schema(request=NothingSerializer, responses={201: PreviewSerializer}, parameters=[PREVIEW_TAG])
    @preview.mapping.post
    def make_preview(self, request: Request, report_id: UUID) -> Response:
        """Make the preview from what was last seen of the warehouse."""
        _, reason = self.given(NothingSerializer)
        with refusals(), writing(reason):
            return self.previewed(self.get_object(), request.user)

    def previewed(self, report: ChangeReport, person: Any) -> Response:
        """The preview of a report, from what was last seen."""
        made = make_preview(report=report, person=person)
        return self.tagged_answer(PreviewSerializer(made).data, made.fingerprint, status.HTTP_201_CREATED)


class ExecutionViewSet(ReadOnly):
    """Executions, with their steps and their log."""

    queryset = Execution.objects.none()
    serializer_class = ExecutionSerializer
    list_serializer_class = ExecutionListSerializer
    filterset_class = ExecutionFilter
    # The job's own number: beyond its range it is found nowhere, where the key to the job would overflow.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"
    needs = {"cancel": EXECUTES, "abandon": EXECUTES}
    parameters = {"events": PAGES | {"after"}}

    def get_queryset(self) -> QuerySet[Execution]:
        return executions() if self.action == "list" else executions().prefetch_related("operations")

    @extend_schema(
        responses=ExecutionEventSerializer(many=True),
        filters=False,
        parameters=[OpenApiParameter("after", int, description="Only lines after the one with this id.")],
    )
    @action(detail=True, filter_backends=())
    def events(self, request: Request, pk: int) -> Response:
        """The execution's log, oldest line first."""
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 19):
            raise ValidationError({"after": ["Must be the id of a line."]})
        page = self.paginate_queryset(execution_events(execution=self.get_object(), after=int(after)))
        return self.get_paginated_response(ExecutionEventSerializer(page, many=True).data)

    @extend_schema(request=NothingSerializer, responses=ExecutionSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def cancel(self, request: Request, pk: int) -> Response:
        """Ask for the execution to stop between two steps."""
        _, reason = self.given(NothingSerializer)
        with refusals(), writing(reason):
            cancel_execution(execution=self.get_object(), person=request.user)
        return self.as_it_is()

    @extend_schema(request=ReasonSerializer, responses=ExecutionSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def abandon(self, request: Request, pk: int) -> Response:
        """Give up an execution that failed, was cancelled or lost; its record is sealed."""
        given, message = self.given(ReasonSerializer)
        with refusals(), writing(both(given["reason"], message)):
            abandon_execution(execution=self.get_object(), person=request.user, reason=given["reason"])
        return self.as_it_is()

    def as_it_is(self, code: int = status.HTTP_200_OK) -> Response:
        """The execution as it is now."""
        return Response(ExecutionSerializer(self.get_object()).data, status=code)


class RecordViewSet(ReadOnly):
    """Sealed execution records, found by their id."""

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
        """Make the report that takes the record's operations back, or those that are named.

        It goes through the same gate. The metadata still say what they said: bring them back, too.
        """
        given, reason = self.given(UndoSerializer)
        with refusals(), writing(reason):
            report = undo_report(record=self.get_object(), person=request.user, operations=given["operations"])
        return self.tagged_answer(ReportSerializer(report).data, report.fingerprint, status.HTTP_201_CREATED)
