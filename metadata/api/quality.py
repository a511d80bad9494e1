"""API of quality checks of datasets."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.api.requests import ChangeSerializer, NoParametersSerializer
from elevata.api.resources import Deletable
from elevata.core.lengths import MAX_TEXT
from metadata.domain.quality import check_kinds
from metadata.filtersets import QualityCheckFilter
from metadata.models import QualityCheck, TargetDataset
from metadata.services.quality import create_check, delete_check, retire_check, unretire_check, update_check


class QualityCheckSerializer(serializers.ModelSerializer):
    """Quality check with its dataset and its summary in words."""

    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)
    summary = serializers.CharField(read_only=True, help_text="The check in words.")

    class Meta:
        model = QualityCheck
        fields = (
            "key",
            "dataset",
            "dataset_name",
            "name",
            "kind",
            "arguments",
            "severity",
            "description",
            "active",
            "summary",
            "version",
            "updated_at",
        )


class QualityCheckChange(ChangeSerializer):
    name = serializers.CharField(max_length=100, required=False)
    arguments = serializers.DictField(
        required=False, help_text="Arguments of the kind, for example columns, minimum and maximum."
    )
    severity = serializers.ChoiceField(choices=list(check_kinds.SEVERITIES.items()), required=False)
    description = serializers.CharField(required=False, allow_blank=True, max_length=MAX_TEXT)


class NewQualityCheck(QualityCheckChange):
    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(choices=[(name, kind.label) for name, kind in check_kinds.KINDS.items()])

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {"arguments": {}} | attrs


@extend_schema_view(
    create=extend_schema(description="Create a check; the dataset's next load runs it."),
    partial_update=extend_schema(description="Change a check; its kind stays."),
)
class QualityCheckViewSet(Deletable):
    """Quality checks that loads run on the rows of datasets."""

    queryset = QualityCheck.objects.none()
    serializer_class = QualityCheckSerializer
    create_serializer, change_serializer = NewQualityCheck, QualityCheckChange
    subject = "check"
    creating, updating, deleting = staticmethod(create_check), staticmethod(update_check), staticmethod(delete_check)
    may_match = Deletable.may_match | {"retire", "restore"}
    filterset_class = QualityCheckFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[QualityCheck]:
        return QualityCheck.objects.select_related("dataset__schema").order_by("dataset_id", "name", "pk")

    @extend_schema(request=NoParametersSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def retire(self, request: Request, key: UUID) -> Response:
        """Retire a check; loads no longer run it, its results stay."""
        return self.verb(retire_check)

    @extend_schema(request=NoParametersSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def restore(self, request: Request, key: UUID) -> Response:
        """Restore a check, if it is valid for the current columns."""
        return self.verb(unretire_check)
