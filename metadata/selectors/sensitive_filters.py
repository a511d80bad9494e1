"""Filters of sensitive columns."""

from typing import ClassVar

import django_filters as filters
from django.db.models import Q, QuerySet

from elevata.web.list_filters import StableOrdering, YesNoFilter, is_there
from metadata.filtersets import called
from metadata.models import SourceColumn, System, TargetColumn, TargetSchema
from metadata.selectors.sensitive_columns import (
    CLASSES,
    INHERITED,
    OWNER_OF_SOURCE,
    OWNER_OF_TARGET,
    is_classified,
    own_class,
    target_pks,
)

_CLASS_CHOICES = tuple((name, name.capitalize()) for name in CLASSES)


class SensitiveColumnFilter(filters.FilterSet):
    """Filter of sensitive target columns."""

    q = filters.CharFilter(method="search", label="Text")
    schema = filters.CharFilter(field_name="dataset__schema__name", label="Schema")
    layer = filters.ChoiceFilter(field_name="dataset__schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    classification = filters.ChoiceFilter(method="of_class", choices=_CLASS_CHOICES, label="Class")
    owner = filters.CharFilter(method="of_owner", label="Owner")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(
        fields=(
            "name",
            ("dataset__name", "dataset"),
            ("dataset__schema__name", "schema"),
            ("dataset__schema__layer", "layer"),
            "active",
        ),
        computed={"owner": OWNER_OF_TARGET},
        default=("dataset__schema__ordinal", "dataset__schema__name", "dataset__name", "ordinal"),
    )

    known: ClassVar = {"schema": is_there(TargetSchema, "name")}

    class Meta:
        model = TargetColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names and former names of columns, and by names of datasets."""
        return queryset.filter(called(value) | Q(dataset__name__icontains=value))

    def of_class(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        if value == INHERITED:
            return queryset.exclude(is_classified("dataset__"))
        return queryset.filter(pk__among=target_pks(value))

    def of_owner(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.alias(named_owner=OWNER_OF_TARGET).filter(named_owner__icontains=value)


class SensitiveSourceColumnFilter(filters.FilterSet):
    """Filter of sensitive source columns."""

    q = filters.CharFilter(method="search", label="Text")
    system = filters.CharFilter(field_name="dataset__system__short_name", label="System")
    classification = filters.ChoiceFilter(method="of_class", choices=_CLASS_CHOICES[:-1], label="Class")
    owner = filters.CharFilter(method="of_owner", label="Owner")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(
        fields=("name", ("dataset__name", "dataset"), ("dataset__system__short_name", "system"), "active"),
        computed={"owner": OWNER_OF_SOURCE},
        default=("dataset__system__short_name", "dataset__name", "ordinal"),
    )

    known: ClassVar = {"system": is_there(System, "short_name")}

    class Meta:
        model = SourceColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names of columns and of datasets."""
        return queryset.filter(Q(name__icontains=value) | Q(dataset__name__icontains=value))

    def of_class(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(own_class(value))

    def of_owner(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.alias(named_owner=OWNER_OF_SOURCE).filter(named_owner__icontains=value)
