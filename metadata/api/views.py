"""API of metadata. Rows are identified by their stable key (systems and schemas by their name)."""

from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.api.requests import NoParametersSerializer
from elevata.api.resources import NAME, Deletable, Editable, Lasting
from elevata.audit.services.transactions import writing
from metadata.api.access import HasAccess
from metadata.api.bulk import Bulk
from metadata.api.bulk_columns import lock_datasets, write_columns
from metadata.api.change_serializers import (
    CloneRequest,
    ColumnChange,
    DatasetChange,
    InputsSerializer,
    NewColumn,
    NewDataset,
    NewSourceColumn,
    NewSourceDataset,
    SchemaChange,
    SourceColumnChange,
    SourceDatasetChange,
    SystemChange,
    datasets_named,
)
from metadata.api.model_serializers import ModelSerializer, SelectSerializer, model_document
from metadata.api.serializers import (
    DatasetListSerializer,
    DatasetSerializer,
    SchemaSerializer,
    SourceColumnRowSerializer,
    SourceDatasetListSerializer,
    SourceDatasetSerializer,
    SystemGenerationRequest,
    SystemGenerationSerializer,
    SystemSerializer,
    TargetColumnSerializer,
)
from metadata.filtersets import (
    ColumnFilter,
    DatasetFilter,
    SchemaFilter,
    SourceColumnFilter,
    SourceDatasetFilter,
    SystemFilter,
)
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.columns import details
from metadata.selectors.datasets import (
    schemas,
    source_columns,
    source_dataset_detail,
    source_datasets,
    systems,
    target_columns,
    target_datasets,
)
from metadata.services.datasets.cloning import clone_dataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.generation_preview import generate_system, preview_system
from metadata.services.datasets.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    set_dataset_inputs,
    update_schema,
    update_target_column,
    update_target_dataset,
)
from metadata.services.deletion import delete_column, delete_dataset, delete_schema, delete_system
from metadata.services.lifecycle import (
    rename_column,
    rename_dataset,
    retire_column,
    retire_dataset,
    unretire_column,
    unretire_dataset,
)
from metadata.services.models import describe_model
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    create_system,
    update_source_column,
    update_source_dataset,
    update_system,
)


