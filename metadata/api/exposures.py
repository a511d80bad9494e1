"""API of exposures: consumers of datasets."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers

from elevata.api.requests import ChangeSerializer
from elevata.api.resources import Deletable
from elevata.core.lengths import MAX_TEXT
from metadata.filtersets import ExposureFilter
from metadata.models import Exposure, TargetDataset
from metadata.models.exposures import KINDS
from metadata.services.exposures import create_exposure, delete_exposure, update_exposure


class ExposureSerializer(serializers.ModelSerializer):
    """Exposure with its dataset."""

    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)

    class Meta:
        model = Exposure
        fields = (
            "key",
            "dataset",
            "dataset_name",
            "name",
            "kind",
            "owner",
            "link",
            "description",
            "version",
            "updated_at",
        )


class ExposureChange(ChangeSerializer):
    name = serializers.CharField(max_length=200, required=False)
    kind = serializers.ChoiceField(choices=KINDS, required=False)
    owner = serializers.CharField(max_length=200, required=False)
    link = serializers.CharField(max_length=1000, required=False, help_text="An http address or a path.")
    description = serializers.CharField(required=False, allow_blank=True, max_length=MAX_TEXT)


class NewExposure(ExposureChange):
    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    name = serializers.CharField(max_length=200)
    kind = serializers.ChoiceField(choices=KINDS)
    owner = serializers.CharField(max_length=200)
    link = serializers.CharField(max_length=1000, help_text="An http address or a path.")


@extend_schema_view(
    create=extend_schema(description="Create an exposure; reports that break the dataset's contract name it."),
    partial_update=extend_schema(description="Change an exposure."),
)
class ExposureViewSet(Deletable):
    """Consumers of datasets: dashboards, notebooks, files and applications."""

    queryset = Exposure.objects.none()
    serializer_class = ExposureSerializer
    create_serializer, change_serializer = NewExposure, ExposureChange
    subject = "exposure"
    creating, updating = staticmethod(create_exposure), staticmethod(update_exposure)
    deleting = staticmethod(delete_exposure)
    filterset_class = ExposureFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[Exposure]:
        return Exposure.objects.select_related("dataset__schema").order_by("dataset_id", "name", "pk")
