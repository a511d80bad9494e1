"""Filters of reports, executions and records: the same for pages and the API."""

import json
from typing import Any, ClassVar

import django_filters as filters
from django.contrib.auth import get_user_model
from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KT

from architecture.domain.health import CODES, Severity
from architecture.models import ChangeReport, DryRun, Environment, Execution, ExecutionRecord, HealthFinding
from elevata.lists.selectors import FavouriteOnly
from elevata.web.list_filters import StableOrdering, is_there, ranked
from metadata.filtersets import is_dataset
from metadata.models import TargetDataset, TargetSchema

GRAVEST_FIRST = ranked("severity", Severity)


def _environments(_request: object = None) -> QuerySet[Environment]:
    return Environment.objects.order_by("name")


_CHOICES: Any = _environments  # Any: the stubs know query sets only, no functions


class ReportFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Scope or fingerprint")
    status = filters.ChoiceFilter(choices=ChangeReport.Status.choices, label="State")
    risk = filters.ChoiceFilter(choices=ChangeReport.Risk.choices, label="Risk")
    environment = filters.ModelChoiceFilter(queryset=_CHOICES, to_field_name="name", label="Environment")
    author = filters.CharFilter(method="written_by", label="Author")
    favourite = FavouriteOnly("report", "report_id")
    ordering = StableOrdering(
        fields=("created_at", "id", "status", "title", ("environment__name", "environment")),
        computed={"scope": KT("scope__name"), "risk": ranked("risk", ChangeReport.Risk.values)},
    )

    known: ClassVar = {"author": is_there(get_user_model(), "username")}

    class Meta:
        model = ChangeReport
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by the scope's name, the datasets of the operations, or the beginning of the fingerprint."""
        return queryset.filter(
            Q(scope__name__icontains=value)
            | Q(fingerprint__startswith=value.strip().lower())
            | Q(document__operations__icontains=value)
        )

    def written_by(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        # A list in JSON, on databases that cannot ask what it contains: the quotes make it a whole name,
        # and SQLite holds other letters than ASCII's escaped.
        return queryset.filter(Q(authors__icontains=f'"{value}"') | Q(authors__icontains=json.dumps(value)))


class ExecutionFilter(filters.FilterSet):
    status = filters.ChoiceFilter(choices=Execution.STATUSES, label="State")
    environment = filters.ModelChoiceFilter(queryset=_CHOICES, to_field_name="name", label="Environment")
    requested_by = filters.CharFilter(method="asked_by", label="By")
    kind = filters.ChoiceFilter(
        method="of_kind", choices=(("report", "Of a report"), ("load", "Of a load run")), label="Kind"
    )
    dataset = filters.CharFilter(method="with_dataset", label="Table")
    ordering = StableOrdering(
        fields=("requested_at", "id", "status", ("environment__name", "environment"), ("operation_count", "steps")),
        computed={
            "report": F("report__title"),
            "took": F("finished_at") - F("started_at"),
            "record": F("record__created_at"),
        },
    )

    known: ClassVar = {
        "requested_by": lambda name: (
            is_there(get_user_model(), "username")(name) or is_there(Execution, "requester")(name)
        ),
        "dataset": lambda name: is_dataset(name) or is_there(Execution, "operations__qualified_name__iexact")(name),
    }

    class Meta:
        model = Execution
        fields = ()

    def asked_by(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(requested_by__username=value) | Q(requested_by__isnull=True, requester=value))

    def of_kind(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(report__isnull=value == "load")

    def with_dataset(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        touching = Execution.objects.filter(operations__qualified_name__iexact=value).order_by().values("pk")
        return queryset.filter(pk__in=touching)


class RecordFilter(filters.FilterSet):
    outcome = filters.ChoiceFilter(
        choices=tuple((key, key.title()) for key in ("succeeded", "failed", "canceled", "abandoned")), label="Outcome"
    )
    environment = filters.ModelChoiceFilter(queryset=_CHOICES, to_field_name="name", label="Environment")
    ordering = StableOrdering(fields=("created_at", "id"))

    class Meta:
        model = ExecutionRecord
        fields = ()


class DryRunFilter(filters.FilterSet):
    report = filters.UUIDFilter(field_name="preview__report__report_id", label="Report")
    status = filters.ChoiceFilter(choices=DryRun.STATUSES, label="State")
    ordering = StableOrdering(fields=("requested_at", "id"))

    known: ClassVar = {"report": is_there(ChangeReport, "report_id")}

    class Meta:
        model = DryRun
        fields = ()


class FindingFilter(filters.FilterSet):
    q = filters.CharFilter(method="search", label="Text")
    severity = filters.ChoiceFilter(choices=[(level.value, level.value) for level in Severity], label="Severity")
    code = filters.ChoiceFilter(choices=list(CODES.items()), label="Rule")
    layer = filters.ChoiceFilter(field_name="dataset__schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    dataset = filters.UUIDFilter(field_name="dataset__key", label="Dataset")
    ordering = StableOrdering(
        fields=("code", ("dataset__name", "dataset"), "text"),
        computed={"severity": GRAVEST_FIRST},
        default=(GRAVEST_FIRST, "code"),
    )

    known: ClassVar = {"dataset": is_there(TargetDataset, "key")}

    class Meta:
        model = HealthFinding
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(Q(text__icontains=value) | Q(dataset__name__icontains=value))
