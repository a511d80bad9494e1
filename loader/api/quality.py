"""API of the results of quality checks."""

from typing import Any, ClassVar

import django_filters as filters
from django.db.models import QuerySet
from rest_framework import serializers

from elevata.api.resources import ReadOnly
from elevata.web.list_filters import StableOrdering, is_there
from loader.contract.check_outcomes import OUTCOMES
from loader.models import CheckResult, LoadRun
from loader.selectors.readable_results import readable_results
from metadata.models import TargetDataset


class CheckResultSerializer(serializers.ModelSerializer):
    """Result of a quality check, without keys of failed rows."""

    run = serializers.CharField(source="run.run_id", read_only=True, default=None, allow_null=True)
    dataset = serializers.UUIDField(source="dataset_key", read_only=True)
    check = serializers.UUIDField(source="check_key", read_only=True)
    environment = serializers.CharField(source="environment.name", read_only=True)

    class Meta:
        model = CheckResult
        fields = (
            *("id", "check", "check_name", "kind", "severity", "dataset", "dataset_name", "environment", "run"),
            *("outcome", "failed", "total", "value", "low", "high", "message", "at"),
        )


class CheckResultFilter(filters.FilterSet):
    dataset = filters.UUIDFilter(field_name="dataset_key", label="Dataset")
    check = filters.UUIDFilter(field_name="check_key", label="Check")
    run = filters.CharFilter(field_name="run__run_id", label="Load run")
    outcome = filters.ChoiceFilter(choices=list(OUTCOMES.items()), label="Outcome")
    ordering = StableOrdering(fields=("at",))

    known: ClassVar = {"dataset": is_there(TargetDataset, "key"), "run": is_there(LoadRun, "run_id")}

    class Meta:
        model = CheckResult
        fields = ()


class CheckResultViewSet(ReadOnly):
    """Results of quality checks, newest first."""

    queryset = CheckResult.objects.none()
    serializer_class = CheckResultSerializer
    filterset_class = CheckResultFilter

    def get_queryset(self) -> QuerySet[CheckResult]:
        return CheckResult.objects.select_related("run", "environment").order_by("-pk")

    def paginate_queryset(self, queryset: Any) -> list[Any] | None:
        page = super().paginate_queryset(queryset)
        return None if page is None else readable_results(page, self.request.user)

    def get_object(self) -> CheckResult:
        (result,) = readable_results([super().get_object()], self.request.user)
        return result
