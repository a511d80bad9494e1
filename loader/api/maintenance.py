"""Endpoints of reverts, prunes, vacuums, copy runs, history checks and history batches."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from elevata.accounts.roles import Permission
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import Resource, permitted_to
from elevata.web.requests import user_of
from loader.api.load_runs import ACCEPTED_AT, REASON_LENGTH, ReasonOfRun, RunIdField
from loader.api.reads import AskedViewSet
from loader.api.serializers import LoadRunSerializer, RefusalSerializer
from loader.contract.run_states import DECISIONS
from loader.domain.reference.batch_files import FILES
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS
from loader.models import LoadRun, ReadRequest
from loader.selectors.reads import read_requests
from loader.selectors.runs import load_run_detail
from loader.services.copies.requests import request_copy
from loader.services.loads.load_runs import RequestedRun, new_run_id
from loader.services.loads.plans import plan_history_batch
from loader.services.maintenance.acceptances import request_accept
from loader.services.maintenance.history_batches import request_history_batch
from loader.services.maintenance.prunes import archive_place, request_prune
from loader.services.maintenance.quarantine import request_quarantine
from loader.services.maintenance.reverts import request_revert
from loader.services.maintenance.vacuums import request_vacuum
from loader.services.reads.manifests import historized
from loader.services.reads.read_requests import CHECK, CHECK_SAMPLES, MOST_CHECK_SAMPLES, request_read
from loader.services.uploads import KeptBatch, SentFile, keep_batch
from metadata.models import TargetDataset
from metadata.permissions import here


def _dataset() -> serializers.SlugRelatedField:
    return serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))


class MaintenanceSerializer(ReasonOfRun):
    """A maintenance run of one dataset, whose reason is required."""

    dataset = _dataset()
    run_id = RunIdField()
    changelog_message = serializers.CharField(max_length=REASON_LENGTH, help_text="Reason, stored with the run.")


class RevertSerializer(MaintenanceSerializer):
    of_run = serializers.CharField(max_length=100, help_text="ID of the run to revert.")


class PruneSerializer(MaintenanceSerializer):
    ended_before = serializers.CharField(
        required=False, max_length=50, help_text="A date, a time, or a number where versions are dated by numbers."
    )
    older_than_days = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=100_000,
        help_text="Alternatively, ended more than this number of days ago.",
    )
    archive = serializers.BooleanField(
        required=False, default=True, help_text="Copy the versions to the archive before removing them."
    )


class VacuumSerializer(MaintenanceSerializer):
    retention_hours = serializers.IntegerField(
        required=False,
        default=SAFE_HOURS,
        min_value=SAFE_HOURS,
        max_value=MOST_HOURS,
        help_text="Files that were current within this number of hours stay.",
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="List the files with their sizes, and remove nothing."
    )


class _MaintenanceViewSet(Resource, GenericViewSet):
    queryset = LoadRun.objects.none()
    serializer_class = LoadRunSerializer
    writes = permitted_to(Permission.START_LOAD, on=here)

    def accepted(self, requested: RequestedRun) -> Response:
        where = reverse("api-load-run-detail", args=[requested.run.run_id], request=self.request)
        content = LoadRunSerializer(load_run_detail().get(pk=requested.run.pk)).data
        return Response(content, status.HTTP_202_ACCEPTED, headers={"Location": where})


class RevertViewSet(_MaintenanceViewSet):
    """Reverts: one load run is taken out of one history."""

    @extend_schema(request=RevertSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a revert. ``Location`` is the run that performs it; refused where later runs depend on the run."""
        fields, reason = self.given(RevertSerializer)
        run = request_revert(
            of_run=fields["of_run"],
            dataset=str(fields["dataset"]),
            reason=reason,
            run_id=fields.get("run_id"),
            user=request.user,
        )
        return self.accepted(run)


