"""Filters of metadata lists: the same for pages and the API."""

from typing import ClassVar

import django_filters as filters
from django.contrib.auth import get_user_model
from django.db.models import F, Q, QuerySet

from elevata.audit.models import ChangeLogEntry
from elevata.lists.selectors import FavouriteOnly
from elevata.web.list_filters import StableOrdering, YesNoFilter, is_there, ranked
from elevata.web.search import list_contains
from metadata.domain import copies, exposures, types
from metadata.domain.quality import check_kinds
from metadata.domain.sensitivity import LEVELS
from metadata.models import (
    DatasetCopy,
    Exposure,
    QualityCheck,
    Reference,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.selectors.change_log import SUBJECT_KINDS, about_dataset
from metadata.selectors.datasets import datasets_by_name


def is_dataset(name: str) -> bool:
    """Return True if a target dataset of this name (``schema.name``) exists."""
    return datasets_by_name(name).exists()


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
    favourite = FavouriteOnly("source")
    ordering = StableOrdering(
        fields=(
            "name",
            "short_name",
            ("system__short_name", "system"),
            "format",
            "location",
            ("column_count", "columns"),
            "historize",
            "owner",
            "description",
            "active",
        ),
    )

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
    ordering = StableOrdering(
        fields=("name", "ordinal", "layer", ("dataset_count", "datasets"), "owner", "description")
    )

    class Meta:
        model = TargetSchema
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(name__icontains=value) | Q(description__icontains=value))


DATASET_ORDERS = (
    "name",
    ("schema__name", "schema"),
    ("schema__layer", "layer"),
    "materialization",
    "updated_at",
    ("column_count", "columns"),
    "owner",
    "description",
    "active",
)
DATASETS_RANKED = {"source": F("generated_from__name"), "sensitivity": ranked("sensitivity", LEVELS)}


