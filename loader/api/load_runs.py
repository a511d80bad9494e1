"""Endpoints of load runs."""

from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.accounts.roles import Permission
from elevata.api.progress import LINES_AT_ONCE, Work, as_followed, is_wanted, line_after, stream
from elevata.api.requests import ChangeSerializer, StrictSerializer
from elevata.api.resources import PAGES, ReadOnly, permitted_to
from loader.api.serializers import (
    LoadRunListSerializer,
    LoadRunSerializer,
    MaintenanceRecordListSerializer,
    MaintenanceRecordSerializer,
    RunEventSerializer,
)
from loader.contract.refusals import Refusal
from loader.domain.sources.marks import MAX_SINCE
from loader.filtersets import LoadRunFilter, MaintenanceRecordFilter, RunIdConverter
from loader.models import LoadRun, MaintenanceRecord
from loader.selectors.runs import load_run_detail, load_runs, run_events
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.maintenance.approvals import approve_maintenance
from metadata.api.scope import ScopeFieldsSerializer
from metadata.domain.scope import ALL, SELECTION, Scope
from metadata.permissions import here

REASON_LENGTH = 500
_FULL = "Read sources with a watermark whole."
_SINCE = "Read sources with a watermark from this number, date or time on."
ACCEPTED_AT = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])
_STARTS = permitted_to(Permission.START_LOAD, on=here)


class ReasonOfRun(ChangeSerializer):
    """A request with a reason, which is at most as long as a run keeps it."""

    changelog_message = serializers.CharField(
        required=False, allow_blank=True, max_length=REASON_LENGTH, help_text="Reason, stored with the run."
    )


class RunIdField(serializers.RegexField):
    """Optional id of a run."""

    def __init__(self) -> None:
        description = "The same id again is the same run."
        super().__init__(rf"\A{RunIdConverter.regex}\Z", required=False, help_text=description)


