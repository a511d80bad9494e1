"""Numbers about loading that pages show: what runs did in sum, what the warehouse holds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from architecture.models import Execution
from loader.domain.governance import BRINGING, COMPACT
from loader.models import DatasetRun, LoadRun
from metadata.models import TargetDataset

CHANGES = ("new", "changed", "deleted", "reappeared")
TROUBLE_SINCE = timedelta(days=7)


@dataclass
class RunTotals:
    """A load run with the sums of what its rawcore datasets counted."""

    run: LoadRun
    rows: int | None = None
    changes: dict[str, int] = field(default_factory=dict)


def with_totals(runs: Iterable[LoadRun]) -> list[RunTotals]:
    """Runs in their order, with their sums, in one query."""
    totals = {run.pk: RunTotals(run) for run in runs}
    counted = DatasetRun.objects.filter(run__in=list(totals)).exclude(kind="raw").order_by()
    for run_pk, counts in counted.values_list("run_id", "counts"):
        total = totals[run_pk]
        if "rows" in counts:
            total.rows = (total.rows or 0) + counts["rows"]
        for name in CHANGES:
            if name in counts:
                total.changes[name] = total.changes.get(name, 0) + counts[name]
    return list(totals.values())


def newest_succeeded() -> QuerySet[DatasetRun]:
    """Of every dataset, the row of the newest run that succeeded on it."""
    succeeded = DatasetRun.objects.filter(status=DatasetRun.Status.SUCCEEDED).exclude(run__kind=COMPACT).order_by()
    newest = succeeded.values("dataset_key").annotate(newest=Max("pk")).values("newest")
    return DatasetRun.objects.filter(pk__in=newest)


@dataclass(frozen=True)
class Warehouse:
    """What the history tables held after their newest load."""

    open_versions: int
    versions: int
    loaded_at: datetime | None


def warehouse() -> Warehouse:
    """Sums over the newest loads; zero where nothing was loaded."""
    open_versions = versions = 0
    loaded_at = None
    for counts, finished_at in newest_succeeded().order_by().values_list("counts", "finished_at"):
        open_versions += counts.get("open", 0)
        versions += counts.get("versions", 0)
        if finished_at is not None and (loaded_at is None or finished_at > loaded_at):
            loaded_at = finished_at
    return Warehouse(open_versions, versions, loaded_at)


@dataclass
class LastLoad:
    """A dataset's newest run, whatever came of it, and what its newest success counted."""

    newest: DatasetRun
    counts: dict[str, int] = field(default_factory=dict)


def last_loads(keys: Iterable) -> dict[str, LastLoad]:
    """The last loads of the given datasets, by stable key."""
    wanted = list(keys)
    rows = DatasetRun.objects.filter(dataset_key__in=wanted).order_by()
    newest = rows.values("dataset_key").annotate(newest=Max("pk")).values("newest")
    found = {
        str(row.dataset_key): LastLoad(row) for row in DatasetRun.objects.filter(pk__in=newest).select_related("run")
    }
    for row in newest_succeeded().filter(dataset_key__in=wanted):
        found[str(row.dataset_key)].counts = row.counts
    return found


def troubles(limit: int = 8) -> list[DatasetRun]:
    """Datasets whose newest finished load failed lately, newest first."""
    finished = DatasetRun.objects.filter(status__in=DatasetRun.FINISHED).order_by()
    newest = finished.values("dataset_key").annotate(newest=Max("pk")).values("newest")
    since = timezone.now() - TROUBLE_SINCE
    found = DatasetRun.objects.filter(
        pk__in=newest, status=DatasetRun.Status.FAILED, run__requested_at__gte=since
    ).select_related("run")
    return list(found.order_by("-run__requested_at", "ordinal")[:limit])


def executions_of(run: LoadRun) -> list[Execution]:
    """The structural changes made for a run, in all its attempts, with their operations."""
    named = Q(reason=f"load run {run.run_id}"[:200])
    found = Execution.objects.filter(named | Q(pk=run.execution_id)).order_by("pk")
    return list(found.prefetch_related("operations"))


def load_times(dataset: TargetDataset, limit: int = 8) -> list[LoadRun]:
    """The newest runs that succeeded on a dataset: instants worth looking at."""
    base = dataset.history_of_id or dataset.pk
    rows = DatasetRun.objects.filter(
        dataset_id=base, status=DatasetRun.Status.SUCCEEDED, run__kind__in=BRINGING, reverted_by__isnull=True
    )
    return [row.run for row in rows.select_related("run").order_by("-run__load_timestamp")[:limit]]