class DatasetFilter(filters.FilterSet):
    """Filter of datasets. ``kind`` distinguishes histories from base tables."""

    KINDS = (("table", "Table"), ("view", "View"), ("history", "History"))

    q = filters.CharFilter(method="search", label="Text")
    layer = filters.ChoiceFilter(field_name="schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    schema = filters.CharFilter(field_name="schema__name", label="Schema")
    kind = filters.ChoiceFilter(method="of_kind", choices=KINDS, label="Kind")
    historized = YesNoFilter(field_name="historize", label="Historized")
    sensitivity = filters.ChoiceFilter(choices=TargetDataset.Sensitivity.choices)
    active = YesNoFilter(field_name="active", label="Active")
    favourite = FavouriteOnly("dataset")
    ordering = StableOrdering(fields=DATASET_ORDERS, computed=DATASETS_RANKED)

    known: ClassVar = {"schema": is_there(TargetSchema, "name")}

    class Meta:
        model = TargetDataset
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names and former names of datasets and columns, and by descriptions.

        The text may also be ``schema.dataset`` or ``schema.dataset.column``, with current or former names.
        """
        schema, dot, rest = value.partition(".")
        if dot and queryset.filter(schema__name__iexact=schema).exists():
            dataset, _, column = rest.partition(".")
            called = Q(name__istartswith=dataset) | list_contains("former_names", f'"{dataset}')
            datasets = queryset.filter(called, schema__name__iexact=schema)
            return datasets.filter(pk__in=_with_column(column)) if column else datasets
        described = Q(name__icontains=value) | Q(description__icontains=value) | list_contains("former_names", value)
        return queryset.filter(described | Q(pk__in=_with_column(value)))

    def of_kind(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        if value == "history":
            return queryset.filter(history_of__isnull=False)
        return queryset.filter(history_of__isnull=True, materialization=value)


def called(text: str) -> Q:
    """Return the condition that a name or former name contains the text."""
    return Q(name__icontains=text) | list_contains("former_names", text)


def _with_column(text: str) -> QuerySet:
    return TargetColumn.objects.filter(called(text)).order_by().values("dataset")


COLUMN_ORDERS = (
    "name",
    "ordinal",
    ("dataset__schema__layer", "layer"),
    ("data_type", "type"),
    "role",
    ("pii", "personal"),
    "owner",
    "description",
    "active",
    "updated_at",
)
COLUMNS_RANKED = {"sensitivity": ranked("sensitivity", LEVELS)}


class ColumnFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    dataset = filters.UUIDFilter(field_name="dataset__key", label="Dataset")
    layer = filters.ChoiceFilter(field_name="dataset__schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    schema = filters.CharFilter(field_name="dataset__schema__name", label="Schema")
    role = filters.ChoiceFilter(choices=TargetColumn.Role.choices)
    type = filters.ChoiceFilter(
        field_name="data_type",
        choices=[(name, name) for name in types.NAMES],
        label="Type",
        help_text="Without length or precision.",
    )
    pii = YesNoFilter(field_name="pii", label="Personal")
    sensitivity = filters.ChoiceFilter(choices=TargetColumn.Sensitivity.choices)
    owner = filters.CharFilter(lookup_expr="icontains", label="Owner")
    tag = filters.CharFilter(method="of_tag", label="Tag")
    described = YesNoFilter(method="of_description", label="Described")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=COLUMN_ORDERS, computed=COLUMNS_RANKED)

    known: ClassVar = {
        "dataset": is_there(TargetDataset, "key"),
        "schema": is_there(TargetSchema, "name"),
    }

    class Meta:
        model = TargetColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names, former names and descriptions."""
        return queryset.filter(called(value) | Q(description__icontains=value))

    def of_tag(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by the beginning of a tag."""
        return queryset.filter(list_contains("tags", f'"{value}'))

    def of_description(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.exclude(description="") if value == "true" else queryset.filter(description="")


class ReferenceFilter(filters.FilterSet):
    child = filters.UUIDFilter(field_name="child__key", label="Child")
    parent = filters.UUIDFilter(field_name="parent__key", label="Parent")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("role_name", "updated_at"))

    known: ClassVar = {"child": is_there(TargetDataset, "key"), "parent": is_there(TargetDataset, "key")}

    class Meta:
        model = Reference
        fields = ()


class QualityCheckFilter(filters.FilterSet):
    dataset = filters.UUIDFilter(field_name="dataset__key", label="Dataset")
    kind = filters.ChoiceFilter(choices=[(name, kind.label) for name, kind in check_kinds.KINDS.items()], label="Kind")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", "updated_at"))

    known: ClassVar = {"dataset": is_there(TargetDataset, "key")}

    class Meta:
        model = QualityCheck
        fields = ()


class ExposureFilter(filters.FilterSet):
    dataset = filters.UUIDFilter(field_name="dataset__key", label="Dataset")
    kind = filters.ChoiceFilter(choices=list(exposures.KINDS.items()), label="Kind")
    ordering = StableOrdering(fields=("name", "updated_at"))

    known: ClassVar = {"dataset": is_there(TargetDataset, "key")}

    class Meta:
        model = Exposure
        fields = ()


class CopyFilter(filters.FilterSet):
    dataset = filters.UUIDFilter(field_name="dataset__key", label="Dataset")
    to = filters.CharFilter(field_name="system__short_name", label="System")
    mode = filters.ChoiceFilter(choices=list(copies.MODES.items()), label="Mode")
    ordering = StableOrdering(fields=("updated_at",))

    known: ClassVar = {"dataset": is_there(TargetDataset, "key"), "to": is_there(System, "short_name")}

    class Meta:
        model = DatasetCopy
        fields = ()


class ChangeFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    dataset = filters.CharFilter(method="of_dataset", label="Dataset")
    actor = filters.CharFilter(field_name="actor", lookup_expr="iexact", label="User")
    kind = filters.CharFilter(field_name="subject_kind", label="Kind")
    action = filters.CharFilter(field_name="action", label="What was done")
    since = filters.DateFilter(field_name="at", lookup_expr="date__gte", label="From")
    until = filters.DateFilter(field_name="at", lookup_expr="date__lte", label="To")

    known: ClassVar = {
        "actor": lambda name: (
            is_there(get_user_model(), "username")(name) or is_there(ChangeLogEntry, "actor__iexact")(name)
        ),
        "kind": lambda kind: kind in SUBJECT_KINDS or is_there(ChangeLogEntry, "subject_kind")(kind),
        "action": lambda action: action in ChangeLogEntry.Action.values or is_there(ChangeLogEntry, "action")(action),
    }

    class Meta:
        model = ChangeLogEntry
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names, reasons, and values before and after, which include former names."""
        return queryset.filter(
            Q(subject_name__icontains=value) | Q(changes__icontains=value) | Q(reason__icontains=value)
        )

    def of_dataset(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(about_dataset(value))


class ChangeListFilter(ChangeFilter):
    """Filter of the page, which can also be sorted; files of entries are in the order of the log."""

    ordering = StableOrdering(
        fields=(("pk", "at"), "actor", ("subject_name", "subject")),
        default=("-pk",),
    )
