"""Endpoints of load runs and schedules."""

from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from elevata.accounts.roles import Permission
from elevata.api.progress import LINES_AT_ONCE, Work, as_followed, is_wanted, line_after, stream
from elevata.api.requests import ChangeSerializer, StrictSerializer
from elevata.api.resources import PAGES, Deletable, ReadOnly, permitted_to
from loader.api.serializers import (
    LoadRunListSerializer,
    LoadRunSerializer,
    MaintenanceRecordListSerializer,
    MaintenanceRecordSerializer,
    RunEventSerializer,
)
from loader.domain.dependencies import ALL, SELECTION, Scope
from loader.domain.dependencies import KINDS as SCOPE_KINDS
from loader.domain.refusals import Refusal
from loader.domain.selection import MAX_WORDS
from loader.domain.sources.marks import MAX_SINCE
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS
from loader.domain.waits import FILES, MOST_MINUTES, MOST_ROWS, ROWS, SKIP, START
from loader.filtersets import LoadRunFilter, MaintenanceRecordFilter, RunIdConverter, ScheduleFilter
from loader.models import LoadRun, MaintenanceRecord, Schedule
from loader.selectors.runs import load_run_detail, load_runs, run_events, schedules
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.maintenance.approvals import approve_maintenance
from loader.services.schedules import create_schedule, delete_schedule, run_now, timetable_of, update_schedule
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


