"""URL converters and filters of load runs, maintenance records and schedules."""

from typing import ClassVar

import django_filters as filters
from django.contrib.auth import get_user_model
from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.urls.converters import StringConverter

from elevata.jobs.models import SYSTEM
from elevata.lists.selectors import FavouriteOnly
from elevata.web.list_filters import StableOrdering, YesNoFilter, is_there
from loader.contract.run_states import BRINGING, MAINTENANCE
from loader.models import DatasetRun, LoadRun, MaintenanceRecord, SavedQuery, Schedule, SourceProposal
from loader.selectors.quality_results import failing_columns
from metadata.filtersets import (
    COLUMN_ORDERS,
    COLUMNS_RANKED,
    DATASET_ORDERS,
    DATASETS_RANKED,
    ColumnFilter,
    DatasetFilter,
    is_dataset,
)
from metadata.models import SourceDataset, TargetColumn


class LoadRunFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="run_id", lookup_expr="icontains", label="Run id")
    kind = filters.ChoiceFilter(choices=LoadRun.Kind.choices, label="Kind")
    status = filters.ChoiceFilter(choices=LoadRun.STATUSES, label="State")
    requested_by = filters.CharFilter(method="asked_by", label="By")
    dataset = filters.CharFilter(method="with_dataset", label="Dataset")
    ordering = StableOrdering(
        fields=("requested_at", "load_timestamp", "run_id", "status"),
        computed={"scope": KT("scope__name"), "took": F("finished_at") - F("started_at")},
    )

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
        """Filter by a user name, or by a name from the command line; ``system`` selects runs without either."""
        named = Q(requested_by__username=value) | Q(requested_by__isnull=True, requester=value)
        nobody = Q(requested_by__isnull=True, requester="")
        return queryset.filter(named | nobody if value == SYSTEM else named)

    def with_dataset(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter the runs with this dataset (``schema.name``)."""
        runs = LoadRun.objects.filter(datasets__qualified_name__iexact=value).order_by().values("pk")
        return queryset.filter(pk__in=runs)


class MaintenanceRecordFilter(filters.FilterSet):
    run = filters.CharFilter(field_name="run__run_id", label="Run id")
    kind = filters.ChoiceFilter(
        field_name="run__kind",
        choices=[(kind.value, kind.label) for kind in LoadRun.Kind if kind.value in MAINTENANCE],
        label="Kind",
    )
    outcome = filters.CharFilter(label="Outcome")
    ordering = StableOrdering(fields=("id", "created_at"))

    known: ClassVar = {"run": is_there(LoadRun, "run_id"), "outcome": dict(LoadRun.STATUSES).__contains__}

    class Meta:
        model = MaintenanceRecord
        fields = ()


class SourceProposalFilter(filters.FilterSet):
    status = filters.ChoiceFilter(choices=SourceProposal.Status.choices, label="State")
    source = filters.UUIDFilter(field_name="source__key", label="Source dataset")
    ordering = StableOrdering(fields=("created_at", "last_seen_at"))

    known: ClassVar = {"source": is_there(SourceDataset, "key")}

    class Meta:
        model = SourceProposal
        fields = ()


class ScheduleFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", label="Name")
    active = YesNoFilter(field_name="active", label="Active")
    favourite = FavouriteOnly("schedule")
    ordering = StableOrdering(
        fields=("name", "active"), computed={"next_at": F("next_at"), "last_run": F("last_run__requested_at")}
    )

    class Meta:
        model = Schedule
        fields = ()


class SavedQueryFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    shared = YesNoFilter(field_name="shared", label="Shared")
    favourite = FavouriteOnly("saved_query")
    ordering = StableOrdering(fields=("name", ("owner__username", "owner"), "shared", "updated_at"))

    class Meta:
        model = SavedQuery
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(name__icontains=value) | Q(text__icontains=value))


def _last_load() -> Subquery:
    """Return the subquery of the newest load of a dataset; of a history, that of its base."""
    key = Coalesce(OuterRef("history_of__key"), OuterRef("key"))
    rows = DatasetRun.objects.filter(dataset_key=key, run__kind__in=BRINGING).order_by("-pk")
    return Subquery(rows.values("pk")[:1])


class DatasetListFilter(DatasetFilter):
    """Filter of the page of datasets, which is also sorted by the last loads."""

    ordering = StableOrdering(fields=DATASET_ORDERS, computed=DATASETS_RANKED | {"last_load": _last_load()})


class ColumnListFilter(ColumnFilter):
    """Filter of the page of columns, which also knows the last results of their checks."""

    failing = YesNoFilter(method="of_checks", label="Failing")
    ordering = StableOrdering(
        fields=COLUMN_ORDERS,
        computed=COLUMNS_RANKED,
        default=("dataset__schema__ordinal", "dataset__schema__name", "dataset__name", "ordinal"),
    )

    class Meta:
        model = TargetColumn
        fields = ()

    def of_checks(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        failing = Q(pk__among=list(failing_columns()))
        return queryset.filter(failing if value == "true" else ~failing)


# URL path converters.


class RunIdConverter(StringConverter):
    """Converter of load run ids: 1 to 100 letters, digits and ``._:+-``, beginning with a letter or digit.

    The pattern excludes characters that a database refuses in queries.
    """

    regex = "[A-Za-z0-9][A-Za-z0-9._:+-]{0,99}"
