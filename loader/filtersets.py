"""Filters of load runs, records of maintenance runs, and schedules: the same for pages and the API."""

from typing import ClassVar

import django_filters as filters
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from elevata.jobs.models import SYSTEM
from loader.domain.runs.maintenance import GOVERNED
from loader.models import GovernedRunRecord, LoadRun, Schedule
from metadata.filtersets import StableOrdering, YesNoFilter, is_dataset, is_there


class LoadRunFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="run_id", lookup_expr="icontains", label="Run id")
    kind = filters.ChoiceFilter(choices=LoadRun.Kind.choices, label="Kind")
    status = filters.ChoiceFilter(choices=LoadRun.STATUSES, label="State")
    requested_by = filters.CharFilter(method="asked_by", label="By")
    dataset = filters.CharFilter(method="with_dataset", label="Dataset")
    ordering = StableOrdering(fields=("requested_at", "load_timestamp", "run_id"))

    known: ClassVar = {
        "requested_by": lambda name: (
            name == SYSTEM or is_there(get_user_model(), "username")(name) or is_there(LoadRun, "requester")(name)
        ),
        "dataset": lambda name: is_dataset(name) or is_there(LoadRun, "datasets__qualified_name__iexact")(name),
    }

    class Meta:
        model = LoadRun
        fields = ()

    def asked_by(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by a username, or a name given on the command line; ``system`` means runs that have neither."""
        named = Q(requested_by__username=value) | Q(requested_by__isnull=True, requester=value)
        nobody = Q(requested_by__isnull=True, requester="")
        return queryset.filter(named | nobody if value == SYSTEM else named)

    def with_dataset(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter the runs that include the dataset (``schema.name``)."""
        runs = LoadRun.objects.filter(datasets__qualified_name__iexact=value).order_by().values("pk")
        return queryset.filter(pk__in=runs)


class GovernedRecordFilter(filters.FilterSet):
    run = filters.CharFilter(field_name="run__run_id", label="Run id")
    kind = filters.ChoiceFilter(
        field_name="run__kind",
        choices=[(kind.value, kind.label) for kind in LoadRun.Kind if kind.value in GOVERNED],
        label="Kind",
    )
    outcome = filters.CharFilter(label="Outcome")
    ordering = StableOrdering(fields=("id", "created_at"))

    known: ClassVar = {"run": is_there(LoadRun, "run_id"), "outcome": dict(LoadRun.STATUSES).__contains__}

    class Meta:
        model = GovernedRunRecord
        fields = ()


class ScheduleFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", label="Name")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name", "next_at"))

    class Meta:
        model = Schedule
        fields = ()