class LoadScopeSerializer(StrictSerializer):
    """Scope of a load: everything, a schema, a dataset by its name (schema.name), or a selection by its words."""

    kind = serializers.ChoiceField(choices=SCOPE_KINDS)
    name = serializers.CharField(required=False, allow_blank=True, default="", max_length=MAX_WORDS)
    target_only = serializers.BooleanField(
        required=False, default=False, help_text="Load without inputs; deliveries are not read again."
    )
    exclude = serializers.CharField(
        required=False, allow_blank=True, max_length=310, help_text="Words of datasets that are left out."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("exclude") and attrs["kind"] != SELECTION:
            raise serializers.ValidationError({"exclude": ["Goes with a selection."]})
        if (attrs["kind"] == ALL) == bool(attrs["name"]):
            message = "Everything has no name." if attrs["name"] else f"Say which {attrs['kind']}."
            raise serializers.ValidationError({"name": [message]})
        return attrs


class NewLoadRunSerializer(ReasonOfRun):
    scope = LoadScopeSerializer(required=False, help_text="Default: everything.")
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


class ScheduleScopeSerializer(LoadScopeSerializer):
    """Scope of the runs; always given as a whole."""

    def validate(self, attrs: dict[str, Any]) -> Any:
        """Return the scope as services take it."""
        if "kind" not in attrs:
            raise serializers.ValidationError({"kind": ["This field is required."]})
        return Scope(**super().validate({"name": "", "target_only": False, **attrs}))


class WaitSerializer(serializers.Serializer):
    """Condition of a schedule's runs; always given as a whole, {} for none."""

    source = serializers.UUIDField(  # type: ignore[assignment]  # a field of the request
        required=False, help_text="Key of the source dataset, which the runs read."
    )
    rows = serializers.IntegerField(required=False, min_value=1, max_value=MOST_ROWS, help_text="Least number of rows.")
    newer = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="Column: only rows after the last load count."
    )
    minutes = serializers.IntegerField(
        required=False, min_value=1, max_value=MOST_MINUTES, help_text="Minutes from the due time to the deadline."
    )
    then = serializers.ChoiceField(required=False, choices=[SKIP, START], help_text="What happens at the deadline.")

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; ``for`` is a keyword of Python."""
        kind = serializers.ChoiceField(required=False, choices=[FILES, ROWS], help_text="New files, or rows.")
        return {"for": kind, **super().get_fields()}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        given = super().to_internal_value(data)
        return given | ({"source": str(given["source"])} if "source" in given else {})

    def to_representation(self, instance: dict[str, Any]) -> dict[str, Any]:
        return instance


class ScheduleChange(ChangeSerializer):
    name = serializers.CharField(max_length=100, help_text="Display name; shown on its load runs.")
    cron = serializers.CharField(max_length=100, help_text="Minute, hour, day of the month, month, day of the week.")
    time_zone = serializers.CharField(
        max_length=64, required=False, help_text="Time zone of the schedule; default UTC."
    )
    scope = ScheduleScopeSerializer(required=False, help_text="Default: everything.")
    kind = serializers.ChoiceField(
        required=False,
        choices=Schedule.Kind.choices,
        help_text="A load, a vacuum of each dataset in the scope, or a check of the sources that it reads.",
    )
    retention_hours = serializers.IntegerField(
        required=False,
        min_value=SAFE_HOURS,
        max_value=MOST_HOURS,
        help_text="A vacuum keeps files that were current within this number of hours.",
    )
    allow_empty = serializers.BooleanField(required=False, help_text="Take deliveries without rows.")
    active = serializers.BooleanField(required=False, help_text="An inactive schedule starts no runs.")
    wait = WaitSerializer(required=False, help_text="Data that a run waits for; {} for the clock alone.")


class ScheduleSerializer(serializers.ModelSerializer):
    environment = serializers.CharField(source="environment.name", read_only=True)
    scope = LoadScopeSerializer(read_only=True)
    words = serializers.SerializerMethodField(help_text="What the cron line says.")
    last_run = serializers.CharField(source="last_run.run_id", read_only=True, default=None, allow_null=True)
    remark = serializers.SerializerMethodField(help_text="Why no run was started at the last due time.")
    wait = WaitSerializer(read_only=True)
    waiting = serializers.SerializerMethodField(help_text="Due time, last check and its answer, while it waits.")

    class Meta:
        model = Schedule
        fields = (
            "key",
            "name",
            "environment",
            "active",
            "cron",
            "words",
            "time_zone",
            "kind",
            "scope",
            "allow_empty",
            "retention_hours",
            "next_at",
            "last_due_at",
            "outcome",
            "remark",
            "wait",
            "waiting",
            "last_run",
            "version",
            "updated_at",
        )

    def get_words(self, schedule: Schedule) -> str:
        return timetable_of(schedule).words

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_waiting(self, schedule: Schedule) -> dict[str, Any] | None:
        state = schedule.waiting
        return {name: state[name] for name in ("due", "checked_at", "answer")} if state else None

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_remark(self, schedule: Schedule) -> dict[str, Any] | None:
        return schedule.remark


@extend_schema_view(
    create=extend_schema(description="Create a schedule in the environment of this installation."),
    partial_update=extend_schema(description="Change a schedule. New times apply from now on."),
    destroy=extend_schema(description="Delete a schedule; its runs stay."),
)
class ScheduleViewSet(Deletable):
    """Schedules: load runs that start automatically, in the current environment."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer
    create_serializer = change_serializer = ScheduleChange
    subject, creating = "schedule", staticmethod(create_schedule)
    updating, deleting = staticmethod(update_schedule), staticmethod(delete_schedule)
    filterset_class = ScheduleFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"
    writes = permitted_to(Permission.START_LOAD, on=here)

    def get_queryset(self) -> QuerySet[Schedule]:
        return schedules()

    @extend_schema(request=ReasonOfRun, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def run(self, request: Request, key: UUID) -> Response:
        """Start the schedule's load now. `Location` is the run."""
        schedule, (_, reason) = self.get_object(), self.given(ReasonOfRun)
        run = run_now(schedule=schedule, user=request.user, reason=reason).run
        where = reverse("api-load-run-detail", args=[run.run_id], request=request)
        now = load_run_detail().get(pk=run.pk)
        return Response(LoadRunSerializer(now).data, status.HTTP_202_ACCEPTED, headers={"Location": where})
