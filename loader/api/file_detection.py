"""Endpoint that detects how files of a system are read."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from elevata.accounts.roles import Permission, Place
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import Resource, permitted_to
from loader.api.serializers import RefusalSerializer
from loader.services.reads.file_detection import detect_locations
from loader.sources.file_detection import detection_json
from metadata.models import SourceDataset, System

# One request may read for a few seconds only.
_MOST_FILES = 10


class FilesSerializer(ChangeSerializer):
    """Files whose reading is to be detected."""

    system = serializers.SlugRelatedField(
        slug_field="short_name", queryset=System.objects.filter(kind=System.Kind.FILES), help_text="A system of files."
    )
    files = serializers.ListField(
        child=serializers.CharField(max_length=1000),
        min_length=1,
        max_length=_MOST_FILES,
        help_text="Locations in the system's folder. All of them together are read for a few seconds at most.",
    )


class DetectedColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.CharField()
    target_name = serializers.CharField(help_text="Name in the warehouse.")


class QuestionSerializer(serializers.Serializer):
    """Option that the values leave open."""

    option = serializers.CharField()
    candidates = serializers.ListField(
        child=serializers.JSONField(allow_null=True), help_text="The likeliest first; null: without the option."
    )
    reason = serializers.CharField()

    class Meta:
        ref_name = "DetectionQuestion"


class FileDetectionSerializer(serializers.Serializer):
    """Way in which a file is read; of a file that cannot be read, `file` and `error` only."""

    file = serializers.CharField()
    format = serializers.CharField(required=False)
    options = serializers.DictField(
        child=serializers.JSONField(), required=False, help_text="As of a source dataset; defaults are left out."
    )
    columns = DetectedColumnSerializer(many=True, required=False)
    questions = QuestionSerializer(many=True, required=False)
    notes = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Sentences about columns that stay texts, wrong characters and other doubts.",
    )
    error = RefusalSerializer(required=False)


class FileDetectionViewSet(Resource, GenericViewSet):
    """Detection of how files are read. Nothing is changed."""

    queryset = SourceDataset.objects.none()
    serializer_class = FileDetectionSerializer
    writes = permitted_to(Permission.CHANGE_METADATA, on=Place)
    filter_backends = ()
    pagination_class = None

    @extend_schema(operation_id="detect_file", request=FilesSerializer, responses=FileDetectionSerializer(many=True))
    def create(self, request: Request) -> Response:
        """Detect encoding, delimiter, lines around the records, formats of values, types and names of columns."""
        values, _ = self.given(FilesSerializer)
        results = detect_locations(self.request.user, values["system"], values["files"])
        return Response([detection_json(file, result) for file, result in zip(values["files"], results, strict=True)])
