"""API of references between datasets: read, create, retire and restore."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.api.requests import ChangeSerializer, NoParametersSerializer, StrictSerializer
from elevata.api.resources import Editable
from metadata.api.lineage import RETIRE, ImpactSerializer
from metadata.api.serializers import ReferenceSerializer
from metadata.domain import naming
from metadata.domain.quality import unknown_parents
from metadata.filtersets import ReferenceFilter
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.selectors import dependents
from metadata.selectors.datasets import references
from metadata.services.references import create_reference, retire_reference, unretire_reference, update_reference


class ReferenceRowSerializer(ReferenceSerializer):
    """Reference with the names of its ends and of its foreign-key column."""

    child_name = serializers.CharField(source="child", read_only=True)
    parent_name = serializers.CharField(source="parent", read_only=True)
    column = serializers.SerializerMethodField(help_text="The foreign key's column in the child.")

    class Meta(ReferenceSerializer.Meta):
        fields = (*ReferenceSerializer.Meta.fields, "child_name", "parent_name", "column", "version", "updated_at")

    def get_column(self, reference: Reference) -> str:
        return naming.foreign_key_name(reference.role_name, reference.parent.name)


class PairSerializer(StrictSerializer):
    """Names of a column of the child and of the column of the parent's business key that it refers to."""

    child_column = serializers.CharField(max_length=200)
    parent_column = serializers.CharField(max_length=200)


class ReferenceChange(ChangeSerializer):
    unknown_parent = serializers.ChoiceField(
        choices=list(unknown_parents.RULES.items()),
        required=False,
        help_text="Rule for foreign keys that the parent does not have.",
    )


class NewReference(ReferenceChange):
    child = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    parent = serializers.SlugRelatedField(  # type: ignore[assignment]  # a field of the request
        slug_field="key", queryset=TargetDataset.objects.select_related("schema")
    )
    role_name = serializers.CharField(required=False, allow_blank=True, max_length=100)
    pairs = PairSerializer(many=True, allow_empty=False, max_length=100)  # type: ignore[call-arg]  # of many

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with pairs of active columns in place of pairs of names."""
        ends = {side: _active_columns(attrs[side]) for side in ("child", "parent")}
        pairs = []
        for pair in attrs["pairs"]:
            sides = [_column(ends[side], attrs[side], pair[f"{side}_column"]) for side in ("child", "parent")]
            pairs.append(tuple(sides))
        return attrs | {"pairs": pairs}


def _active_columns(dataset: TargetDataset) -> dict[str, TargetColumn]:
    return {column.name: column for column in dataset.columns.filter(active=True).select_related("dataset__schema")}


def _column(columns: dict[str, TargetColumn], dataset: TargetDataset, name: str) -> TargetColumn:
    if name not in columns:
        raise serializers.ValidationError({"pairs": [f"{dataset} has no active column {name!r}."]})
    return columns[name]


@extend_schema_view(
    create=extend_schema(description="Create a reference to another dataset by its business key."),
    partial_update=extend_schema(description="Change the rule for unknown parents."),
)
class ReferenceViewSet(Editable):
    """References from one dataset's rows to another's."""

    queryset = Reference.objects.none()
    serializer_class = ReferenceRowSerializer
    create_serializer, change_serializer = NewReference, ReferenceChange
    subject = "reference"
    creating, updating = staticmethod(create_reference), staticmethod(update_reference)
    may_match = Editable.may_match | {"retire", "restore"}
    filterset_class = ReferenceFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[Reference]:
        return references()

    @extend_schema(request=NoParametersSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def retire(self, request: Request, key: UUID) -> Response:
        """Retire a reference; tables keep its column, loads no longer fill it."""
        return self.verb(retire_reference)

    @extend_schema(request=NoParametersSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def restore(self, request: Request, key: UUID) -> Response:
        """Restore a reference, if its columns still match."""
        return self.verb(unretire_reference)

    @extend_schema(responses=ImpactSerializer, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def impact(self, request: Request, key: UUID) -> Response:
        """Return the effects of retiring the reference; nothing is changed.

        ``downstream`` is empty, because no rows flow through a reference.
        """
        affected = dependents.of_reference_retirement(self.get_object())
        impact = {"change": RETIRE, "name": "", "refused": False, "dependents": affected, "downstream": []}
        return Response(ImpactSerializer(impact).data)
