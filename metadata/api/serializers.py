"""Serializers of metadata for requests and responses."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from elevata.api.requests import ChangeSerializer
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.history.load_types import LOAD_TYPES, load_type
from metadata.models import (
    ColumnInput,
    Reference,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.selectors.columns import retired_columns, shown_columns
from metadata.services.datasets.targets import KEEPING

DATASET_KINDS = ("source", "target")


class SystemSerializer(serializers.ModelSerializer):
    dataset_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = System
        fields = (
            "short_name",
            "name",
            "kind",
            "location",
            "secret",
            "options",
            "active",
            "description",
            "owner",
            "tags",
            "dataset_count",
            "version",
            "updated_at",
        )


class SystemGenerationRequest(ChangeSerializer):
    check = serializers.BooleanField(default=False, help_text="Only say what would change; nothing is written.")


class GeneratedTargetSerializer(serializers.Serializer):
    """Effect of a generation on one dataset; names of columns."""

    key = serializers.UUIDField()
    name = serializers.CharField()
    status = serializers.ChoiceField(choices=("new", "changes", "same", "retires", "returns"))
    added = serializers.ListField(child=serializers.CharField())
    retired = serializers.ListField(child=serializers.CharField())
    returned = serializers.ListField(child=serializers.CharField())


class SourceGenerationSerializer(serializers.Serializer):
    """Effect of a generation on the targets of one source; ``problem`` is the reason why it is left out."""

    source_dataset = serializers.UUIDField(source="source.key")
    name = serializers.CharField(source="source")
    datasets = GeneratedTargetSerializer(many=True)
    problem = serializers.CharField(source="reason", allow_blank=True)


class SystemGenerationSerializer(serializers.Serializer):
    """Result of the generation of a system, or, with ``check``, its preview."""

    check = serializers.BooleanField()
    sources = SourceGenerationSerializer(many=True)


class SourceColumnSerializer(serializers.ModelSerializer):
    type = serializers.CharField(read_only=True)

    class Meta:
        model = SourceColumn
        fields: tuple[str, ...] = (
            "key",
            "name",
            "target_name",
            "ordinal",
            "type",
            "nullable",
            "key_ordinal",
            "integrate",
            "pii",
            "sensitivity",
            "active",
            "description",
        )


class SourceColumnRowSerializer(SourceColumnSerializer):
    """A source column by itself: with the dataset it belongs to."""

    source_dataset = serializers.UUIDField(source="dataset.key", read_only=True)

    class Meta(SourceColumnSerializer.Meta):
        fields = ("source_dataset", *SourceColumnSerializer.Meta.fields, "owner", "tags", "version", "updated_at")


class SourceDatasetListSerializer(serializers.ModelSerializer):
    system = serializers.CharField(source="system.short_name", read_only=True)
    column_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = SourceDataset
        fields: tuple[str, ...] = (
            "key",
            "system",
            "name",
            "short_name",
            "location",
            "format",
            "historize",
            "active",
            "description",
            "column_count",
            "updated_at",
        )


class SourceDatasetSerializer(SourceDatasetListSerializer):
    columns = SourceColumnSerializer(many=True, read_only=True)
    generated = serializers.SerializerMethodField(help_text="Stable keys of the datasets generated from it.")

    class Meta(SourceDatasetListSerializer.Meta):
        fields = (
            *SourceDatasetListSerializer.Meta.fields,
            "options",
            "intake",
            "history_policy",
            "new_columns",
            "owner",
            "tags",
            "version",
            "columns",
            "generated",
        )

    def get_generated(self, source: SourceDataset) -> list[str]:
        return [str(dataset.key) for dataset in source.generated.all()]


class SchemaSerializer(serializers.ModelSerializer):
    dataset_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = TargetSchema
        fields = ("name", "layer", "ordinal", "description", "owner", "tags", "dataset_count", "version")


class DatasetListSerializer(serializers.ModelSerializer):
    """``column_count`` counts described columns; a history's columns are its base's."""

    schema = serializers.CharField(source="schema.name", read_only=True)
    layer = serializers.CharField(source="schema.layer", read_only=True)
    history_of = serializers.UUIDField(source="history_of.key", read_only=True, default=None, allow_null=True)
    source = serializers.UUIDField(  # type: ignore[assignment]  # a field of the response
        source="generated_from.key", read_only=True, default=None, allow_null=True
    )
    column_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = TargetDataset
        fields: tuple[str, ...] = (
            "key",
            "schema",
            "layer",
            "name",
            "former_names",
            "materialization",
            "historize",
            "history_of",
            "source",
            "active",
            "sensitivity",
            "description",
            "column_count",
            "updated_at",
        )


class DatasetInputSerializer(serializers.Serializer):
    """A dataset that is read: a source dataset or a target dataset."""

    kind = serializers.ChoiceField(choices=DATASET_KINDS)
    key = serializers.UUIDField()
    name = serializers.CharField()


class ColumnInputSerializer(serializers.Serializer):
    """A column that is read, and the dataset it belongs to."""

    key = serializers.UUIDField()
    name = serializers.CharField()
    dataset = DatasetInputSerializer()


class ColumnSerializer(serializers.Serializer):
    """``purpose`` is that of a computed column, which has no metadata row."""

    key = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    type = serializers.CharField()
    role = serializers.CharField()
    computed = serializers.BooleanField()
    purpose = serializers.CharField(allow_blank=True)
    nullable = serializers.BooleanField()
    active = serializers.BooleanField()
    key_ordinal = serializers.IntegerField(allow_null=True)
    expression = serializers.CharField(allow_blank=True)
    former_names = serializers.ListField(child=serializers.CharField())
    pii = serializers.BooleanField()
    sensitivity = serializers.CharField(allow_blank=True)
    description = serializers.CharField(allow_blank=True)
    inputs = ColumnInputSerializer(many=True)


class ReferenceSerializer(serializers.ModelSerializer):
    child = serializers.UUIDField(source="child.key", read_only=True)
    parent = serializers.UUIDField(  # type: ignore[assignment]  # a field of the response
        source="parent.key", read_only=True
    )
    pairs = serializers.SerializerMethodField()

    class Meta:
        model = Reference
        fields: tuple[str, ...] = ("key", "child", "parent", "role_name", "unknown_parent", "active", "pairs")

    def get_pairs(self, reference: Reference) -> list[dict[str, str]]:
        return [
            {"child_column": pair.child_column.name, "parent_column": pair.parent_column.name}
            for pair in reference.pairs.all()
        ]


class DatasetSerializer(DatasetListSerializer):
    columns = serializers.SerializerMethodField()
    inputs = serializers.SerializerMethodField()
    references = serializers.SerializerMethodField()
    referenced_by = serializers.SerializerMethodField()
    history = serializers.UUIDField(source="history.key", read_only=True, default=None, allow_null=True)
    load_type = serializers.SerializerMethodField(
        help_text="Of a rawcore table: follows from `history_policy.input` and `historize`."
    )

    class Meta(DatasetListSerializer.Meta):
        fields = (
            *DatasetListSerializer.Meta.fields,
            "filter",
            "select",
            "increment",
            "history_policy",
            "load_type",
            *KEEPING,
            "contract",
            "hash_version",
            "owner",
            "tags",
            "version",
            "history",
            "inputs",
            "columns",
            "references",
            "referenced_by",
        )

    @extend_schema_field(serializers.ChoiceField(choices=list(LOAD_TYPES), allow_null=True))
    def get_load_type(self, dataset: TargetDataset) -> str | None:
        base = dataset.history_of or dataset
        if base.schema.layer != TargetSchema.Layer.RAWCORE or base.materialization != "table":
            return None
        return load_type(HistoryPolicy.from_dict(base.history_policy), historize=base.historize).name

    @extend_schema_field(ColumnSerializer(many=True))
    def get_columns(self, dataset: TargetDataset) -> list[dict]:
        return [_shown(shown.name, shown.type, shown.purpose, shown.column) for shown in shown_columns(dataset)] + [
            _shown(column.name, str(column.type), "", column) for column in retired_columns(dataset)
        ]

    @extend_schema_field(DatasetInputSerializer(many=True))
    def get_inputs(self, dataset: TargetDataset) -> list[dict]:
        if dataset.history_of is not None:
            return [_read(dataset.history_of)]
        return [_read(item.read_dataset) for item in dataset.inputs.all()]

    @extend_schema_field(ReferenceSerializer(many=True))
    def get_references(self, dataset: TargetDataset) -> Any:
        return ReferenceSerializer((dataset.history_of or dataset).references.all(), many=True).data

    @extend_schema_field(ReferenceSerializer(many=True))
    def get_referenced_by(self, dataset: TargetDataset) -> Any:
        return ReferenceSerializer((dataset.history_of or dataset).referenced_by.all(), many=True).data


def _shown(name: str, type_: str, purpose: str, column: TargetColumn | None) -> dict:
    return {
        "key": str(column.key) if column else None,
        "name": name,
        "type": type_,
        "role": column.role if column else "technical",
        "computed": column is None,
        "purpose": purpose,
        "nullable": column.nullable if column else True,
        "active": column.active if column else True,
        "key_ordinal": column.key_ordinal if column else None,
        "expression": column.expression if column else "",
        "former_names": column.former_names if column else [],
        "pii": column.pii if column else False,
        "sensitivity": column.sensitivity if column else "",
        "description": column.description if column else "",
        "inputs": [_input(item) for item in column.inputs.all()] if column else [],
    }


def _input(item: ColumnInput) -> dict:
    column = item.read_column
    return {"key": str(column.key), "name": column.name, "dataset": _read(column.dataset)}


def _read(dataset: SourceDataset | TargetDataset) -> dict:
    kind = "source" if isinstance(dataset, SourceDataset) else "target"
    return {"kind": kind, "key": str(dataset.key), "name": str(dataset)}


class TargetColumnSerializer(serializers.ModelSerializer):
    """A described column by itself: with the dataset it belongs to."""

    dataset = serializers.UUIDField(source="dataset.key", read_only=True)
    type = serializers.CharField(read_only=True)
    inputs = serializers.SerializerMethodField()

    class Meta:
        model = TargetColumn
        fields = (
            "key",
            "dataset",
            "name",
            "former_names",
            "ordinal",
            "type",
            "nullable",
            "role",
            "key_ordinal",
            "expression",
            "pii",
            "sensitivity",
            "active",
            "description",
            "owner",
            "tags",
            "inputs",
            "version",
            "updated_at",
        )

    @extend_schema_field(ColumnInputSerializer(many=True))
    def get_inputs(self, column: TargetColumn) -> list[dict]:
        return [_input(item) for item in column.inputs.all()]


class LineageNodeSerializer(serializers.Serializer):
    """``distance`` is 0 for the dataset asked about, negative upstream, positive downstream."""

    key = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=("source", "target", "history"))
    name = serializers.CharField()
    layer = serializers.CharField()
    active = serializers.BooleanField()
    distance = serializers.IntegerField()


class LineageEdgeSerializer(serializers.Serializer):
    """``input``: rows flow; ``history``: rows are kept; ``reference``: rows refer, child to parent."""

    start = serializers.UUIDField()
    end = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=("input", "history", "reference"))
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]  # a field of the response


class LineageSerializer(serializers.Serializer):
    nodes = LineageNodeSerializer(many=True)
    edges = LineageEdgeSerializer(many=True)
