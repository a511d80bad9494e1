"""Serializers of models as requests describe them. Services check everything beyond names and types."""

from typing import Any

from rest_framework import serializers

from elevata.api.requests import ChangeSerializer
from metadata.domain.models import DescribedModel
from metadata.domain.select_check import MAX_LENGTH


class SelectSerializer(ChangeSerializer):
    select = serializers.CharField(max_length=MAX_LENGTH, trim_whitespace=False)
    dataset = serializers.CharField(
        required=False, default="", max_length=300, help_text="Qualified name of the model, which cannot read itself."
    )


class ColumnReadSerializer(serializers.Serializer):
    dataset = serializers.CharField()
    column = serializers.CharField()


class ModelColumnSerializer(serializers.Serializer):
    """Column that follows from a SELECT; ``passes`` means that it is one input column unchanged."""

    name = serializers.CharField()
    type = serializers.CharField()
    nullable = serializers.BooleanField()
    expression = serializers.CharField()
    inputs = ColumnReadSerializer(many=True)
    passes = serializers.BooleanField()


class ModelSerializer(serializers.Serializer):
    """Columns of a SELECT, and the datasets that it reads."""

    columns = ModelColumnSerializer(many=True)
    reads = serializers.ListField(child=serializers.CharField())


def model_document(described: DescribedModel) -> dict[str, Any]:
    """Return a described model as ``ModelSerializer`` takes it."""
    columns = [
        vars(column) | {"inputs": [{"dataset": dataset, "column": name} for dataset, name in column.inputs]}
        for column in described.columns
    ]
    return {"columns": columns, "reads": described.reads}
