"""Load runs and executions for lists and pages."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    Exists,
    IntegerField,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from architecture.models import Environment, Execution
from architecture.selectors.executions import executions
from elevata.jobs import states
from loader.models import DatasetRun, LoadRun, RunEvent
from metadata.models import TargetDataset

CHANGES = ("new", "changed", "deleted", "reappeared")


def load_runs() -> QuerySet[LoadRun]:
    """Return load runs for lists, newest first, with their numbers of datasets by state."""
    return newest_runs().annotate(
        dataset_count=_dataset_count(),
        finished_count=_dataset_count(status__in=DatasetRun.FINISHED),
        failed_count=_dataset_count(status=DatasetRun.Status.FAILED),
        skipped_count=_dataset_count(status=DatasetRun.Status.SKIPPED),
    )


def newest_runs() -> QuerySet[LoadRun]:
    """Return load runs, newest first, without numbers of datasets."""
    return LoadRun.objects.select_related("environment", "requested_by", "schedule").order_by("-requested_at", "-id")


def _dataset_count(**fields: Any) -> Coalesce:
    """Return the subquery for the number of a run's datasets with these field values."""
    rows = DatasetRun.objects.filter(run=OuterRef("pk"), **fields).order_by().values("run")
    return Coalesce(Subquery(rows.annotate(count=Count("pk")).values("count")), 0)


def load_run_detail() -> QuerySet[LoadRun]:
    """Return load runs with their datasets in load order."""
    rows = DatasetRun.objects.select_related("dataset__schema", "reverted_by").order_by("ordinal")
    return load_runs().select_related("execution").prefetch_related(Prefetch("datasets", rows))


def active_runs() -> QuerySet[LoadRun]:
    """Return queued and running load runs, running ones first."""
    place = Case(When(status=states.QUEUED, then=Value(1)), default=Value(0), output_field=IntegerField())
    return load_runs().filter(status__in=states.ACTIVE).order_by(place, "requested_at")


def active_executions(*, environment: Environment) -> QuerySet[Execution]:
    """Return queued and running executions, oldest first."""
    return executions(environment=environment).filter(status__in=states.ACTIVE).order_by("pk")


def run_events(*, run: LoadRun, after: int = 0) -> QuerySet[RunEvent]:
    """Return a run's log after the line with the id ``after``, oldest first."""
    return RunEvent.objects.filter(run=run, pk__gt=after).order_by("pk")


def dataset_runs(*, dataset: TargetDataset) -> QuerySet[DatasetRun]:
    """Return a dataset's rows in its runs, newest first; of a history, those of its base."""
    return (
        DatasetRun.objects.filter(dataset_id=dataset.history_of_id or dataset.pk)
        .select_related("run", "run__requested_by", "reverted_by")
        .order_by("-run__requested_at", "-pk")
    )


TROUBLE_SINCE = timedelta(days=7)


@dataclass
class RunTotals:
    """Load run with the sums of its rawcore datasets' counts, and of the quarantined rows of all its datasets."""

    run: LoadRun
    rows: int | None = None
    quarantined: int | None = None
    changes: dict[str, int] = field(default_factory=dict)


def with_totals(runs: Iterable[LoadRun]) -> list[RunTotals]:
    """Return the runs with their totals, by one query."""
    totals = {run.pk: RunTotals(run) for run in runs}
    counted = DatasetRun.objects.filter(run__in=list(totals)).order_by().values("run_id")
    sums_of = {f"all_{name}": sum_of(name, ~Q(kind="raw")) for name in ("rows", *CHANGES)}
    with_sums: Iterable[Any] = counted.annotate(**sums_of, quarantined=sum_of("quarantined"))
    for sums in with_sums:
        total = totals[sums["run_id"]]
        total.rows, total.quarantined = sums["all_rows"], sums["quarantined"]
        total.changes = {name: sums[f"all_{name}"] for name in CHANGES if sums[f"all_{name}"] is not None}
    return list(totals.values())


def sum_of(count: str, where: Q | None = None) -> Sum:
    """Return the SQL sum of a count over the dataset runs that match ``where``; NULL if none has it."""
    return Sum(Cast(KT(f"counts__{count}"), BigIntegerField()), filter=where)


def usual_seconds(run: LoadRun) -> dict[str, float]:
    """Return the seconds of each dataset in the newest earlier run that succeeded, by stable key.

    Only runs of the same kind, scope and environment count.
    """
    comparable = LoadRun.objects.filter(kind=run.kind, scope=run.scope, environment=run.environment, pk__lt=run.pk)
    before = comparable.filter(status=LoadRun.Status.SUCCEEDED).order_by("-pk").first()
    if before is None:
        return {}
    took = DatasetRun.objects.filter(run=before, seconds__isnull=False).values_list("dataset_key", "seconds")
    return {str(key): seconds for key, seconds in took if seconds is not None}


def troubles(limit: int = 8) -> list[DatasetRun]:
    """Return datasets whose newest finished run failed, if it was requested in the last seven days, newest first."""
    newer = DatasetRun.objects.filter(
        dataset_key=OuterRef("dataset_key"), pk__gt=OuterRef("pk"), status__in=DatasetRun.FINISHED
    )
    failed = DatasetRun.objects.filter(
        ~Exists(newer.order_by()),
        status=DatasetRun.Status.FAILED,
        run__requested_at__gte=timezone.now() - TROUBLE_SINCE,
    )
    return list(failed.select_related("run").order_by("-run__requested_at", "ordinal")[:limit])


def executions_of(run: LoadRun) -> list[Execution]:
    """Return the executions of structural changes for a run, in all its attempts, with their operations."""
    by_reason = Q(reason=f"load run {run.run_id}"[:200])
    rows = Execution.objects.filter(by_reason | Q(pk=run.execution_id)).order_by("pk")
    return list(rows.prefetch_related("operations"))
