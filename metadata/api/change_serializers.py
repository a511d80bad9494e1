"""Serializers of changes to metadata: names and types of fields; services check the rest."""

from typing import Any

from rest_framework import serializers

from elevata.api.requests import ChangeSerializer, quoted_name
from elevata.core.lengths import MAX_SHORT_NAME, MAX_TAG, MAX_TAGS, MAX_TEXT, MAX_TYPE
from metadata.domain.select_check import MAX_LENGTH
from metadata.models import (
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.models.base import Classified

_TYPE_HELP = "A type as metadata writes it: string(20), decimal(10,2), timestamp, …"
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
    intake = serializers.DictField(
        required=False, help_text="Rows that a load reads: watermark, look_back, key_list, tolerance."
    )
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
    quoted_name = quoted_name()


class NewDataset(DatasetChange):
    schema = serializers.SlugRelatedField(slug_field="name", queryset=TargetSchema.objects.all())
    name = serializers.CharField(max_length=200)
    take_columns = serializers.BooleanField(required=False, help_text="Copy the columns of the inputs.")
    inputs = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=100)


class CloneRequest(ChangeSerializer):
    schema = serializers.SlugRelatedField(slug_field="name", queryset=TargetSchema.objects.all())
    name = serializers.CharField(max_length=200)
    quoted_name = quoted_name()


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
    quoted_name = quoted_name()


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
