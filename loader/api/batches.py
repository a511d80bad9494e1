"""History batches sent as files and applied by a load run."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.viewsets import GenericViewSet

from architecture.report_places import here
from loader.api.errors import refusals
from loader.api.serializers import LoadRunSerializer
from loader.api.views import ACCEPTED_AT, ReasonOfRun, RunIdField
from loader.domain.reference.batch_files import FILES
from loader.models import LoadRun
from loader.selectors import load_run_detail
from loader.services.maintenance.maintenance import request_history_batch
from loader.services.runs.manifests import plan_history_batch
from loader.services.runs.runs import new_run_id
from loader.services.runs.uploads import KeptBatch, SentFile, keep_batch
from metadata.api.permissions import permitted_to
from metadata.api.resources import Resource
from metadata.domain.roles import Permission
from metadata.models import TargetDataset

_MOST_FILES = 20


def _files(said: str) -> serializers.ListField:
    sent = serializers.FileField(max_length=255, allow_empty_file=True)
    return serializers.ListField(child=sent, required=False, max_length=_MOST_FILES, help_text=said)


class NewBatchSerializer(ReasonOfRun):
    """The files of a batch, by kind; applied in this order, all of them or none.

    CSV in UTF-8 with a header, plain or packed with zstd, or Parquet, the same for all: the format is
    detected from their content.
    """

    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    earliest_start = _files("From when on everything known of a key is replaced.")
    upsert = _files("Versions as they are.")
    update = _files("Versions that say only what changed.")
    delete = _files("When keys ended.")
    run_id = RunIdField()
    load_timestamp = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Dates what the run writes; now, if it is left out."
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
        asked, kept = self._sent
        try:
            with refusals():
                run = request_history_batch(
                    dataset=str(asked["dataset"]),
                    files=kept.files,
                    format=kept.format,
                    compression=kept.compression,
                    run_id=asked["run_id"],
                    at=asked.get("load_timestamp"),
                    reason=asked["reason"],
                    person=request.user,
                ).run
        except BaseException:
            kept.discard()
            raise
        where = reverse("api-load-run-detail", args=[run.run_id], request=request)
        made = LoadRunSerializer(load_run_detail().get(pk=run.pk)).data
        return Response(made, status.HTTP_202_ACCEPTED, headers={"Location": where})

    @cached_property
    def _sent(self) -> tuple[dict[str, Any], KeptBatch]:
        """The fields of the request, and its files as stored for the worker."""
        asked, reason = self.given(NewBatchSerializer)
        run_id = asked.get("run_id") or new_run_id()
        with refusals():
            # What cannot be applied need not be stored first.
            plan_history_batch(str(asked["dataset"]))
            return asked | {"run_id": run_id, "reason": reason}, keep_batch(run_id=run_id, sent=_sent(asked))

    def prepare(self) -> None:
        self._sent  # noqa: B018  stored and unpacked before the transaction

    def digest_of(self, request: Request) -> str:
        """Return a digest of the request, field by field.

        A form's boundary differs each time, and files need not fit in memory.
        """
        whole = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
        for name, values in sorted(request.data.lists()):
            for value in values:
                whole.update(f"{name}={_digest(value)}\n".encode())
        return whole.hexdigest()


def _digest(value: Any) -> str:
    if not isinstance(value, UploadedFile):
        return hashlib.sha256(str(value).encode()).hexdigest()
    digest = hashlib.sha256()
    for chunk in value.chunks():
        digest.update(chunk)
    return digest.hexdigest()


def _sent(asked: dict[str, Any]) -> Iterator[SentFile]:
    for kind in FILES:
        for file in asked.get(kind, ()):
            yield SentFile(kind, file.name, file.chunks())
