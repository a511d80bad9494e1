"""Serializers of metadata for requests and responses."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from elevata.api.requests import ChangeSerializer
from elevata.core.lengths import MAX_SHORT_NAME, MAX_TAG, MAX_TAGS, MAX_TEXT, MAX_TYPE
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.history.load_types import LOAD_TYPES, load_type
from metadata.domain.select_check import MAX_LENGTH
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
from metadata.models.base import Classified
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


class SourceColumnSerializer(serializers.ModelSerializer):
    type = serializers.CharField(read_only=True)

    class Meta:
        model = SourceColumn
        fields = (
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
        fields = (
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
    source = serializers.UUIDField(source="generated_from.key", read_only=True, default=None, allow_null=True)
    column_count = serializers.IntegerField(read_only=True)

    class Meta:
        model = TargetDataset
        fields = (
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
    parent = serializers.UUIDField(source="parent.key", read_only=True)
    pairs = serializers.SerializerMethodField()

    class Meta:
        model = Reference
        fields = ("key", "child", "parent", "role_name", "unknown_parent", "active", "pairs")

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
        return [_read(item.source or item.upstream) for item in dataset.inputs.all()]

    @extend_schema_field(ReferenceSerializer(many=True))
    def get_references(self, dataset: TargetDataset) -> list[dict]:
        return ReferenceSerializer((dataset.history_of or dataset).references.all(), many=True).data

    @extend_schema_field(ReferenceSerializer(many=True))
    def get_referenced_by(self, dataset: TargetDataset) -> list[dict]:
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
    column = item.source_column or item.upstream_column
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
    label = serializers.CharField(allow_blank=True)


class LineageSerializer(serializers.Serializer):
    nodes = LineageNodeSerializer(many=True)
    edges = LineageEdgeSerializer(many=True)


# Input serializers of metadata. Services check everything beyond names and types.


_TYPE_HELP = "A type as metadata write it: string(20), decimal(10,2), timestamp, …"
# Maximum of PostgreSQL's smallint.
_MOST = 32767


class _Described(ChangeSerializer):
    description = serializers.CharField(required=False, allow_blank=True, max_length=MAX_TEXT)
    owner = serializers.CharField(required=False, allow_blank=True, max_length=200)
    tags = serializers.ListField(child=serializers.CharField(max_length=MAX_TAG), required=False, max_length=MAX_TAGS)


def _sensitivity() -> serializers.ChoiceField:
    return serializers.ChoiceField(choices=Classified.Sensitivity.choices, required=False, allow_blank=True)


def _place(**options: Any) -> serializers.IntegerField:
    return serializers.IntegerField(required=False, min_value=1, max_value=_MOST, **options)


class SystemChange(_Described):
    name = serializers.CharField(max_length=200)
    short_name = serializers.CharField(max_length=20)
    kind = serializers.ChoiceField(choices=System.Kind.choices, required=False)
    location = serializers.CharField(required=False, allow_blank=True, max_length=1000)
    secret = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=100,
        help_text="The name of the environment variable that holds the password; never the password.",
    )
    options = serializers.DictField(required=False)
    active = serializers.BooleanField(required=False)


class SourceDatasetChange(_Described):
    name = serializers.CharField(max_length=200)
    short_name = serializers.CharField(required=False, max_length=MAX_SHORT_NAME)
    location = serializers.CharField(max_length=1000)
    format = serializers.ChoiceField(choices=SourceDataset.Format.choices, required=False)
    options = serializers.DictField(required=False)
    intake = serializers.DictField(required=False, help_text="Rows that a load reads: watermark, look_back, key_list.")
    history_policy = serializers.DictField(required=False)
    historize = serializers.BooleanField(required=False)
    new_columns = serializers.ChoiceField(
        choices=SourceDataset.NewColumns.choices,
        required=False,
        help_text="Rule for columns that are delivered but are not in the contract.",
    )
    active = serializers.BooleanField(required=False)


class NewSourceDataset(SourceDatasetChange):
    system = serializers.SlugRelatedField(slug_field="short_name", queryset=System.objects.all())


class SourceColumnChange(_Described):
    name = serializers.CharField(max_length=200)
    target_name = serializers.CharField(required=False, allow_blank=True, max_length=200)
    type = serializers.CharField(max_length=MAX_TYPE, help_text=_TYPE_HELP)
    nullable = serializers.BooleanField(required=False)
    ordinal = _place()
    key_ordinal = _place(allow_null=True)
    integrate = serializers.BooleanField(required=False)
    pii = serializers.BooleanField(required=False)
    sensitivity = _sensitivity()
    active = serializers.BooleanField(required=False)


class NewSourceColumn(SourceColumnChange):
    source_dataset = serializers.SlugRelatedField(slug_field="key", queryset=SourceDataset.objects.all())


class SchemaChange(_Described):
    name = serializers.CharField(max_length=100)
    layer = serializers.ChoiceField(choices=TargetSchema.Layer.choices)
    ordinal = serializers.IntegerField(required=False, min_value=0, max_value=_MOST)


class DatasetChange(_Described):
    materialization = serializers.ChoiceField(choices=TargetDataset.Materialization.choices, required=False)
    historize = serializers.BooleanField(required=False)
    history_policy = serializers.DictField(required=False)
    filter = serializers.CharField(required=False, allow_blank=True, max_length=MAX_TEXT)
    select = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=MAX_LENGTH,
        trim_whitespace=False,
        help_text="SELECT of a model; its columns and inputs follow from it.",
    )
    increment = serializers.DictField(required=False, help_text="Rows of a model that a load computes anew.")
    business_key = serializers.ListField(
        child=serializers.CharField(max_length=200),
        required=False,
        max_length=100,
        help_text="Key columns of a model, in order. Omitted, they stay.",
    )
    keep = serializers.ChoiceField(
        choices=TargetDataset.Keep.choices, required=False, help_text="Deliveries that a raw table keeps."
    )
    keep_days = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MOST)
    keep_deliveries = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MOST)
    contract = serializers.BooleanField(
        required=False, help_text="A dataset of the serving layer promises its columns, key and checks."
    )
    sensitivity = _sensitivity()


class NewDataset(DatasetChange):
    schema = serializers.SlugRelatedField(slug_field="name", queryset=TargetSchema.objects.all())
    name = serializers.CharField(max_length=200)
    take_columns = serializers.BooleanField(required=False, help_text="Copy the columns of the inputs.")
    inputs = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=100)


class ColumnChange(_Described):
    type = serializers.CharField(max_length=MAX_TYPE, help_text=_TYPE_HELP)
    nullable = serializers.BooleanField(required=False)
    ordinal = _place()
    role = serializers.ChoiceField(choices=TargetColumn.Role.choices, required=False)
    key_ordinal = _place(allow_null=True)
    expression = serializers.CharField(required=False, allow_blank=True, max_length=MAX_TEXT)
    pii = serializers.BooleanField(required=False)
    sensitivity = _sensitivity()


class NewColumn(ColumnChange):
    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    name = serializers.CharField(max_length=200)


class InputsSerializer(ChangeSerializer):
    inputs = serializers.ListField(
        child=serializers.UUIDField(), max_length=100, help_text="Stable keys of datasets, in their order."
    )


def datasets_named(keys: list[Any]) -> list[SourceDataset | TargetDataset]:
    """Return source and target datasets by key, in this order. Raise ValidationError for the first unknown key."""
    by_key: dict[Any, SourceDataset | TargetDataset] = {}
    for rows in (
        SourceDataset.objects.filter(key__in=keys).select_related("system"),
        TargetDataset.objects.filter(key__in=keys).select_related("schema"),
    ):
        by_key.update({row.key: row for row in rows})
    for key in keys:
        if key not in by_key:
            raise serializers.ValidationError({"inputs": [f"There is no dataset {key}."]})
    return [by_key[key] for key in keys]