@extend_schema_view(
    create=extend_schema(description="Register a system."),
    partial_update=extend_schema(description="Change a system."),
)
class SystemViewSet(HasAccess, Bulk, Deletable):
    """Systems that deliver data."""

    queryset = System.objects.none()
    serializer_class = SystemSerializer
    create_serializer = change_serializer = SystemChange
    subject, creating = "system", staticmethod(create_system)
    updating, deleting = staticmethod(update_system), staticmethod(delete_system)
    known_by = "short_name"
    filterset_class = SystemFilter
    lookup_field = "short_name"
    lookup_value_regex = NAME

    def get_queryset(self) -> QuerySet[System]:
        return systems()

    @extend_schema(request=SystemGenerationRequest, responses=SystemGenerationSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def generate(self, request: Request, short_name: str) -> Response:
        """Generate or update the targets of all its sources together; those that cannot be are left out."""
        system = self.get_object()
        values, reason = self.given(SystemGenerationRequest)
        if values["check"]:
            sources = preview_system(system)
        else:
            with writing(reason):
                sources = generate_system(system=system)
        return Response(SystemGenerationSerializer(values | {"sources": sources}).data)


@extend_schema_view(
    create=extend_schema(description="Create a source dataset."),
    partial_update=extend_schema(description="Change the contract; generate targets to update them."),
)
class SourceDatasetViewSet(Bulk, Editable):
    """Source datasets: contracts of deliveries."""

    queryset = SourceDataset.objects.none()
    serializer_class = SourceDatasetSerializer
    list_serializer_class = SourceDatasetListSerializer
    create_serializer, change_serializer = NewSourceDataset, SourceDatasetChange
    subject = "source_dataset"
    creating, updating = staticmethod(create_source_dataset), staticmethod(update_source_dataset)
    may_match = Editable.may_match | {"generate"}
    filterset_class = SourceDatasetFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[SourceDataset]:
        return source_datasets() if self.action == "list" else source_dataset_detail()

    @extend_schema(request=NoParametersSerializer, responses=SourceDatasetSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def generate(self, request: Request, key: UUID) -> Response:
        """Generate or update its raw, stage, rawcore and history datasets. A repeated request changes nothing."""
        return self.verb(lambda source_dataset, expected_version: generate_targets(source_dataset=source_dataset))


@extend_schema_view(
    create=extend_schema(description="Add a column to a contract."),
    partial_update=extend_schema(description="Change a column; ``active: false`` retires it."),
)
class SourceColumnViewSet(Bulk, Editable):
    """Columns of source datasets."""

    queryset = SourceColumn.objects.none()
    serializer_class = SourceColumnRowSerializer
    create_serializer, change_serializer = NewSourceColumn, SourceColumnChange
    subject = "source_column"
    creating, updating = staticmethod(create_source_column), staticmethod(update_source_column)
    filterset_class = SourceColumnFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[SourceColumn]:
        return source_columns()


@extend_schema_view(
    create=extend_schema(description="Create a schema."),
    partial_update=extend_schema(description="Change a schema."),
)
class SchemaViewSet(HasAccess, Bulk, Deletable):
    """Schemas of the warehouse, each in one layer."""

    queryset = TargetSchema.objects.none()
    serializer_class = SchemaSerializer
    create_serializer = change_serializer = SchemaChange
    subject, creating = "schema", staticmethod(create_schema)
    updating, deleting = staticmethod(update_schema), staticmethod(delete_schema)
    known_by = "name"
    filterset_class = SchemaFilter
    lookup_field = "name"
    lookup_value_regex = NAME

    def get_queryset(self) -> QuerySet[TargetSchema]:
        return schemas()


@extend_schema_view(
    create=extend_schema(description="Create a dataset."),
    partial_update=extend_schema(description="Change a dataset. Rename it with ``rename``."),
)
class DatasetViewSet(HasAccess, Bulk, Lasting):
    """Target datasets, history included."""

    queryset = TargetDataset.objects.none()
    serializer_class = DatasetSerializer
    list_serializer_class = DatasetListSerializer
    create_serializer, change_serializer = NewDataset, DatasetChange
    may_match = Lasting.may_match | {"inputs"}
    subject = "dataset"
    creating, updating = staticmethod(create_target_dataset), staticmethod(update_target_dataset)
    renaming, retiring = staticmethod(rename_dataset), staticmethod(retire_dataset)
    restoring, deleting = staticmethod(unretire_dataset), staticmethod(delete_dataset)
    filterset_class = DatasetFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[TargetDataset]:
        return target_datasets() if self.action in ("list", "lineage") else details()

    def make(self, *args: Any, **given: Any) -> Model:
        return super().make(**given | {"inputs": datasets_named(given.pop("inputs", []))})

    def change(self, row: Any, expected_version: int, **given: Any) -> Model:
        return super().change(row, expected_version, **{"quoted_name": False} | given)

    @extend_schema(request=InputsSerializer, responses=DatasetSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def inputs(self, request: Request, key: UUID) -> Response:
        """Set the inputs."""
        return self.verb(
            lambda inputs, **row: set_dataset_inputs(inputs=datasets_named(inputs), **row),
            InputsSerializer,
        )

    @extend_schema(request=CloneRequest, responses={201: DatasetSerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def clone(self, request: Request, key: UUID) -> Response:
        """Copy it with columns, inputs, expressions and checks, under keys of their own and without former names."""
        row = self.get_object()
        values, reason = self.given(CloneRequest)
        return self.created(clone_dataset(dataset=row, reason=reason, **values))

    @extend_schema(request=SelectSerializer, responses=ModelSerializer)
    @action(detail=False, methods=["post"], filter_backends=(), pagination_class=None)
    def describe(self, request: Request) -> Response:
        """Return the columns, types and lineage of a SELECT, without saving it."""
        values, _ = self.given(SelectSerializer)
        described, _ = describe_model(values["select"], where=values["dataset"])
        return Response(ModelSerializer(model_document(described)).data)


@extend_schema_view(
    create=extend_schema(description="Add a column to a dataset."),
    partial_update=extend_schema(description="Change a column. Rename it with ``rename``."),
)
class ColumnViewSet(Bulk, Lasting):
    """Columns of target datasets. Computed ones are with their dataset."""

    queryset = TargetColumn.objects.none()
    serializer_class = TargetColumnSerializer
    create_serializer, change_serializer = NewColumn, ColumnChange
    subject = "column"
    creating, updating = staticmethod(create_target_column), staticmethod(update_target_column)
    renaming, retiring = staticmethod(rename_column), staticmethod(retire_column)
    restoring, deleting = staticmethod(unretire_column), staticmethod(delete_column)
    filterset_class = ColumnFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[TargetColumn]:
        return target_columns()

    def lock(self, given: Any) -> None:
        lock_datasets(given)

    def many(self, run: Any, made: Any, changed: Any) -> None:
        write_columns(run, made, changed)
