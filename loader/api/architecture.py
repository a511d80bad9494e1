"""Endpoints of architecture control that need a worker: refreshes, dry runs, executions."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from architecture.api import drift, views
from architecture.api.dry_runs import RehearsalSerializer
from architecture.api.errors import MayBuild, refusals
from architecture.api.serializers import (
    ExecuteSerializer,
    ExecutionSerializer,
    PreviewSerializer,
    ReportSerializer,
    scope_of,
)
from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Refused
from architecture.report_places import place_of_report
from architecture.selectors import executions, report_named
from architecture.services.executions.executions import Requested, request_execution, resume_execution
from architecture.services.reports.dry_runs import request_rehearsal
from architecture.services.reports.previews import newest_preview
from architecture.services.reports.report_inputs import tables_in_scope
from architecture.services.reports.reports import scope_row, tables_of
from architecture.services.states.environments import current_environment
from loader.api.live_logs import FollowedExecution
from loader.api.refreshes import AfterLookSerializer, LookRequestSerializer, LookSerializer, ReportRequestSerializer
from loader.models import ReadRequest
from loader.services.queries.refreshes import DRIFT, PREVIEW, REPORT, looks_of, must_have_seen, request_look
from metadata.api.etags import must_name
from metadata.api.resources import Resource
from metadata.api.strict_fields import NothingSerializer
from metadata.domain.roles import Permission
from metadata.permissions import may
from metadata.services.common import writing


class LookViewSet(Resource, ListModelMixin, RetrieveModelMixin, GenericViewSet):
    """Refreshes of the warehouse's observed state, each visible to the user who requested it."""

    queryset = ReadRequest.objects.none()
    serializer_class = LookSerializer
    needs = dict.fromkeys(("list", "retrieve", "create"), MayBuild)
    lookup_value_converter = "int"
    filter_backends = ()

    def get_queryset(self) -> QuerySet[ReadRequest]:
        return looks_of(self.request.user)

    @extend_schema(
        request=LookRequestSerializer,
        responses={202: LookSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    def create(self, request: Request) -> Response:
        """Request a refresh of the tables of a scope, or of a report before it is previewed."""
        given, reason = self.given(LookRequestSerializer)
        report = given["report"]
        if report is not None and not may(request.user, Permission.EXECUTE_REPORTS, place_of_report(report)):
            raise PermissionDenied
        with refusals(), writing(reason):
            asked = _of_report(report) if report is not None else _of_scope(scope_of(given))
            look = request_look(**asked, user=request.user, reason=reason)
        return _waits_for(look, request)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return the state of a refresh; ``Retry-After`` says when to ask again while it is not finished."""
        answer = super().retrieve(request, *args, **kwargs)
        if answer.data["finished_at"] is None:
            answer.headers["Retry-After"] = "1"
        return answer


class DriftViewSet(drift.DriftViewSet):
    needs = {**drift.DriftViewSet.needs, "check": views.EXECUTES}

    @extend_schema(
        request=NothingSerializer,
        responses={202: LookSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    @action(detail=False, methods=["post"])
    def check(self, request: Request) -> Response:
        """Request a refresh of every table that was applied or is described; afterwards the drift can be read again."""
        _, reason = self.given(NothingSerializer)
        with refusals(), writing(reason):
            look = request_look(keys=_tables(Scope()), then={"do": DRIFT}, user=request.user, reason=reason)
        return _waits_for(look, request)


def _waits_for(look: ReadRequest, request: Request) -> Response:
    where = reverse("api-look-detail", args=[look.pk], request=request)
    return Response(LookSerializer(look).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


def _tables(scope: Scope) -> Collection[str]:
    keys = tables_in_scope(environment=current_environment(), scope=scope)
    if not keys:
        raise Refused("UNKNOWN_DATASET", "no dataset is described yet", "import metadata first")
    return keys


def _of_scope(scope: Scope) -> dict[str, Any]:
    return {"keys": _tables(scope), "then": {"do": REPORT, "scope": scope_row(scope)}}


def _of_report(report_id: UUID) -> dict[str, Any]:
    report = report_named(str(report_id))
    then = {"do": PREVIEW, "report": str(report.report_id)}
    return {"keys": tables_of(report), "then": then, "sizes": True}


def _must_have_seen(pk: int, keys: Collection[str], user: Any) -> None:
    """Raise Refused unless it is a refresh of this user that covered these tables."""
    look = looks_of(user).filter(pk=pk).first()
    if look is None:
        raise Refused("UNKNOWN_LOOK")
    must_have_seen(look, keys)


class ReportViewSet(views.ReportViewSet):
    needs = {**views.ReportViewSet.needs, "execute": views.EXECUTES, "rehearse": views.EXECUTES}
    must_see = views.ReportViewSet.must_see | {"execute"}

    @extend_schema(request=ReportRequestSerializer, responses={201: ReportSerializer})
    def create(self, request: Request) -> Response:
        """Make the report of a scope from the last observations, or (``look``) after this refresh.

        The same report again is the same one.
        """
        given, reason = self.given(ReportRequestSerializer)
        with refusals(), writing(reason):
            scope, look = scope_of(given), given["look"]
            if look is not None:
                _must_have_seen(look, tables_in_scope(environment=current_environment(), scope=scope), request.user)
            return self.made(scope, request.user)

    @extend_schema(request=AfterLookSerializer, responses={201: PreviewSerializer}, parameters=[views.PREVIEW_TAG])
    def make_preview(self, request: Request, report_id: UUID) -> Response:
        """Make the preview from the last observations, or (``look``) after this refresh."""
        given, reason = self.given(AfterLookSerializer)
        report, look = self.get_object(), given["look"]
        with refusals(), writing(reason):
            if look is not None:
                _must_have_seen(look, tables_of(report), request.user)
            return self.previewed(report, request.user)

    @extend_schema(
        request=NothingSerializer,
        responses={202: RehearsalSerializer},
        parameters=[OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])],
    )
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def rehearse(self, request: Request, report_id: UUID) -> Response:
        """Request a dry run of the newest preview on clones; one that is queued or under way is returned instead."""
        _, reason = self.given(NothingSerializer)
        with refusals(), writing(reason):
            preview = newest_preview(self.get_object())
            if preview is None:
                raise Refused("NO_PREVIEW")
            asked = request_rehearsal(preview=preview, person=request.user)
        asked.wake_after_commit()
        rehearsal = asked.rehearsal
        where = reverse("api-rehearsal-detail", args=[rehearsal.pk], request=request)
        return Response(RehearsalSerializer(rehearsal).data, status.HTTP_202_ACCEPTED, headers={"Location": where})

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
        with refusals(), writing(reason):
            asked = request_execution(report=report, person=request.user, preview_fingerprint=seen, command="REST")
        asked.wake_after_commit()
        found = executions().prefetch_related("operations").get(pk=asked.execution.pk)
        where = reverse("api-execution-detail", args=[found.pk], request=request)
        return Response(ExecutionSerializer(found).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


class ExecutionViewSet(FollowedExecution, views.ExecutionViewSet):
    needs = {**views.ExecutionViewSet.needs, "resume": views.EXECUTES}

    @extend_schema(request=NothingSerializer, responses={202: ExecutionSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def resume(self, request: Request, pk: int) -> Response:
        """Queue a failed, cancelled or lost execution again; finished steps are not repeated."""
        _, reason = self.given(NothingSerializer)
        with refusals(), writing(reason):
            resumed = resume_execution(execution=self.get_object(), person=request.user)
        Requested(resumed).wake_after_commit()
        return self.as_it_is(status.HTTP_202_ACCEPTED)
