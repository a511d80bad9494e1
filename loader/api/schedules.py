"""Endpoints of schedules: load runs that start automatically, and one of them started now."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from architecture.report_places import here
from loader.api.errors import refusals
from loader.api.serializers import LoadRunSerializer
from loader.api.views import ACCEPTED_AT, LoadScopeSerializer, ReasonOfRun
from loader.domain.runs.dependencies import Scope
from loader.filtersets import ScheduleFilter
from loader.models import Schedule
from loader.selectors import load_run_detail, schedules
from loader.services.runs.schedules import create_schedule, delete_schedule, run_now, timetable_of, update_schedule
from metadata.api.permissions import permitted_to
from metadata.api.resources import Deletable
from metadata.api.strict_fields import ChangeSerializer
from metadata.domain.roles import Permission


class ScheduleScopeSerializer(LoadScopeSerializer):
    """Scope of the runs; always given as a whole."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "kind" not in attrs:
            raise serializers.ValidationError({"kind": ["This field is required."]})
        return super().validate({"name": "", "target_only": False, **attrs})


class ScheduleChange(ChangeSerializer):
    name = serializers.CharField(max_length=100, help_text="What people call it; its runs say it.")
    cron = serializers.CharField(max_length=100, help_text="Minute, hour, day of the month, month, day of the week.")
    time_zone = serializers.CharField(max_length=64, required=False, help_text="In which the times count; else UTC.")
    scope = ScheduleScopeSerializer(required=False, help_text="Everything, if it is left out.")
    allow_empty = serializers.BooleanField(required=False, help_text="Take deliveries without rows.")
    active = serializers.BooleanField(required=False, help_text="Out of use, it keeps its times and starts nothing.")


class ScheduleSerializer(serializers.ModelSerializer):
    environment = serializers.CharField(source="environment.name", read_only=True)
    scope = LoadScopeSerializer(read_only=True)
    words = serializers.SerializerMethodField(help_text="What the cron line says.")
    last_run = serializers.CharField(source="last_run.run_id", read_only=True, default=None, allow_null=True)
    remark = serializers.SerializerMethodField(help_text="Why no run was started at the last due time.")

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
            "scope",
            "allow_empty",
            "next_at",
            "last_due_at",
            "outcome",
            "remark",
            "last_run",
            "version",
            "updated_at",
        )

    def get_words(self, schedule: Schedule) -> str:
        return timetable_of(schedule).words

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_remark(self, schedule: Schedule) -> dict[str, Any] | None:
        return schedule.remark


@extend_schema_view(
    create=extend_schema(description="Have load runs start by themselves, in the environment that is worked in."),
    partial_update=extend_schema(description="Change it. With other times, due times count from now on."),
    destroy=extend_schema(description="Delete it; the runs that it started stay."),
)
class ScheduleViewSet(Deletable):
    """Schedules: load runs that start automatically, in the current environment."""

    queryset = Schedule.objects.none()
    serializer_class = ScheduleSerializer
    create_serializer = change_serializer = ScheduleChange
    filterset_class = ScheduleFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"
    writes = permitted_to(Permission.START_LOAD, on=here)

    def get_queryset(self) -> QuerySet[Schedule]:
        return schedules()

    def make(self, **given: Any) -> Schedule:
        return create_schedule(**_with_scope(given))

    def change(self, row: Schedule, expected_version: int, **given: Any) -> Schedule:
        return update_schedule(schedule=row, expected_version=expected_version, **_with_scope(given))

    def erase(self, row: Schedule, expected_version: int, reason: str) -> None:
        delete_schedule(schedule=row, expected_version=expected_version)

    @extend_schema(request=ReasonOfRun, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def run(self, request: Request, key: UUID) -> Response:
        """Start the schedule's load now, whatever its times. `Location` is the run."""
        schedule, (_, reason) = self.get_object(), self.given(ReasonOfRun)
        with refusals():
            run = run_now(schedule=schedule, user=request.user, reason=reason).run
        where = reverse("api-load-run-detail", args=[run.run_id], request=request)
        now = load_run_detail().get(pk=run.pk)
        return Response(LoadRunSerializer(now).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


def _with_scope(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as services take them."""
    return given | ({"scope": Scope(**given["scope"])} if "scope" in given else {})
