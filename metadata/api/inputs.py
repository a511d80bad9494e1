"""Input serializers of metadata. Services check everything beyond names and types."""

from typing import Any

from rest_framework import serializers

from metadata.api.strict_fields import ChangeSerializer
from metadata.models import SourceDataset, System, TargetColumn, TargetDataset, TargetSchema
from metadata.models.base import Classified

_TYPE_HELP = "A type as metadata write it: string(20), decimal(10,2), timestamp, …"
# PostgreSQL's integers; beyond them no place is meant.
_MOST = 32767


class _Described(ChangeSerializer):
    description = serializers.CharField(required=False, allow_blank=True, max_length=10_000)
    owner = serializers.CharField(required=False, allow_blank=True, max_length=200)
    tags = serializers.ListField(child=serializers.CharField(max_length=100), required=False, max_length=100)


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
    active = serializers.BooleanField(required=False)


class SourceDatasetChange(_Described):
    name = serializers.CharField(max_length=200)
    short_name = serializers.CharField(required=False, max_length=100)
    location = serializers.CharField(max_length=1000)
    format = serializers.ChoiceField(choices=SourceDataset.Format.choices, required=False)
    options = serializers.DictField(required=False)
    history_policy = serializers.DictField(required=False)
    historize = serializers.BooleanField(required=False)
    active = serializers.BooleanField(required=False)


class NewSourceDataset(SourceDatasetChange):
    system = serializers.SlugRelatedField(slug_field="short_name", queryset=System.objects.all())


class SourceColumnChange(_Described):
    name = serializers.CharField(max_length=200)
    target_name = serializers.CharField(required=False, allow_blank=True, max_length=200)
    type = serializers.CharField(max_length=40, help_text=_TYPE_HELP)
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
    filter = serializers.CharField(required=False, allow_blank=True, max_length=10_000)
    sensitivity = _sensitivity()


class NewDataset(DatasetChange):
    schema = serializers.SlugRelatedField(slug_field="name", queryset=TargetSchema.objects.all())
    name = serializers.CharField(max_length=200)
    take_columns = serializers.BooleanField(
        required=False, help_text="Begin with the columns of what is read, each under its name."
    )
    inputs = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=100)


class ColumnChange(_Described):
    type = serializers.CharField(max_length=40, help_text=_TYPE_HELP)
    nullable = serializers.BooleanField(required=False)
    ordinal = _place()
    role = serializers.ChoiceField(choices=TargetColumn.Role.choices, required=False)
    key_ordinal = _place(allow_null=True)
    expression = serializers.CharField(required=False, allow_blank=True, max_length=10_000)
    pii = serializers.BooleanField(required=False)
    sensitivity = _sensitivity()


class NewColumn(ColumnChange):
    dataset = serializers.SlugRelatedField(slug_field="key", queryset=TargetDataset.objects.select_related("schema"))
    name = serializers.CharField(max_length=200)


class RenameSerializer(ChangeSerializer):
    name = serializers.CharField(max_length=200)


class InputsSerializer(ChangeSerializer):
    inputs = serializers.ListField(
        child=serializers.UUIDField(), max_length=100, help_text="Stable keys of datasets, in their order."
    )


def datasets_named(keys: list[Any]) -> list[SourceDataset | TargetDataset]:
    """Source and target datasets by their keys, in this order; ValidationError names the first that is not there."""
    found: dict[Any, SourceDataset | TargetDataset] = {}
    for rows in (
        SourceDataset.objects.filter(key__in=keys).select_related("system"),
        TargetDataset.objects.filter(key__in=keys).select_related("schema"),
    ):
        found.update({row.key: row for row in rows})
    for key in keys:
        if key not in found:
            raise serializers.ValidationError({"inputs": [f"There is no dataset {key}."]})
    return [found[key] for key in keys]
