"""Endpoints of load runs, and of the records of maintenance runs."""

from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from architecture.report_places import here
from loader.api.errors import refusals
from loader.api.live_logs import FollowedRun
from loader.api.serializers import (
    GovernedRecordListSerializer,
    GovernedRecordSerializer,
    LoadRunListSerializer,
    LoadRunSerializer,
)
from loader.converters import RunIdConverter
from loader.domain.runs.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.domain.runs.refusals import Refusal
from loader.filtersets import GovernedRecordFilter, LoadRunFilter
from loader.models import GovernedRunRecord, LoadRun
from loader.selectors import load_run_detail, load_runs
from loader.services.runs.runs import request_cancel, request_load_run
from metadata.api.permissions import permitted_to
from metadata.api.resources import PAGES, ReadOnly
from metadata.api.strict_fields import ChangeSerializer, StrictSerializer
from metadata.domain.roles import Permission

REASON_LENGTH = 500
ACCEPTED_AT = OpenApiParameter("Location", str, OpenApiParameter.HEADER, response=[202])
_STARTS = permitted_to(Permission.START_LOAD, on=here)


class ReasonOfRun(ChangeSerializer):
    """A request with a reason, which is at most as long as a run keeps it."""

    changelog_message = serializers.CharField(
        required=False, allow_blank=True, max_length=REASON_LENGTH, help_text="Why; it stays with the run."
    )


class RunIdField(serializers.RegexField):
    """The id of a run, which may be left out."""

    def __init__(self) -> None:
        said = "The same id again is the same run."
        super().__init__(rf"\A{RunIdConverter.regex}\Z", required=False, help_text=said)


class LoadScopeSerializer(StrictSerializer):
    """Scope of a load: everything, a schema, or a dataset by its name (schema.name)."""

    kind = serializers.ChoiceField(choices=(ALL, SCHEMA, DATASET))
    name = serializers.CharField(required=False, allow_blank=True, default="", max_length=310)
    target_only = serializers.BooleanField(
        required=False, default=False, help_text="Leave out what it depends on: deliveries are not read again."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if (attrs["kind"] == ALL) == bool(attrs["name"]):
            said = "Everything has no name." if attrs["name"] else f"Say which {attrs['kind']}."
            raise serializers.ValidationError({"name": [said]})
        return attrs


class NewLoadRunSerializer(ReasonOfRun):
    scope = LoadScopeSerializer(required=False, help_text="Everything, if it is left out.")
    load_timestamp = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Dates what the run writes; now, if it is left out."
    )
    run_id = RunIdField()
    allow_empty = serializers.BooleanField(
        required=False, default=False, help_text="Take deliveries without rows, which close every open version."
    )
    allow_deletes = serializers.BooleanField(
        required=False, default=False, help_text="Take snapshots that lack an unusual share of the open keys."
    )


class LoadRunAgainSerializer(ReasonOfRun):
    allow_empty = serializers.BooleanField(
        required=False, default=False, help_text="Take deliveries without rows this time."
    )
    allow_deletes = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Take snapshots that lack an unusual share of the keys this time.",
    )


class LoadRunViewSet(FollowedRun, ReadOnly):
    """Load runs, found by their run id."""

    queryset = LoadRun.objects.none()
    serializer_class = LoadRunSerializer
    list_serializer_class = LoadRunListSerializer
    filterset_class = LoadRunFilter
    lookup_field = "run_id"
    lookup_value_regex = RunIdConverter.regex
    writes = _STARTS
    parameters: ClassVar = {"events": PAGES | {"after"}}
    _shown: ClassVar[tuple[str, ...]] = ("list", "events")

    def get_queryset(self) -> QuerySet[LoadRun]:
        return load_runs() if self.action in self._shown else load_run_detail()

    @extend_schema(request=NewLoadRunSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a load run. ``Location`` is the run, and ``events/`` below it is its log."""
        asked, reason = self.given(NewLoadRunSerializer)
        scope = Scope(**asked.pop("scope")) if "scope" in asked else None
        with refusals():
            run = request_load_run(scope=scope, user=request.user, reason=reason, **asked).run
        return self._accepted(run)

    @extend_schema(request=LoadRunAgainSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def again(self, request: Request, run_id: str) -> Response:
        """Queue a run again that did not succeed: finished datasets are not repeated."""
        run, (decisions, reason) = self.get_object(), self.given(LoadRunAgainSerializer)
        with refusals():
            asked = request_load_run(run_id=run.run_id, user=request.user, reason=reason, **decisions)
            if not asked.requested:
                said = asked.run.get_status_display().lower()
                raise Refusal("RUN_FINISHED", f"run {run.run_id} is {said}: there is nothing to do again")
        return self._accepted(asked.run)

    @extend_schema(request=ReasonOfRun, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def cancel(self, request: Request, run_id: str) -> Response:
        """Request that a run stops: a queued one is cancelled at once, one under way when its worker reads it."""
        run, (_, reason) = self.get_object(), self.given(ReasonOfRun)
        if run.is_finished:
            said = f"run {run.run_id} is {run.get_status_display().lower()}"
            with refusals():
                raise Refusal("RUN_FINISHED", said, hint="only what waits or is under way can be cancelled")
        with transaction.atomic():
            request_cancel(run=run, user=request.user, reason=reason)
        return self._accepted(run)

    def _accepted(self, run: LoadRun) -> Response:
        where = self.reverse_action("detail", kwargs={"run_id": run.run_id})
        now = load_run_detail().get(pk=run.pk)
        return Response(LoadRunSerializer(now).data, status.HTTP_202_ACCEPTED, headers={"Location": where})


class GovernedRecordViewSet(ReadOnly):
    """Sealed records of maintenance runs, the newest first, found by their id."""

    queryset = GovernedRunRecord.objects.none()
    serializer_class = GovernedRecordSerializer
    list_serializer_class = GovernedRecordListSerializer
    filterset_class = GovernedRecordFilter
    lookup_field = "record_id"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[GovernedRunRecord]:
        return GovernedRunRecord.objects.select_related("run").order_by("-pk")
