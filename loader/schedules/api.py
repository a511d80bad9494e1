"""Endpoints of schedules."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from elevata.accounts.roles import Permission
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import Deletable, permitted_to
from loader.api.load_runs import ACCEPTED_AT, LoadScopeSerializer, ReasonOfRun
from loader.api.serializers import LoadRunSerializer
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS
from loader.filtersets import ScheduleFilter
from loader.models import Schedule
from loader.schedules.runs import run_now
from loader.schedules.selectors import schedules
from loader.schedules.services import create_schedule, delete_schedule, timetable_of, update_schedule
from loader.schedules.waits import FILES, MOST_MINUTES, MOST_ROWS, ROWS, SKIP, START
from loader.selectors.runs import load_run_detail
from metadata.domain.scope import Scope
from metadata.permissions import here


class ScheduleScopeSerializer(LoadScopeSerializer):
    """Scope of the runs; always given as a whole."""

    def validate(self, attrs: dict[str, Any]) -> Any:
        """Return the scope as services take it."""
        if "kind" not in attrs:
            raise serializers.ValidationError({"kind": ["This field is required."]})
        return Scope(**super().validate({"name": "", "target_only": False, "exclude": "", **attrs}))


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
    scope = ScheduleScopeSerializer(required=False, help_text="Default: all datasets.")
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
