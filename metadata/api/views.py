"""The API of metadata. Rows are found by their stable key (systems and schemas by their name)."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metadata.api.bulk import Bulk
from metadata.api.bulk_columns import lock_datasets, write_columns
from metadata.api.inputs import (
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
from metadata.api.resources import NAME, Deletable, Editable, Lasting
from metadata.api.serializers import (
    DatasetListSerializer,
    DatasetSerializer,
    LineageSerializer,
    SchemaSerializer,
    SourceColumnRowSerializer,
    SourceDatasetListSerializer,
    SourceDatasetSerializer,
    SystemSerializer,
    TargetColumnSerializer,
)
from metadata.api.strict_fields import NothingSerializer
from metadata.computed_fields import details, stable_keys
from metadata.filtersets import (
    ColumnFilter,
    DatasetFilter,
    SchemaFilter,
    SourceColumnFilter,
    SourceDatasetFilter,
    SystemFilter,
)
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors import (
    lineage,
    schemas,
    source_columns,
    source_dataset_detail,
    source_datasets,
    systems,
    target_columns,
    target_datasets,
)
from metadata.services.deletion import delete_column, delete_dataset, delete_schema, delete_system
from metadata.services.generation import generate_targets
from metadata.services.lifecycle import (
    rename_column,
    rename_dataset,
    retire_column,
    retire_dataset,
    unretire_column,
    unretire_dataset,
)
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    create_system,
    update_source_column,
    update_source_dataset,
    update_system,
)
from metadata.services.targets import (
    create_schema,
    create_target_column,
    create_target_dataset,
    set_dataset_inputs,
    update_schema,
    update_target_column,
    update_target_dataset,
)


@extend_schema_view(
    create=extend_schema(description="Register a system."),
    partial_update=extend_schema(description="Change a system."),
)
class SystemViewSet(Bulk, Deletable):
    """Systems that deliver data."""

    queryset = System.objects.none()
    serializer_class = SystemSerializer
    create_serializer = change_serializer = SystemChange
    known_by = "short_name"
    filterset_class = SystemFilter
    lookup_field = "short_name"
    lookup_value_regex = NAME

    def get_queryset(self) -> QuerySet[System]:
        return systems()

    def make(self, **given: Any) -> System:
        return create_system(**given)

    def change(self, row: System, expected_version: int, **given: Any) -> System:
        return update_system(system=row, expected_version=expected_version, **given)

    def erase(self, row: System, expected_version: int, reason: str) -> None:
        delete_system(system=row, expected_version=expected_version, reason=reason)


@extend_schema_view(
    create=extend_schema(description="Describe what a system delivers."),
    partial_update=extend_schema(description="Change the contract; targets follow when they are generated again."),
)
class SourceDatasetViewSet(Bulk, Editable):
    """Source datasets: contracts of what is delivered."""

    queryset = SourceDataset.objects.none()
    serializer_class = SourceDatasetSerializer
    list_serializer_class = SourceDatasetListSerializer
    create_serializer, change_serializer = NewSourceDataset, SourceDatasetChange
    may_match = Editable.may_match | {"generate"}
    filterset_class = SourceDatasetFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[SourceDataset]:
        return source_datasets() if self.action == "list" else source_dataset_detail()

    def make(self, **given: Any) -> SourceDataset:
        return create_source_dataset(**given)

    def change(self, row: SourceDataset, expected_version: int, **given: Any) -> SourceDataset:
        return update_source_dataset(source_dataset=row, expected_version=expected_version, **given)

    @extend_schema(request=NothingSerializer, responses=SourceDatasetSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def generate(self, request: Request, key: UUID) -> Response:
        """Make or bring up to date raw, stage, rawcore and history of it. Again, it changes nothing."""
        return self.verb(lambda row, reason: generate_targets(source_dataset=row))


@extend_schema_view(
    create=extend_schema(description="Add a column to a contract."),
    partial_update=extend_schema(description="Change a column; ``active: false`` puts it out of use."),
)
class SourceColumnViewSet(Bulk, Editable):
    """Columns that source datasets promise to deliver."""

    queryset = SourceColumn.objects.none()
    serializer_class = SourceColumnRowSerializer
    create_serializer, change_serializer = NewSourceColumn, SourceColumnChange
    filterset_class = SourceColumnFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[SourceColumn]:
        return source_columns()

    def make(self, **given: Any) -> SourceColumn:
        return create_source_column(**given)

    def change(self, row: SourceColumn, expected_version: int, **given: Any) -> SourceColumn:
        return update_source_column(source_column=row, expected_version=expected_version, **given)


@extend_schema_view(
    create=extend_schema(description="Make a schema."),
    partial_update=extend_schema(description="Change a schema."),
)
class SchemaViewSet(Bulk, Deletable):
    """Schemas of the warehouse, each in one layer."""

    queryset = TargetSchema.objects.none()
    serializer_class = SchemaSerializer
    create_serializer = change_serializer = SchemaChange
    known_by = "name"
    filterset_class = SchemaFilter
    lookup_field = "name"
    lookup_value_regex = NAME

    def get_queryset(self) -> QuerySet[TargetSchema]:
        return schemas()

    def make(self, **given: Any) -> TargetSchema:
        return create_schema(**given)

    def change(self, row: TargetSchema, expected_version: int, **given: Any) -> TargetSchema:
        return update_schema(schema=row, expected_version=expected_version, **given)

    def erase(self, row: TargetSchema, expected_version: int, reason: str) -> None:
        delete_schema(schema=row, expected_version=expected_version, reason=reason)


@extend_schema_view(
    create=extend_schema(description="Describe a dataset."),
    partial_update=extend_schema(description="Change what a dataset is. Its name is changed by ``rename``."),
)
class DatasetViewSet(Bulk, Lasting):
    """Target datasets, history included."""

    queryset = TargetDataset.objects.none()
    serializer_class = DatasetSerializer
    list_serializer_class = DatasetListSerializer
    create_serializer, change_serializer = NewDataset, DatasetChange
    may_match = Lasting.may_match | {"inputs"}
    subject = "dataset"
    renaming, retiring = staticmethod(rename_dataset), staticmethod(retire_dataset)
    restoring, erasing = staticmethod(unretire_dataset), staticmethod(delete_dataset)
    filterset_class = DatasetFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[TargetDataset]:
        return target_datasets() if self.action in ("list", "lineage") else details()

    def make(self, **given: Any) -> TargetDataset:
        return create_target_dataset(**given | {"inputs": datasets_named(given.pop("inputs", []))})

    def change(self, row: TargetDataset, expected_version: int, **given: Any) -> TargetDataset:
        return update_target_dataset(dataset=row, expected_version=expected_version, **given)

    @extend_schema(request=InputsSerializer, responses=DatasetSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def inputs(self, request: Request, key: UUID) -> Response:
        """Set what it reads."""
        return self.verb(
            lambda row, reason, inputs: set_dataset_inputs(
                dataset=row, expected_version=row.version, inputs=datasets_named(inputs)
            ),
            InputsSerializer,
        )

    @extend_schema(responses=LineageSerializer, filters=False)
    @action(detail=True, pagination_class=None, filterset_class=None, filter_backends=())
    def lineage(self, request: Request, key: UUID) -> Response:
        """Everything upstream and downstream of a dataset, and what these refer to."""
        found = lineage(self.get_object())
        keys = stable_keys(found)
        nodes = [
            {
                "key": keys[node.id],
                "kind": node.kind,
                "name": node.label,
                "layer": node.layer,
                "active": node.active,
                "distance": node.distance,
            }
            for node in found.nodes
        ]
        edges = [
            {"start": keys[edge.start], "end": keys[edge.end], "kind": edge.kind, "label": edge.label}
            for edge in found.edges
        ]
        return Response(LineageSerializer({"nodes": nodes, "edges": edges}).data)


@extend_schema_view(
    create=extend_schema(description="Add a column to a dataset."),
    partial_update=extend_schema(description="Change what a column is. Its name is changed by ``rename``."),
)
class ColumnViewSet(Bulk, Lasting):
    """Described columns of target datasets. Computed ones are with their dataset."""

    queryset = TargetColumn.objects.none()
    serializer_class = TargetColumnSerializer
    create_serializer, change_serializer = NewColumn, ColumnChange
    subject = "column"
    renaming, retiring = staticmethod(rename_column), staticmethod(retire_column)
    restoring, erasing = staticmethod(unretire_column), staticmethod(delete_column)
    filterset_class = ColumnFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[TargetColumn]:
        return target_columns()

    def make(self, **given: Any) -> TargetColumn:
        return create_target_column(**given)

    def change(self, row: TargetColumn, expected_version: int, **given: Any) -> TargetColumn:
        return update_target_column(column=row, expected_version=expected_version, **given)

    def lock(self, given: Any) -> None:
        lock_datasets(given)

    def many(self, run: Any, made: Any, changed: Any) -> None:
        write_columns(run, made, changed)