class PruneViewSet(_MaintenanceViewSet):
    """Prunes: closed versions of a history are removed by age, open ones never."""

    @extend_schema(request=PruneSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a prune, by a date or a number of days. ``Location`` is the run that performs it."""
        fields, reason = self.given(PruneSerializer)
        name = str(fields["dataset"])
        run = request_prune(
            dataset=name,
            reason=reason,
            ended_before=fields.get("ended_before"),
            older_than_days=fields.get("older_than_days"),
            archive=archive_place(name) if fields["archive"] else None,
            run_id=fields.get("run_id"),
            user=request.user,
        )
        return self.accepted(run)


class VacuumViewSet(_MaintenanceViewSet):
    """Vacuums: files that the tables of a dataset no longer name are removed, or listed by a dry run."""

    @extend_schema(request=VacuumSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a vacuum or its dry run. ``Location`` is the run; its details list the files and the disk use."""
        fields, reason = self.given(VacuumSerializer)
        run = request_vacuum(
            dataset=str(fields["dataset"]),
            reason=reason,
            retention_hours=fields["retention_hours"],
            dry_run=fields["dry_run"],
            run_id=fields.get("run_id"),
            user=request.user,
        )
        return self.accepted(run)


class AcceptViewSet(_MaintenanceViewSet):
    """Acceptances: loads go on from a table that is not as the last run left it."""

    @extend_schema(request=MaintenanceSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Accept a table in its present state; runs that it does not hold count as reverted then."""
        fields, reason = self.given(MaintenanceSerializer)
        run = request_accept(
            dataset=str(fields["dataset"]), reason=reason, run_id=fields.get("run_id"), user=request.user
        )
        return self.accepted(run)


class NewCopyRunSerializer(ReasonOfRun):
    """A run that makes or compares the copies of one dataset."""

    dataset = _dataset()
    check = serializers.BooleanField(
        required=False, default=False, help_text="Compare version, number of rows and checksum, and write nothing."
    )
    run_id = RunIdField()


class CopyRunViewSet(_MaintenanceViewSet):
    """Copy runs: the copies of a dataset are made, or compared."""

    @extend_schema(request=NewCopyRunSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a copy run. ``Location`` is the run, whose details list the results by copy."""
        fields, reason = self.given(NewCopyRunSerializer)
        run = request_copy(
            dataset=str(fields["dataset"]),
            check=fields["check"],
            reason=reason,
            run_id=fields.get("run_id"),
            user=request.user,
        )
        return self.accepted(run)


class QuarantineSerializer(MaintenanceSerializer):
    decision = serializers.ChoiceField(choices=[(name, name) for name in DECISIONS])
    entries = serializers.ListField(
        child=serializers.RegexField(r"\A[0-9a-f]{64}\Z"),
        required=False,
        max_length=1000,
        help_text="Rows, as a read of kind quarantine names them; without any, all waiting rows are meant.",
    )
    of_run = serializers.CharField(
        required=False, max_length=100, help_text="Only rows that this load run quarantined."
    )


class QuarantineViewSet(_MaintenanceViewSet):
    """Decisions on quarantined rows: released into the next load, or dropped."""

    @extend_schema(request=QuarantineSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Release or drop waiting rows of a dataset's quarantine. ``Location`` is the run that performs it."""
        fields, reason = self.given(QuarantineSerializer)
        run = request_quarantine(
            dataset=str(fields["dataset"]),
            decision=fields["decision"],
            entries=fields.get("entries", ()),
            of_run=fields.get("of_run", ""),
            reason=reason,
            run_id=fields.get("run_id"),
            user=request.user,
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
        own = read_requests().filter(requested_by=user_of(self.request), dataset__isnull=False, kind=CHECK)
        return own.select_related("dataset__history_of__schema", "dataset__schema")

    @extend_schema(request=NewCheckSerializer, responses={202: CheckSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Request a check of every invariant of a history. ``Location`` is where its findings will be."""
        fields, reason = self.given(NewCheckSerializer)
        (dataset,) = historized([str(fields["dataset"])])
        read = request_read(
            kind=CHECK,
            dataset=dataset,
            arguments={"samples": fields["samples"]},
            user=request.user,
            reason=reason,
        ).read
        return self.accepted(read)


_MOST_FILES = 20


def _files(help_text: str) -> serializers.ListField:
    sent = serializers.FileField(max_length=255, allow_empty_file=True)
    return serializers.ListField(child=sent, required=False, max_length=_MOST_FILES, help_text=help_text)


class NewBatchSerializer(ReasonOfRun):
    """The files of a batch, by kind; applied in this order, all of them or none.

    CSV in UTF-8 with a header, plain or packed with zstd, or Parquet, the same for all: the format is
    detected from their content.
    """

    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    earliest_start = _files("From when on everything known of a key is replaced.")
    upsert = _files("Versions as they are.")
    update = _files("Versions that say only what changed.")  # type: ignore[assignment]  # a field of the request
    delete = _files("When keys ended.")
    run_id = RunIdField()
    load_timestamp = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Load timestamp; default now."
    )


class BatchViewSet(Resource, GenericViewSet):
    """History batches: files that are applied to the history of one dataset."""

    queryset = LoadRun.objects.none()
    serializer_class = LoadRunSerializer
    parser_classes = (MultiPartParser,)
    writes = permitted_to(Permission.START_LOAD, on=here)

    @staticmethod
    def most_bytes() -> int:
        return settings.BATCH_MAX_BYTES

    @extend_schema(request=NewBatchSerializer, responses={202: LoadRunSerializer}, parameters=[ACCEPTED_AT])
    def create(self, request: Request) -> Response:
        """Send a history batch. ``Location`` is the run that applies it; its files are removed once it succeeds."""
        fields, batch = self._sent
        try:
            run = request_history_batch(
                dataset=str(fields["dataset"]),
                files=batch.files,
                format=batch.format,
                compression=batch.compression,
                run_id=fields["run_id"],
                at=fields.get("load_timestamp"),
                reason=fields["reason"],
                user=request.user,
            ).run
        except BaseException:
            batch.discard()
            raise
        where = reverse("api-load-run-detail", args=[run.run_id], request=request)
        made = LoadRunSerializer(load_run_detail().get(pk=run.pk)).data
        return Response(made, status.HTTP_202_ACCEPTED, headers={"Location": where})

    @cached_property
    def _sent(self) -> tuple[dict[str, Any], KeptBatch]:
        """Return the fields of the request, and its files after they were stored for the worker."""
        fields, reason = self.given(NewBatchSerializer)
        run_id = fields.get("run_id") or new_run_id()
        # A batch that cannot be applied is refused before its files are stored.
        plan_history_batch(str(fields["dataset"]))
        return fields | {"run_id": run_id, "reason": reason}, keep_batch(run_id=run_id, sent=_sent(fields))

    def prepare(self) -> None:
        self._sent  # noqa: B018  stores and unpacks the files before the transaction

    def digest_of(self, request: Request) -> str:
        """Return a digest of the request, field by field.

        The body itself is not used: its boundary differs each time, and its files may not fit in memory.
        """
        digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
        form: Any = request.data  # a QueryDict
        for name, values in sorted(form.lists()):
            for value in values:
                digest.update(f"{name}={_digest(value)}\n".encode())
        return digest.hexdigest()


def _digest(value: Any) -> str:
    if not isinstance(value, UploadedFile):
        return hashlib.sha256(str(value).encode()).hexdigest()
    digest = hashlib.sha256()
    for chunk in value.chunks():
        digest.update(chunk)
    return digest.hexdigest()


def _sent(fields: dict[str, Any]) -> Iterator[SentFile]:
    for kind in FILES:
        for file in fields.get(kind, ()):
            yield SentFile(kind, file.name, file.chunks())
