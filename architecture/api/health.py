"""API of findings about metadata."""

from django.db.models import QuerySet
from rest_framework import serializers

from architecture.filtersets import FindingFilter
from architecture.models import HealthFinding
from architecture.selectors.health import findings, link_of
from elevata.api.resources import ReadOnly


class HealthFindingSerializer(serializers.ModelSerializer):
    """Finding about a dataset or a column. ``field`` is where it is corrected, ``fix`` a safe change, if any.

    ``link`` is the path of the page with that field.
    """

    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)
    column = serializers.UUIDField(source="column.key", read_only=True, default=None, allow_null=True)
    column_name = serializers.CharField(source="column.name", read_only=True, default="")

    link = serializers.SerializerMethodField()

    class Meta:
        model = HealthFinding
        fields = (
            "id",
            "code",
            "severity",
            "text",
            "dataset",
            "dataset_name",
            "column",
            "column_name",
            "field",
            "link",
            "fix",
        )

    def get_link(self, finding: HealthFinding) -> str:
        return link_of(finding)


class HealthViewSet(ReadOnly):
    """Findings about metadata, the most severe first."""

    queryset = HealthFinding.objects.none()
    serializer_class = HealthFindingSerializer
    filterset_class = FindingFilter

    def get_queryset(self) -> QuerySet[HealthFinding]:
        return findings()
