"""Filters of load runs: the same for the page and the API."""

import django_filters as filters
from django.db.models import QuerySet

from loader.models import LoadRun
from metadata.filtersets import StableOrdering


class LoadRunFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="run_id", lookup_expr="icontains", label="Run id")
    status = filters.ChoiceFilter(choices=LoadRun.Status.choices, label="State")
    requested_by = filters.CharFilter(field_name="requested_by__username", label="By")
    dataset = filters.CharFilter(method="with_dataset", label="Dataset")
    ordering = StableOrdering(fields=("requested_at", "load_timestamp", "run_id"))

    class Meta:
        model = LoadRun
        fields = ()

    def with_dataset(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Runs that had the dataset (``schema.name``) in them."""
        runs = LoadRun.objects.filter(datasets__qualified_name__iexact=value).order_by().values("pk")
        return queryset.filter(pk__in=runs)