class LoadScopeSerializer(ScopeFieldsSerializer, StrictSerializer):
    """Scope of a load: all datasets, those of a schema, one by its name (schema.name), or those that words select."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["exclude"] and attrs["kind"] != SELECTION:
            raise serializers.ValidationError({"exclude": ["Only a selection leaves out datasets."]})
        if (attrs["kind"] == ALL) == bool(attrs["name"]):
            message = "Leave the name empty for all datasets." if attrs["name"] else f"Name the {attrs['kind']}."
            raise serializers.ValidationError({"name": [message]})
        return attrs


class NewLoadRunSerializer(ReasonOfRun):
    scope = LoadScopeSerializer(required=False, help_text="Default: all datasets.")
    load_timestamp = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Load timestamp; default now."
    )
    run_id = RunIdField()
    allow_empty = serializers.BooleanField(
        required=False, default=False, help_text="Take deliveries without rows, which close every open version."
    )
    allow_deletes = serializers.BooleanField(
        required=False, default=False, help_text="Take snapshots that lack an unusual share of the open keys."
    )
    full = serializers.BooleanField(required=False, default=False, help_text=_FULL)
    since = serializers.CharField(required=False, default="", allow_blank=True, max_length=MAX_SINCE, help_text=_SINCE)


class LoadRunAgainSerializer(ReasonOfRun):
    allow_empty = serializers.BooleanField(
        required=False, default=False, help_text="Take deliveries without rows this time."
    )
    allow_deletes = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Take snapshots that lack an unusual share of the keys this time.",
    )
    full = serializers.BooleanField(required=False, default=False, help_text=_FULL)
    since = serializers.CharField(required=False, default="", allow_blank=True, max_length=MAX_SINCE, help_text=_SINCE)


def work_of_run(run: LoadRun) -> Work:
    """Return the job of a load run for a stream; its state has the fields of the list of runs."""

    def state() -> tuple[dict[str, Any], bool]:
        now = load_runs().get(pk=run.pk)
        return dict(LoadRunListSerializer(now).data), now.is_finished

    def lines(after: int) -> list[dict[str, Any]]:
        return list(RunEventSerializer(run_events(run=run, after=after)[:LINES_AT_ONCE], many=True).data)

    return Work(state, lines)


class LoadRunViewSet(ReadOnly):
    """Load runs, found by their run id."""

    queryset = LoadRun.objects.none()
    serializer_class = LoadRunSerializer
    list_serializer_class = LoadRunListSerializer
    filterset_class = LoadRunFilter
    lookup_field = "run_id"
    lookup_value_regex = RunIdConverter.regex
    writes = _STARTS
    needs: ClassVar = {"approve": permitted_to(Permission.APPROVE_REPORTS, on=here)}
    parameters: ClassVar = {"events": PAGES | {"after"}}
    _shown: ClassVar[tuple[str, ...]] = ("list", "events")

    def get_queryset(self) -> QuerySet[LoadRun]:
        return load_runs() if self.action in self._shown else load_run_detail()

    @as_followed(RunEventSerializer)
    @action(detail=True, filter_backends=())
    def events(self, request: Request, run_id: str) -> HttpResponseBase:
        """Return the run's log, oldest line first: a page of it, or (``Accept: text/event-stream``) as it comes."""
        if is_wanted(request):
            return stream(request, work_of_run(self.get_object()))
        page = self.paginate_queryset(run_events(run=self.get_object(), after=line_after(request)))
        return self.get_paginated_response(RunEventSerializer(page, many=True).data)

    @extend_schema(request=NewLoadRunSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a load run. ``Location`` is the run, and ``events/`` below it is its log."""
        fields, reason = self.given(NewLoadRunSerializer)
        scope = Scope(**fields.pop("scope")) if "scope" in fields else None
        run = request_load_run(scope=scope, user=request.user, reason=reason, **fields).run
        return self._accepted(run)

    @extend_schema(request=LoadRunAgainSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def again(self, request: Request, run_id: str) -> Response:
        """Queue a run again that did not succeed: finished datasets are not repeated."""
        run, (decisions, reason) = self.get_object(), self.given(LoadRunAgainSerializer)
        requested = request_load_run(run_id=run.run_id, user=request.user, reason=reason, **decisions)
        # A run that waits for approvals since this request did change.
        if not requested.requested and requested.run.status == run.status:
            state = requested.run.get_status_display().lower()
            raise Refusal("RUN_FINISHED", f"run {run.run_id} is {state}: there is nothing to do again")
        return self._accepted(requested.run)

    @extend_schema(request=ReasonOfRun, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def cancel(self, request: Request, run_id: str) -> Response:
        """Request that a run stops: a queued one is cancelled at once, one under way when its worker reads it."""
        run, (_, reason) = self.get_object(), self.given(ReasonOfRun)
        if run.is_finished:
            message = f"run {run.run_id} is {run.get_status_display().lower()}"
            raise Refusal("RUN_FINISHED", message, hint="only what waits or is under way can be cancelled")
        with transaction.atomic():
            request_cancel(run=run, user=request.user, reason=reason)
        return self._accepted(run)

    @extend_schema(request=ReasonOfRun, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def approve(self, request: Request, run_id: str) -> Response:
        """Approve a maintenance run that another user requested; with its last approval it is queued."""
        run, (_, reason) = self.get_object(), self.given(ReasonOfRun)
        approve_maintenance(run=run, user=request.user, note=reason)
        return self._accepted(run)

    def _accepted(self, run: LoadRun) -> Response:
        where = self.reverse_action("detail", kwargs={"run_id": run.run_id})
        now = load_run_detail().get(pk=run.pk)
        return Response(LoadRunSerializer(now).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


class MaintenanceRecordViewSet(ReadOnly):
    """Sealed records of maintenance runs, the newest first, found by their id."""

    queryset = MaintenanceRecord.objects.none()
    serializer_class = MaintenanceRecordSerializer
    list_serializer_class = MaintenanceRecordListSerializer
    filterset_class = MaintenanceRecordFilter
    lookup_field = "record_id"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[MaintenanceRecord]:
        return MaintenanceRecord.objects.select_related("run").order_by("-pk")
