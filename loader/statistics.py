"""Figures about loading that pages show: totals of runs, contents of the warehouse, failures, drift, leases."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import BigIntegerField, Count, Exists, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils import timezone

from architecture.domain.states.drift import DRIFTED, IN_SYNC, UNKNOWN
from architecture.drift_pages import current_drift
from architecture.models import Environment, Execution
from architecture.selectors import leases_held
from elevata.jobs import states
from loader.domain.runs.maintenance import BRINGING, COMPACT
from loader.models import DatasetRun, LoadRun, Schedule
from loader.selectors import schedules
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
    """Return the runs in their order, each with its totals, by one query."""
    totals = {run.pk: RunTotals(run) for run in runs}
    counted = DatasetRun.objects.filter(run__in=list(totals)).exclude(kind="raw").order_by().values("run_id")
    for sums in counted.annotate(**{f"all_{name}": sum_of(name) for name in ("rows", *CHANGES)}):
        total = totals[sums["run_id"]]
        total.rows = sums["all_rows"]
        total.changes = {name: sums[f"all_{name}"] for name in CHANGES if sums[f"all_{name}"] is not None}
    return list(totals.values())


def sum_of(count: str) -> Sum:
    """Return the database sum of one of the datasets' counts; NULL where no dataset counted it."""
    return Sum(Cast(KT(f"counts__{count}"), BigIntegerField()))


def newest_succeeded(keys: Collection | None = None) -> QuerySet[DatasetRun]:
    """Return each dataset's row of the newest run that succeeded on it, compaction aside.

    ``keys`` limits the datasets by their stable keys.
    """
    succeeded = DatasetRun.objects.filter(status=DatasetRun.Status.SUCCEEDED).exclude(run__kind=COMPACT).order_by()
    if keys is not None:
        succeeded = succeeded.filter(dataset_key__among=keys)
    newest = succeeded.values("dataset_key").annotate(newest=Max("pk")).values("newest")
    return DatasetRun.objects.filter(pk__in=newest)


@dataclass(frozen=True)
class Warehouse:
    """Contents of the history tables after their newest loads."""

    open_versions: int
    versions: int
    loaded_at: datetime | None


def warehouse() -> Warehouse:
    """Return the sums over the newest loads; zero where nothing was loaded."""
    sums = newest_succeeded().aggregate(open=sum_of("open"), versions=sum_of("versions"), at=Max("finished_at"))
    return Warehouse(sums["open"] or 0, sums["versions"] or 0, sums["at"])


@dataclass
class LastLoad:
    """A dataset's newest run, however it ended, and the counts of its newest run that succeeded."""

    newest: DatasetRun
    counts: dict[str, int] = field(default_factory=dict)


def last_loads(keys: Iterable) -> dict[str, LastLoad]:
    """Return the last loads of the given datasets, by stable key."""
    wanted = list(keys)
    rows = DatasetRun.objects.filter(dataset_key__among=wanted).order_by()
    newest = rows.values("dataset_key").annotate(newest=Max("pk")).values("newest")
    found = {
        str(row.dataset_key): LastLoad(row) for row in DatasetRun.objects.filter(pk__in=newest).select_related("run")
    }
    for row in newest_succeeded(wanted):
        found[str(row.dataset_key)].counts = row.counts
    return found


def usual_seconds(run: LoadRun) -> dict[str, float]:
    """Return the seconds each dataset took in the newest earlier run that succeeded, by stable key.

    Only runs of the same kind, scope and environment count.
    """
    same = LoadRun.objects.filter(kind=run.kind, scope=run.scope, environment=run.environment, pk__lt=run.pk)
    before = same.filter(status=LoadRun.Status.SUCCEEDED).order_by("-pk").first()
    if before is None:
        return {}
    took = DatasetRun.objects.filter(run=before, seconds__isnull=False).values_list("dataset_key", "seconds")
    return {str(key): seconds for key, seconds in took}


def troubles(limit: int = 8) -> list[DatasetRun]:
    """Return datasets whose newest finished run failed and was requested in the last seven days, newest first."""
    newer = DatasetRun.objects.filter(
        dataset_key=OuterRef("dataset_key"), pk__gt=OuterRef("pk"), status__in=DatasetRun.FINISHED
    )
    found = DatasetRun.objects.filter(
        ~Exists(newer.order_by()),
        status=DatasetRun.Status.FAILED,
        run__requested_at__gte=timezone.now() - TROUBLE_SINCE,
    )
    return list(found.select_related("run").order_by("-run__requested_at", "ordinal")[:limit])


def failing_schedules(environment: Environment) -> list[Schedule]:
    """Return the active schedules whose newest run failed, was blocked or was lost."""
    failed = (LoadRun.Status.FAILED, LoadRun.Status.BLOCKED, LoadRun.Status.LOST)
    return list(schedules(environment=environment).filter(active=True, last_run__status__in=failed))


@dataclass(frozen=True)
class DriftGlance:
    """Numbers of datasets by drift state; ``at`` is when the warehouse was last checked (None: never)."""

    in_sync: int
    drifted: int
    unknown: int
    at: datetime | None

    @property
    def total(self) -> int:
        return self.in_sync + self.drifted + self.unknown


def drift_glance(environment: Environment) -> DriftGlance:
    """Return the drift figures of an environment."""
    drift = current_drift(environment)
    return DriftGlance(drift.count(IN_SYNC), drift.count(DRIFTED), drift.count(UNKNOWN), drift.at)


@dataclass(frozen=True)
class LeasesHeld:
    """Number of leases in force, and of those whose holder has not sent a heartbeat lately."""

    count: int
    quiet: int


def leases_in_force(environment: Environment) -> LeasesHeld:
    quiet = Q(heartbeat_at__lt=timezone.now() - states.LOST_AFTER)
    held = leases_held(environment=environment).order_by()
    return LeasesHeld(**held.aggregate(count=Count("pk"), quiet=Count("pk", filter=quiet)))


def executions_of(run: LoadRun) -> list[Execution]:
    """Return the executions of structural changes made for a run, in all its attempts, with their operations."""
    named = Q(reason=f"load run {run.run_id}"[:200])
    found = Execution.objects.filter(named | Q(pk=run.execution_id)).order_by("pk")
    return list(found.prefetch_related("operations"))


def load_times(dataset: TargetDataset, limit: int = 8) -> list[LoadRun]:
    """Return the newest runs that brought rows into a dataset and were not reverted, newest first.

    Pages offer their load timestamps as instants to look at.
    """
    base = dataset.history_of_id or dataset.pk
    rows = DatasetRun.objects.filter(
        dataset_id=base, status=DatasetRun.Status.SUCCEEDED, run__kind__in=BRINGING, reverted_by__isnull=True
    )
    return [row.run for row in rows.select_related("run").order_by("-run__load_timestamp")[:limit]]
