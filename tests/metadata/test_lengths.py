"""Tests that maximum lengths of texts are the same in forms, in the API and in tables."""

from typing import Any

import pytest
from django import forms
from django.db import models
from rest_framework import serializers

from elevata.core.lengths import MAX_TAG, MAX_TAGS
from elevata.web.forms import TagsField
from metadata.api import change_serializers as api
from metadata.forms import columns, datasets, imports, sources, systems
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn, TargetDataset, TargetSchema

PAIRS: list[tuple[type[forms.Form], type[models.Model], type[serializers.Serializer]]] = [
    (datasets.DatasetForm, TargetDataset, api.DatasetChange),
    (datasets.NewDatasetForm, TargetDataset, api.NewDataset),
    (datasets.SchemaForm, TargetSchema, api.SchemaChange),
    (datasets.NewSchemaForm, TargetSchema, api.SchemaChange),
    (systems.SystemForm, System, api.SystemChange),
    (systems.NewSystemForm, System, api.SystemChange),
    (sources.SourceForm, SourceDataset, api.SourceDatasetChange),
    (sources.NewSourceForm, SourceDataset, api.NewSourceDataset),
    (columns.ColumnForm, TargetColumn, api.ColumnChange),
    (columns.NewColumnForm, TargetColumn, api.NewColumn),
    (imports.ColumnChoiceForm, SourceColumn, api.NewSourceColumn),
]


@pytest.mark.parametrize(("form", "model", "serializer"), PAIRS, ids=[form.__name__ for form, _, _ in PAIRS])
def test_text_limits_are_the_same_in_form_api_and_table(form: Any, model: Any, serializer: Any) -> None:
    stored = {field.name: field.max_length for field in model._meta.fields if isinstance(field, models.CharField)}
    accepted = {name: field.max_length for name, field in serializer().fields.items() if _is_text(field)}
    limits = {
        name: {
            field.max_length,
            *([accepted[name]] if name in accepted else []),
            *([stored[name]] if name in stored else []),
        }
        for name, field in form.base_fields.items()
        if isinstance(field, forms.CharField) and not isinstance(field, TagsField)
    }
    assert {name: lengths for name, lengths in limits.items() if len(lengths) > 1} == {}


def _is_text(field: serializers.Field) -> bool:
    return isinstance(field, serializers.CharField) and not field.read_only


@pytest.mark.parametrize("tags", [["x"] * MAX_TAGS, ["x" * MAX_TAG]], ids=["many", "long"])
def test_tags_up_to_the_limits_are_taken(tags: list[str]) -> None:
    assert TagsField().clean(", ".join(tags)) == list(dict.fromkeys(tags))


@pytest.mark.parametrize(
    "tags", [[str(number) for number in range(MAX_TAGS + 1)], ["x" * (MAX_TAG + 1)]], ids=["too many", "too long"]
)
def test_tags_beyond_the_limits_are_refused(tags: list[str]) -> None:
    with pytest.raises(forms.ValidationError):
        TagsField().clean(", ".join(tags))
