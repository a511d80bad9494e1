"""Filters of metadata lists: the same for pages and the API."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

import django_filters as filters
from django.contrib.auth import get_user_model
from django.db.models import Model, Q, QuerySet

from metadata.change_log import SUBJECT_KINDS, about_dataset
from metadata.domain import types
from metadata.domain.roles import Role
from metadata.models import (
    ChangeLogEntry,
    Reference,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)

_YES_NO = (("true", "Yes"), ("false", "No"))


def is_there(model: type[Model], field: str) -> Callable[[Any], bool]:
    """Return a test whether a row has the value: the API refuses filters that name nothing (``known``)."""
    return lambda value: model._default_manager.filter(**{field: value}).exists()


def is_dataset(name: str) -> bool:
    """Return whether a target dataset of this name (``schema.name``) exists."""
    schema, _, rest = name.partition(".")
    return TargetDataset.objects.filter(schema__name__iexact=schema, name__iexact=rest).exists()


class YesNoFilter(filters.ChoiceFilter):
    """A boolean as a select with an empty choice."""

    def __init__(self, **kwargs):
        super().__init__(choices=_YES_NO, **kwargs)

    def filter(self, qs: QuerySet, value: str) -> QuerySet:
        return qs.filter(**{self.field_name: value == "true"}) if value else qs


class StableOrdering(filters.OrderingFilter):
    """Rows that are equal in the wanted order, or for which none is wanted, have one order all the same."""

    def filter(self, qs: QuerySet, value) -> QuerySet:
        wanted = [param for param in value or () if param]
        if not wanted:
            return qs.order_by(*qs.model._meta.ordering, "pk")
        return qs.order_by(*(self.get_ordering_value(param) for param in wanted), "pk")


class SystemFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    kind = filters.ChoiceFilter(choices=System.Kind.choices)
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("short_name", "name"))

    class Meta:
        model = System
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(
            Q(name__icontains=value) | Q(short_name__icontains=value) | Q(description__icontains=value)
        )


class SourceDatasetFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    system = filters.CharFilter(field_name="system__short_name", label="System")
    format = filters.ChoiceFilter(choices=SourceDataset.Format.choices)
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", "short_name", ("system__short_name", "system")))

    known: ClassVar = {"system": is_there(System, "short_name")}

    class Meta:
        model = SourceDataset
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(
            Q(name__icontains=value)
            | Q(short_name__icontains=value)
            | Q(location__icontains=value)
            | Q(description__icontains=value)
        )


class SourceColumnFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    source_dataset = filters.UUIDFilter(field_name="dataset__key", label="Source dataset")
    pii = YesNoFilter(field_name="pii", label="Personal")
    sensitivity = filters.ChoiceFilter(choices=SourceColumn.Sensitivity.choices)
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", "ordinal", "updated_at"))

    known: ClassVar = {"source_dataset": is_there(SourceDataset, "key")}

    class Meta:
        model = SourceColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(name__icontains=value) | Q(description__icontains=value))


class SchemaFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    layer = filters.ChoiceFilter(choices=TargetSchema.Layer.choices)
    ordering = StableOrdering(fields=("name", "ordinal"))

    class Meta:
        model = TargetSchema
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(name__icontains=value) | Q(description__icontains=value))


class DatasetFilter(filters.FilterSet):
    """``kind`` tells histories from the tables they belong to."""

    KINDS = (("table", "Table"), ("view", "View"), ("history", "History"))

    q = filters.CharFilter(method="search", label="Text")
    layer = filters.ChoiceFilter(field_name="schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    schema = filters.CharFilter(field_name="schema__name", label="Schema")
    kind = filters.ChoiceFilter(method="of_kind", choices=KINDS, label="Kind")
    historized = YesNoFilter(field_name="historize", label="Historized")
    sensitivity = filters.ChoiceFilter(choices=TargetDataset.Sensitivity.choices)
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", ("schema__name", "schema"), "updated_at"))

    known: ClassVar = {"schema": is_there(TargetSchema, "name")}

    class Meta:
        model = TargetDataset
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """In names and former names of datasets and columns, and in descriptions.

        ``schema.dataset`` and ``schema.dataset.column`` work, too, with names of now or before.
        """
        schema, dot, rest = value.partition(".")
        if dot and queryset.filter(schema__name__iexact=schema).exists():
            dataset, _, column = rest.partition(".")
            called = Q(name__istartswith=dataset) | _formerly(f'"{dataset}')
            found = queryset.filter(called, schema__name__iexact=schema)
            return found.filter(pk__in=_with_column(column)) if column else found
        described = Q(name__icontains=value) | Q(description__icontains=value) | _formerly(value)
        return queryset.filter(described | Q(pk__in=_with_column(value)))

    def of_kind(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        if value == "history":
            return queryset.filter(history_of__isnull=False)
        return queryset.filter(history_of__isnull=True, materialization=value)


def called(text: str) -> Q:
    """Rows whose name, or a former one, has the text in it."""
    return Q(name__icontains=text) | _formerly(text)


def _formerly(text: str) -> Q:
    """A list in JSON, as text. SQLite holds other letters than ASCII's escaped."""
    quote = '"' if text.startswith('"') else ""
    escaped = quote + json.dumps(text.removeprefix('"'))[1:-1]
    found = Q(former_names__icontains=text)
    if escaped != text:
        found |= Q(former_names__icontains=escaped)
    # Hardly a row has any: looking is quicker than making a text of every list.
    return ~Q(former_names=[]) & found


