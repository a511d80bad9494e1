"""Endpoints of reverts, prunes and checks of histories, with the options of the commands."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from architecture.report_places import here
from loader.api.errors import refusals
from loader.api.reads import AskedViewSet
from loader.api.serializers import LoadRunSerializer, RefusalSerializer
from loader.api.views import ACCEPTED_AT, REASON_LENGTH, ReasonOfRun, RunIdField
from loader.models import LoadRun, ReadRequest
from loader.selectors import load_run_detail, read_requests
from loader.services.maintenance.maintenance import archive_place, request_prune, request_revert
from loader.services.queries.reads import CHECK, CHECK_SAMPLES, MOST_CHECK_SAMPLES, request_read
from loader.services.runs.runs import RequestedRun
from loader.services.runs.table_checks import historized
from metadata.api.permissions import permitted_to
from metadata.api.resources import Resource
from metadata.api.strict_fields import ChangeSerializer
from metadata.domain.roles import Permission
from metadata.models import TargetDataset


def _dataset() -> serializers.SlugRelatedField:
    return serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))


class GovernedSerializer(ReasonOfRun):
    """A maintenance run of one history, whose reason is required."""

    dataset = _dataset()
    run_id = RunIdField()
    changelog_message = serializers.CharField(max_length=REASON_LENGTH, help_text="Why; it stays with the run.")


class RevertSerializer(GovernedSerializer):
    of_run = serializers.CharField(max_length=100, help_text="The id of the run that is taken out of the history.")


class PruneSerializer(GovernedSerializer):
    ended_before = serializers.CharField(
        required=False, max_length=50, help_text="A date, a time, or a number where versions are dated by numbers."
    )
    older_than_days = serializers.IntegerField(
        required=False, min_value=0, max_value=100_000, help_text="Ended more than so many days ago, instead."
    )
    archive = serializers.BooleanField(
        required=False, default=True, help_text="Write the versions to the warehouse's archive before they go."
    )


class _Governing(Resource, GenericViewSet):
    queryset = LoadRun.objects.none()
    serializer_class = LoadRunSerializer
    writes = permitted_to(Permission.START_LOAD, on=here)

    def accepted(self, asked: RequestedRun) -> Response:
        where = reverse("api-load-run-detail", args=[asked.run.run_id], request=self.request)
        made = LoadRunSerializer(load_run_detail().get(pk=asked.run.pk)).data
        return Response(made, status.HTTP_202_ACCEPTED, headers={"Location": where})


class RevertViewSet(_Governing):
    """Reverts: one load run is taken out of one history."""

    @extend_schema(request=RevertSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a revert. ``Location`` is the run that performs it; refused where later runs depend on the run."""
        asked, reason = self.given(RevertSerializer)
        with refusals():
            run = request_revert(
                of_run=asked["of_run"],
                dataset=str(asked["dataset"]),
                reason=reason,
                run_id=asked.get("run_id"),
                person=request.user,
            )
        return self.accepted(run)


class PruneViewSet(_Governing):
    """Prunes: closed versions of a history are removed by age, open ones never."""

    @extend_schema(request=PruneSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a prune, by a date or a number of days. ``Location`` is the run that performs it."""
        asked, reason = self.given(PruneSerializer)
        name = str(asked["dataset"])
        with refusals():
            run = request_prune(
                dataset=name,
                reason=reason,
                ended_before=asked.get("ended_before"),
                older_than_days=asked.get("older_than_days"),
                archive=archive_place(name) if asked["archive"] else None,
                run_id=asked.get("run_id"),
                person=request.user,
            )
        return self.accepted(run)


class NewCheckSerializer(ChangeSerializer):
    """The history to check."""

    dataset = _dataset()
    samples = serializers.IntegerField(
        required=False,
        default=CHECK_SAMPLES,
        min_value=0,
        max_value=MOST_CHECK_SAMPLES,
        help_text="How many keys each finding names.",
    )


class FindingSerializer(serializers.Serializer):
    """An invariant that does not hold."""

    code = serializers.CharField()
    message = serializers.CharField()
    count = serializers.IntegerField()
    samples = serializers.ListField(child=serializers.DictField(), help_text="Some of the keys.")


class CheckAnswerSerializer(serializers.Serializer):
    versions = serializers.IntegerField(help_text="How many versions were checked.")
    findings = FindingSerializer(many=True)
    rawcore_behind = serializers.BooleanField(
        required=False,
        help_text="The rawcore table has not followed the newest run: a load is under way or was killed.",
    )


class CheckSerializer(serializers.ModelSerializer):
    status = serializers.ChoiceField(choices=ReadRequest.STATUSES, read_only=True)
    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)
    error = serializers.SerializerMethodField()
    answer = serializers.SerializerMethodField(help_text="Null until it is there.")

    class Meta:
        model = ReadRequest
        fields = ("id", "status", "dataset", "dataset_name", "requested_at", "finished_at", "error", "reason", "answer")

    @extend_schema_field(RefusalSerializer(allow_null=True))
    def get_error(self, read: ReadRequest) -> dict[str, Any] | None:
        return read.error

    @extend_schema_field(CheckAnswerSerializer(allow_null=True))
    def get_answer(self, read: ReadRequest) -> dict[str, Any] | None:
        return CheckAnswerSerializer(read.answer).data if read.status == ReadRequest.Status.SUCCEEDED else None


class CheckViewSet(AskedViewSet):
    """Checks of histories, each visible to the user who requested it; they are kept for a day."""

    serializer_class = CheckSerializer
    needs = dict.fromkeys(("create", "list", "retrieve"), permitted_to(Permission.READ_DATA))

    def get_queryset(self) -> QuerySet[ReadRequest]:
        own = read_requests().filter(requested_by=self.request.user, dataset__isnull=False, kind=CHECK)
        return own.select_related("dataset__history_of__schema", "dataset__schema")

    @extend_schema(request=NewCheckSerializer, responses={202: CheckSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a check of every invariant of a history. ``Location`` is where its findings will be."""
        asked, reason = self.given(NewCheckSerializer)
        with refusals():
            (dataset,) = historized([str(asked["dataset"])])
            self.refuse_too_many()
            read = request_read(
                kind=CHECK,
                dataset=dataset,
                arguments={"samples": asked["samples"]},
                user=request.user,
                reason=reason,
            ).read
        return self.accepted(read)
