"""API of sensitive columns, for stewards and administrators."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers

from elevata.accounts.roles import Permission
from elevata.api.resources import ReadOnly, permitted_to
from metadata.models import SourceColumn, TargetColumn
from metadata.selectors import sensitive_columns as selectors
from metadata.selectors.sensitive_columns import CLASSES
from metadata.selectors.sensitive_details import detailed
from metadata.selectors.sensitive_filters import SensitiveColumnFilter, SensitiveSourceColumnFilter


class CopySerializer(serializers.Serializer):
    """Column downstream that has the values, or is computed from them."""

    dataset = serializers.CharField()
    column = serializers.CharField(source="name")
    layer = serializers.CharField()


class LastReadSerializer(serializers.Serializer):
    """Newest recorded read of values without a mask."""

    at = serializers.DateTimeField()
    actor = serializers.CharField()
    kind = serializers.CharField()


class SensitiveSerializer(serializers.Serializer):
    """Sensitive column: classes, owner, copies, readers without a mask, and last read."""

    key = serializers.UUIDField(source="column.key")
    name = serializers.CharField(source="column.name")
    dataset = serializers.CharField(source="column.dataset")
    dataset_key = serializers.UUIDField(source="column.dataset.key")
    active = serializers.BooleanField(source="column.active")
    classes = serializers.ListField(child=serializers.ChoiceField(choices=CLASSES))
    owner = serializers.CharField(
        allow_blank=True, help_text="Owner of the column, its dataset, or its schema or system: the first that is set."
    )
    copies = CopySerializer(many=True)
    readers = serializers.ListField(child=serializers.CharField())
    last_read = LastReadSerializer(allow_null=True)
    all_reads_searched = serializers.BooleanField(
        source="searched", help_text="False if older recorded reads were not searched for the last one."
    )


class SensitiveColumns(ReadOnly):
    """Base of resources of sensitive columns."""

    serializer_class = SensitiveSerializer
    lookup_field = "key"
    lookup_value_converter = "uuid"
    needs: ClassVar = dict.fromkeys(
        ("list", "retrieve"), permitted_to(Permission.READ_SENSITIVE, Permission.MANAGE_USERS)
    )

    def paginate_queryset(self, queryset: Any) -> list[Any] | None:
        page = super().paginate_queryset(queryset)
        return None if page is None else detailed(page)

    def get_object(self) -> Any:
        (row,) = detailed([super().get_object()])
        return row


class SensitiveColumnViewSet(SensitiveColumns):
    """Sensitive columns of the warehouse."""

    queryset = TargetColumn.objects.none()
    filterset_class = SensitiveColumnFilter

    def get_queryset(self) -> QuerySet[TargetColumn]:
        return selectors.target_columns(self.request.user)


class SensitiveSourceColumnViewSet(SensitiveColumns):
    """Sensitive columns of sources."""

    queryset = SourceColumn.objects.none()
    filterset_class = SensitiveSourceColumnFilter

    def get_queryset(self) -> QuerySet[SourceColumn]:
        return selectors.source_columns(self.request.user)
