"""API of copies: copies of datasets in other databases and folders, with their last results."""

from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers

from architecture.services.environments import current_environment
from elevata.api.requests import ChangeSerializer
from elevata.api.resources import Deletable
from loader.models import CopyState
from metadata.filtersets import CopyFilter
from metadata.models import DatasetCopy, System, TargetDataset
from metadata.models.copies import MODES, SENSITIVE
from metadata.services.copies import create_copy, delete_copy, update_copy


class CopyStateSerializer(serializers.ModelSerializer):
    """Last result of a copy in this environment; the facts are those of the copy in the target."""

    run_id = serializers.CharField(source="run.run_id", read_only=True, default="")

    class Meta:
        model = CopyState
        fields = (
            *("status", "table", "version", "row_count", "checksum", "mode", "copied_at", "tried_at", "seconds"),
            *("run_id", "findings", "error"),
        )


class DatasetCopySerializer(serializers.ModelSerializer):
    """Copy with its dataset and last result; ``table`` is empty for the dataset's own name."""

    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    dataset_name = serializers.CharField(source="dataset", read_only=True)
    to = serializers.CharField(source="system.short_name", read_only=True)
    state = serializers.SerializerMethodField()

    class Meta:
        model = DatasetCopy
        fields = (
            *("key", "dataset", "dataset_name", "to", "table", "mode", "sensitive", "state", "version", "updated_at"),
        )

    @extend_schema_field(CopyStateSerializer(allow_null=True))
    def get_state(self, row: DatasetCopy) -> dict[str, Any] | None:
        state = self._states.get(row.key)
        return CopyStateSerializer(state).data if state is not None else None

    @cached_property
    def _states(self) -> dict[UUID, CopyState]:
        """Return the results of all copies, read once for an answer."""
        rows = CopyState.objects.filter(environment=current_environment()).select_related("run")
        return {state.copy_key: state for state in rows}


class CopyChange(ChangeSerializer):
    table = serializers.CharField(
        max_length=310, required=False, allow_blank=True, help_text="Schema and name, by default those of the dataset."
    )
    mode = serializers.ChoiceField(choices=MODES, required=False)
    sensitive = serializers.ChoiceField(
        choices=SENSITIVE, required=False, help_text="Sensitive columns; other than leave_out needs an executed report."
    )


class NewCopy(CopyChange):
    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    to = serializers.SlugRelatedField(slug_field="short_name", queryset=System.objects.all(), help_text="System.")


@extend_schema_view(
    create=extend_schema(description="Create a copy; the next load of the dataset makes it."),
    partial_update=extend_schema(description="Change a copy; its system stays."),
)
class CopyViewSet(Deletable):
    """Copies of datasets in other databases and folders."""

    queryset = DatasetCopy.objects.none()
    serializer_class = DatasetCopySerializer
    create_serializer, change_serializer = NewCopy, CopyChange
    subject = "copy"
    creating, updating = staticmethod(create_copy), staticmethod(update_copy)
    deleting = staticmethod(delete_copy)
    filterset_class = CopyFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[DatasetCopy]:
        return DatasetCopy.objects.select_related("dataset__schema", "system").order_by("dataset_id", "pk")
