"""Filters of metadata lists: the same for pages and the API."""

import django_filters as filters
from django.db.models import Q, QuerySet

from metadata.models import SourceDataset, System, TargetDataset, TargetSchema

_YES_NO = (("true", "Yes"), ("false", "No"))


class YesNoFilter(filters.ChoiceFilter):
    """A boolean as a select with an empty choice."""

    def __init__(self, **kwargs):
        super().__init__(choices=_YES_NO, **kwargs)

    def filter(self, qs: QuerySet, value: str) -> QuerySet:
        return qs.filter(**{self.field_name: value == "true"}) if value else qs


class StableOrdering(filters.OrderingFilter):
    """Rows that are equal in the wanted order, or for which none is wanted, have one order all the same.

    A list that counts related rows loses its model's own order (SQL groups it), so that is said again.
    """

    def filter(self, qs: QuerySet, value) -> QuerySet:
        if not value:
            return qs.order_by(*qs.model._meta.ordering, "pk")
        return qs.order_by(*(self.get_ordering_value(param) for param in value), "pk")


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


class SchemaFilter(filters.FilterSet):
    layer = filters.ChoiceFilter(choices=TargetSchema.Layer.choices)
    ordering = StableOrdering(fields=("name", "ordinal"))

    class Meta:
        model = TargetSchema
        fields = ()


class DatasetFilter(filters.FilterSet):
    """``kind`` tells histories from the tables they belong to."""

    KINDS = (("table", "Table"), ("view", "View"), ("history", "History"))

    q = filters.CharFilter(method="search", label="Text")
    layer = filters.ChoiceFilter(field_name="schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    schema = filters.CharFilter(field_name="schema__name", label="Schema")
    kind = filters.ChoiceFilter(method="of_kind", choices=KINDS, label="Kind")
    historized = YesNoFilter(field_name="historize", label="Historized")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", ("schema__name", "schema"), "updated_at"))

    class Meta:
        model = TargetDataset
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """In names, former names, descriptions, and names of columns; ``schema.name`` works, too."""
        schema, dot, rest = value.partition(".")
        if dot and queryset.filter(schema__name__iexact=schema).exists():
            return queryset.filter(schema__name__iexact=schema, name__istartswith=rest)
        columns = TargetDataset.objects.filter(columns__name__icontains=value).order_by().values("pk")
        return queryset.filter(
            Q(name__icontains=value)
            | Q(description__icontains=value)
            | Q(former_names__icontains=value)
            | Q(pk__in=columns)
        )

    def of_kind(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        if value == "history":
            return queryset.filter(history_of__isnull=False)
        return queryset.filter(history_of__isnull=True, materialization=value)