def _with_column(text: str) -> QuerySet:
    return TargetColumn.objects.filter(called(text)).order_by().values("dataset")


class ColumnFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    dataset = filters.UUIDFilter(field_name="dataset__key", label="Dataset")
    layer = filters.ChoiceFilter(field_name="dataset__schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    role = filters.ChoiceFilter(choices=TargetColumn.Role.choices)
    type = filters.CharFilter(field_name="data_type", label="Type", help_text="Without length or precision.")
    pii = YesNoFilter(field_name="pii", label="Personal")
    sensitivity = filters.ChoiceFilter(choices=TargetColumn.Sensitivity.choices)
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", "ordinal", "updated_at"))

    known: ClassVar = {"dataset": is_there(TargetDataset, "key"), "type": types.NAMES.__contains__}

    class Meta:
        model = TargetColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """In names, former names and descriptions."""
        return queryset.filter(called(value) | Q(description__icontains=value))


class ReferenceFilter(filters.FilterSet):
    child = filters.UUIDFilter(field_name="child__key", label="Child")
    parent = filters.UUIDFilter(field_name="parent__key", label="Parent")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("role_name", "updated_at"))

    known: ClassVar = {"child": is_there(TargetDataset, "key"), "parent": is_there(TargetDataset, "key")}

    class Meta:
        model = Reference
        fields = ()


class PersonFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="username", lookup_expr="icontains", label="Name")
    active = YesNoFilter(field_name="is_active", label="In use")
    role = filters.CharFilter(field_name="groups__name", label="Role")
    ordering = StableOrdering(fields=(("username", "name"), "last_login"))

    known: ClassVar = {"role": frozenset(Role).__contains__}

    class Meta:
        model = get_user_model()
        fields = ()


class ChangeFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    dataset = filters.CharFilter(method="of_dataset", label="Dataset")
    person = filters.CharFilter(field_name="actor", lookup_expr="iexact", label="Person")
    kind = filters.CharFilter(field_name="subject_kind", label="Kind")
    action = filters.CharFilter(field_name="action", label="What was done")
    since = filters.DateFilter(field_name="at", lookup_expr="date__gte", label="From")
    until = filters.DateFilter(field_name="at", lookup_expr="date__lte", label="To")

    known: ClassVar = {
        "person": lambda name: (
            is_there(get_user_model(), "username")(name) or is_there(ChangeLogEntry, "actor__iexact")(name)
        ),
        "kind": lambda kind: kind in SUBJECT_KINDS or is_there(ChangeLogEntry, "subject_kind")(kind),
        "action": lambda action: action in ChangeLogEntry.Action.values or is_there(ChangeLogEntry, "action")(action),
    }

    class Meta:
        model = ChangeLogEntry
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """In names, reasons, and values before and after: so a former name is found, too."""
        return queryset.filter(
            Q(subject_name__icontains=value) | Q(changes__icontains=value) | Q(reason__icontains=value)
        )

    def of_dataset(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(about_dataset(value))
