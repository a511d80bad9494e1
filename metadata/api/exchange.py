"""Metadata as files, out and in: those that ``manage.py export_metadata`` writes and ``import_metadata`` reads."""

from functools import cached_property

from django.conf import settings
from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from elevata.accounts.roles import Permission
from elevata.api.preconditions import etag, is_known
from elevata.api.requests import ChangeSerializer, StrictSerializer, is_true
from elevata.api.resources import Resource, permitted_to
from elevata.audit.services.transactions import writing
from elevata.core.errors import Refusals
from metadata.api.bulk import BadRows
from metadata.domain.exchange import FORMAT
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_files import (
    MetadataFiles,
    exported_csv,
    exported_files,
    import_records,
    read_files,
)

MOST_FILES = 10_000
_CSV = OpenApiParameter(
    "csv", bool, description="With `true`, `datasets.csv` and `sources.csv` for spreadsheets, instead of YAML files."
)


class FileSerializer(StrictSerializer):
    """A YAML file, or a CSV file if its name ends with `.csv`. The name appears in error messages."""

    name = serializers.CharField(max_length=500)
    content = serializers.CharField(max_length=settings.DATA_UPLOAD_MAX_MEMORY_SIZE, trim_whitespace=False)


class ImportRequestSerializer(ChangeSerializer):
    files = FileSerializer(many=True, min_length=1, max_length=MOST_FILES)  # type: ignore[call-arg]  # of many
    check = serializers.BooleanField(default=False, help_text="Only say what would change; nothing is written.")

    def validate_files(self, files: list[dict[str, str]]) -> list[dict[str, str]]:
        if len({file["name"] for file in files}) < len(files):
            raise serializers.ValidationError("Two files have one name.")
        return files


class ImportedSerializer(serializers.Serializer):
    """Result of an import for one object."""

    change = serializers.ChoiceField(choices=("created", "updated"))
    kind = serializers.CharField()
    name = serializers.CharField()


class ImportFindingSerializer(serializers.Serializer):
    """New name that a user would be asked about."""

    name = serializers.CharField()
    message = serializers.CharField()


class ImportAnswerSerializer(serializers.Serializer):
    """Result of an import, or, with ``check``, its preview."""

    check = serializers.BooleanField()
    created = serializers.IntegerField()
    updated = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    changes = ImportedSerializer(many=True)
    findings = ImportFindingSerializer(many=True)


class ExportSerializer(serializers.Serializer):
    """All metadata; the same metadata give the same files."""

    format = serializers.ChoiceField(choices=(FORMAT,))
    files = FileSerializer(many=True)


class MetadataViewSet(Resource, GenericViewSet):
    """All metadata at once, as YAML files."""

    serializer_class = ExportSerializer
    writes = permitted_to(Permission.CHANGE_METADATA)
    filter_backends = ()
    pagination_class = None
    parameters = {"export": frozenset({"csv"})}

    @extend_schema(operation_id="metadata_export", parameters=[_CSV], responses=ExportSerializer)
    @action(detail=False)
    def export(self, request: Request) -> Response:
        """Return every file of the export. With `If-None-Match` it is sent only if something changed."""
        exported = exported_csv() if is_true(request, "csv") else exported_files()
        files = [{"name": name, "content": content} for name, content in exported.items()]
        shown = ExportSerializer({"format": FORMAT, "files": files}).data
        tag = etag(FORMAT.replace("/", "-"), shown)
        if is_known(request, tag):
            return Response(status=304, headers={"ETag": tag})
        return Response(shown, headers={"ETag": tag})

    @extend_schema(
        operation_id="metadata_import", request=ImportRequestSerializer, responses={200: ImportAnswerSerializer}
    )
    @action(detail=False, methods=["post"], url_path="import", url_name="import")
    def bring_in(self, request: Request) -> Response:
        """Import the files' metadata: all of it or, on any fault, nothing.

        A file whose name ends with `.csv` is read as CSV of target datasets or of source datasets, with their columns;
        others are read as YAML. Several faults are listed as those of a bulk
        request, the first 200 with their places, and `total` counts all. What the files do not mention is left alone.
        At most 8 MiB; larger ones go by `manage.py import_metadata`.
        """
        files, check, reason = self._sent
        try:
            with writing(reason):
                report = self.import_files(files, check=check)
                if check:
                    transaction.set_rollback(True)
        except Refusals as refused:
            raise BadRows.of(refused) from None
        return Response(ImportAnswerSerializer({"check": check, **report.as_json()}).data)

    @cached_property
    def _sent(self) -> tuple[MetadataFiles, bool, str]:
        """Return the files, whether they are only checked, and the reason."""
        given, reason = self.given(ImportRequestSerializer)
        files = read_files({file["name"]: file["content"] for file in given["files"]})
        return files, given["check"], reason

    def prepare(self) -> None:
        if self.action == "bring_in":
            self._sent  # noqa: B018  read before the transaction

    def import_files(self, files: MetadataFiles, *, check: bool) -> Report:
        """Import files. The loader overrides this, to limit the places of sources, since it reads from them."""
        return import_records(files, check=check)
