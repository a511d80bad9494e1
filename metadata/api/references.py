"""References between datasets: read, made, put out of use and brought back."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metadata import dependents
from metadata.api.lineage import RETIRE, ImpactSerializer
from metadata.api.resources import Made
from metadata.api.serializers import ReferenceSerializer
from metadata.api.strict_fields import ChangeSerializer, NothingSerializer, StrictSerializer
from metadata.domain import naming
from metadata.filtersets import ReferenceFilter
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.selectors import references
from metadata.services.references import create_reference, retire_reference, unretire_reference


class ReferenceRowSerializer(ReferenceSerializer):
    """A reference by itself: with the names of its ends and of the column that follows from it."""

    child_name = serializers.CharField(source="child", read_only=True)
    parent_name = serializers.CharField(source="parent", read_only=True)
    column = serializers.SerializerMethodField(help_text="The foreign key's column in the child.")

    class Meta(ReferenceSerializer.Meta):
        fields = (*ReferenceSerializer.Meta.fields, "child_name", "parent_name", "column", "version", "updated_at")

    def get_column(self, reference: Reference) -> str:
        return naming.foreign_key_name(reference.role_name, reference.parent.name)


class PairSerializer(StrictSerializer):
    """A column of the child that holds a column of the parent's business key; both by name."""

    child_column = serializers.CharField(max_length=200)
    parent_column = serializers.CharField(max_length=200)


class NewReference(ChangeSerializer):
    child = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    parent = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    role_name = serializers.CharField(required=False, allow_blank=True, max_length=100)
    pairs = PairSerializer(many=True, allow_empty=False, max_length=100)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The pairs as columns that are in use."""
        ends = {side: _in_use(attrs[side]) for side in ("child", "parent")}
        found = []
        for pair in attrs["pairs"]:
            sides = [_named(ends[side], attrs[side], pair[f"{side}_column"]) for side in ("child", "parent")]
            found.append(tuple(sides))
        return attrs | {"pairs": found}


def _in_use(dataset: TargetDataset) -> dict[str, TargetColumn]:
    return {column.name: column for column in dataset.columns.filter(active=True).select_related("dataset__schema")}


def _named(columns: dict[str, TargetColumn], dataset: TargetDataset, name: str) -> TargetColumn:
    if name not in columns:
        raise serializers.ValidationError({"pairs": [f"{dataset} has no column {name!r} in use."]})
    return columns[name]


@extend_schema_view(
    create=extend_schema(description="Let one dataset refer to another by its business key."),
)
class ReferenceViewSet(Made):
    """References: the rows of one dataset refer to rows of another."""

    queryset = Reference.objects.none()
    serializer_class = ReferenceRowSerializer
    create_serializer = NewReference
    may_match = frozenset({"retire", "restore"})
    filterset_class = ReferenceFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[Reference]:
        return references()

    def make(self, **given: Any) -> Reference:
        return create_reference(**given)

    @extend_schema(request=NothingSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def retire(self, request: Request, key: UUID) -> Response:
        """Take it out of use; its column stays in tables, and no load fills it."""
        return self.verb(
            lambda row, reason: retire_reference(reference=row, expected_version=row.version, reason=reason)
        )

    @extend_schema(request=NothingSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def restore(self, request: Request, key: UUID) -> Response:
        """Bring it back into use, if it holds as the columns are now."""
        return self.verb(
            lambda row, reason: unretire_reference(reference=row, expected_version=row.version, reason=reason)
        )

    @extend_schema(responses=ImpactSerializer, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def impact(self, request: Request, key: UUID) -> Response:
        """Return the effects of retiring it; nothing is changed.

        No rows flow through a reference, so nothing is downstream.
        """
        touched = dependents.of_reference_retirement(self.get_object())
        told = {"change": RETIRE, "name": "", "refused": False, "dependents": touched, "downstream": []}
        return Response(ImpactSerializer(told).data)
