"""Queries about loading that pages, the API and commands share: runs, statements of datasets, statistics."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    Exists,
    IntegerField,
    Max,
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
from django.urls import reverse
from django.utils import timezone

from architecture.domain.current_state import DRIFTED, IN_SYNC, UNKNOWN
from architecture.models import Environment, Execution
from architecture.selectors.environments import executions, leases_held
from architecture.services.drift import current_drift
from architecture.services.states import current_environment
from elevata.core.errors import ProductError
from elevata.jobs import states
from elevata.web.subjects import Subject
from loader.domain.historization.layers import history_sql, layer_sql
from loader.domain.run_states import BRINGING, OF_FILES, VACUUM
from loader.models import DatasetRun, LoadRun, ReadRequest, RunEvent, SavedQuery, Schedule
from loader.services.sources.specs import source_datasets, source_of, source_spec
from metadata.domain.quality.unknown_parents import GHOST, KEEP
from metadata.domain.state import DatasetState
from metadata.models import DatasetInput, Reference, TargetDataset
from metadata.selectors.datasets import dataset_states


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


def schedules(*, environment: Environment | None = None) -> QuerySet[Schedule]:
    """Return the schedules of an environment (by default this installation's) by name, with their newest runs."""
    chosen = environment or current_environment()
    return Schedule.objects.filter(environment=chosen).select_related("environment", "last_run").order_by("name", "pk")


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


def read_requests() -> QuerySet[ReadRequest]:
    return ReadRequest.objects.select_related("dataset__schema", "environment")


def queries_of(user: Any) -> QuerySet[ReadRequest]:
    """Return the SQL queries that a user ran on the page or by the API."""
    return read_requests().filter(requested_by=user, kind="sql")


def trials_of(user: Any) -> QuerySet[ReadRequest]:
    """Return the trials of models that a user requested."""
    return read_requests().filter(requested_by=user, kind="try_model")


def saved_queries(user: Any) -> QuerySet[SavedQuery]:
    """Return the user's saved queries and the shared ones of others, by name."""
    queries = SavedQuery.objects.filter(Q(owner=user.pk) | Q(shared=True))
    return queries.select_related("owner").order_by("name", "pk")


def schedule_subject(key: UUID) -> Subject | None:
    """Return the schedule with this key as a subject of favourites; None if there is none."""
    schedule = Schedule.objects.filter(key=key).first()
    return schedule and Subject("schedule", key, f"the schedule {schedule}", reverse("schedule_page", args=[key]))


def saved_query_subject(key: UUID) -> Subject | None:
    """Return the saved query with this key as a subject of favourites; None if there is none."""
    saved = SavedQuery.objects.filter(key=key).first()
    return saved and Subject("saved_query", key, f"the query {saved}", f"{reverse('sql_page')}?saved={key}")


def dataset_sql(dataset: TargetDataset) -> str:
    """Return the statement of a dataset, or a comment line with the reason if there is none."""
    by_key = {state.key: state for state in dataset_states()}
    base = dataset.history_of or dataset
    state = by_key[str(base.key)]
    try:
        if dataset.history_of_id is not None:
            return history_sql(state, by_key)
        source = None
        if state.layer == "raw":
            specs = {key: source_spec(source_dataset) for key, source_dataset in source_datasets([state]).items()}
            source = source_of(state, specs)
        return layer_sql(state, by_key, source)
    except ProductError as refusal:
        return f"-- {refusal.one_line()}"


# Statements of a dataset and of its upstream layers, for its page.


@dataclass(frozen=True)
class Statement:
    """Statement of one layer; ``problem`` is the reason if there is none."""

    dataset: TargetDataset
    sql: str = ""
    problem: str = ""


def statements(dataset: TargetDataset) -> list[Statement]:
    """Return the statements in the order of the data flow, from the raw datasets to the dataset's history."""
    base = dataset.history_of or dataset
    upstream = _upstream_of(base.pk)
    parents = Reference.objects.filter(child=base).exclude(unknown_parent=KEEP).values("parent")
    children = Reference.objects.filter(parent=base, unknown_parent=GHOST).values("child")
    datasets = TargetDataset.objects.filter(Q(pk__in=upstream) | Q(pk__in=parents) | Q(pk__in=children))
    by_key = {state.key: state for state in dataset_states(datasets)}
    rows = {
        str(row.key): row
        for row in TargetDataset.objects.filter(pk__in=upstream).select_related("schema", "history__schema")
    }
    states = [state for state in by_key.values() if state.key in rows]
    result = [_statement(rows[state.key], state, by_key) for state in _upstreams_first(states, by_key)]
    state = by_key[str(base.key)]
    if state.historize and state.history_key:
        result.append(_statement_or_problem(rows[state.key].history, lambda: history_sql(state, by_key)))
    return result


def _upstream_of(pk: int) -> set[int]:
    """Return the ids of the dataset and of all its direct and indirect upstreams, with one query for each level."""
    pks, level = {pk}, {pk}
    while level:
        inputs = DatasetInput.objects.filter(dataset__in=level, upstream__isnull=False).order_by()
        level = set(inputs.values_list(Coalesce("upstream__history_of_id", "upstream_id"), flat=True)) - pks
        pks |= level
    return pks


def _upstreams_first(states: Iterable[DatasetState], by_key: dict[str, DatasetState]) -> list[DatasetState]:
    """Return the states in an order in which upstreams come first."""
    ordered: dict[str, DatasetState] = {}

    def visit(state: DatasetState, path: tuple[str, ...]) -> None:
        if state.key in ordered or state.key in path:
            return
        for key in state.inputs:
            if key in by_key:
                visit(by_key[key], (*path, state.key))
        ordered[state.key] = state

    for state in states:
        visit(state, ())
    return list(ordered.values())


def _statement(row: TargetDataset, state: DatasetState, by_key: dict[str, DatasetState]) -> Statement:
    def sql() -> str:
        source = None
        if state.layer == "raw":
            source = source_of(
                state, {key: source_spec(source_dataset) for key, source_dataset in source_datasets([state]).items()}
            )
        return layer_sql(state, by_key, source)

    return _statement_or_problem(row, sql)


def _statement_or_problem(row: TargetDataset, render) -> Statement:
    try:
        return Statement(row, sql=render())
    except ProductError as refusal:
        return Statement(row, problem=refusal.one_line())


# Statistics for pages: totals of runs, contents of the warehouse, failures, drift, leases.


CHANGES = ("new", "changed", "deleted", "reappeared")
TROUBLE_SINCE = timedelta(days=7)


@dataclass
class RunTotals:
    """Load run with the sums of its rawcore datasets' counts."""

    run: LoadRun
    rows: int | None = None
    changes: dict[str, int] = field(default_factory=dict)


def with_totals(runs: Iterable[LoadRun]) -> list[RunTotals]:
    """Return the runs with their totals, by one query."""
    totals = {run.pk: RunTotals(run) for run in runs}
    counted = DatasetRun.objects.filter(run__in=list(totals)).exclude(kind="raw").order_by().values("run_id")
    for sums in counted.annotate(**{f"all_{name}": sum_of(name) for name in ("rows", *CHANGES)}):
        total = totals[sums["run_id"]]
        total.rows = sums["all_rows"]
        total.changes = {name: sums[f"all_{name}"] for name in CHANGES if sums[f"all_{name}"] is not None}
    return list(totals.values())


def sum_of(count: str) -> Sum:
    """Return the SQL sum of one of the datasets' counts; NULL if no dataset has it."""
    return Sum(Cast(KT(f"counts__{count}"), BigIntegerField()))


def newest_succeeded(keys: Collection | None = None) -> QuerySet[DatasetRun]:
    """Return each dataset's row in its newest run that succeeded, except compactions and vacuums.

    ``keys`` restricts the datasets by their stable keys.
    """
    return DatasetRun.objects.filter(pk__in=_newest(_succeeded(keys)))


def newest_loads(environment: Environment) -> QuerySet[DatasetRun]:
    """Return the newest load of each active dataset that succeeded in an environment and was not reverted."""
    loads = {"run__kind__in": BRINGING, "run__environment": environment, "reverted_by": None, "dataset__active": True}
    return DatasetRun.objects.filter(pk__in=_newest(_succeeded(None).filter(**loads)))


def _succeeded(keys: Collection | None) -> QuerySet[DatasetRun]:
    succeeded = DatasetRun.objects.filter(status=DatasetRun.Status.SUCCEEDED).exclude(run__kind__in=OF_FILES).order_by()
    return succeeded if keys is None else succeeded.filter(dataset_key__among=keys)


def _newest(rows: QuerySet[DatasetRun]) -> QuerySet:
    """Return the primary key of each dataset's newest row."""
    return rows.values("dataset_key").annotate(newest=Max("pk")).values("newest")


def disk_use(key: Any) -> DatasetRun | None:
    """Return the dataset's row in the newest vacuum, or dry run of one, in this environment."""
    measured = DatasetRun.objects.filter(dataset_key=key, run__kind=VACUUM, status=DatasetRun.Status.SUCCEEDED)
    in_environment = measured.filter(run__environment=current_environment())
    return in_environment.select_related("run").order_by("-finished_at", "-pk").first()


@dataclass(frozen=True)
class KeptDelivery:
    """Delivery in a raw table; ``removable``: the retention no longer keeps it."""

    run_id: str
    loaded_at: datetime
    rows: int
    bytes: int
    removable: bool


@dataclass(frozen=True)
class KeptDeliveries:
    """Deliveries in a raw table after its newest vacuum or dry run; ``listed`` has the oldest ones, newest first."""

    count: int
    listed: tuple[KeptDelivery, ...]

    @property
    def oldest(self) -> datetime:
        return self.listed[-1].loaded_at

    @property
    def bytes(self) -> int:
        return sum(delivery.bytes for delivery in self.listed)


def kept_deliveries(measured: DatasetRun | None) -> KeptDeliveries | None:
    """Return the deliveries of ``disk_use``; None if nothing was measured, or the table has no delivery."""
    tables = measured.run.details.get("tables", {}) if measured is not None else {}
    for table in tables.values():
        if table.get("deliveries"):
            listed = [item for item in table["deliveries_listed"] if not item.get("removed")]
            return KeptDeliveries(table["deliveries"], tuple(map(_kept_delivery, listed)))
    return None


def _kept_delivery(item: Mapping[str, Any]) -> KeptDelivery:
    at = datetime.fromisoformat(item["loaded_at"])
    return KeptDelivery(item["run_id"], at, item["rows"], item["bytes"], bool(item.get("removable")))


@dataclass(frozen=True)
class Warehouse:
    """Numbers of versions in the history tables after their newest loads."""

    open_versions: int
    versions: int
    loaded_at: datetime | None


def warehouse() -> Warehouse:
    """Return the sums over the newest loads; 0 if nothing was loaded."""
    sums = newest_succeeded().aggregate(open=sum_of("open"), versions=sum_of("versions"), at=Max("finished_at"))
    return Warehouse(sums["open"] or 0, sums["versions"] or 0, sums["at"])


@dataclass
class LastLoad:
    """Newest load of a dataset, whatever its end, and the counts after its newest run that changed rows."""

    newest: DatasetRun
    counts: dict[str, int] = field(default_factory=dict)


def last_loads(keys: Iterable) -> dict[str, LastLoad]:
    """Return the last loads of the datasets with these stable keys, by key."""
    key_list = list(keys)
    rows = DatasetRun.objects.filter(dataset_key__among=key_list, run__kind__in=BRINGING).order_by()
    newest = DatasetRun.objects.filter(pk__in=_newest(rows)).select_related("run")
    loads = {str(row.dataset_key): LastLoad(row) for row in newest}
    # A prune or revert counts only what it changed, so its counts are added to those of the load.
    loaded = DatasetRun.objects.filter(pk__in=_newest(_succeeded(key_list).filter(run__kind__in=BRINGING)))
    for row in (loaded | newest_succeeded(key_list)).order_by("pk"):
        if (load := loads.get(str(row.dataset_key))) is not None:
            load.counts |= row.counts
    return loads


@dataclass(frozen=True)
class ListedDataset:
    """Target dataset of a list with its last load; a history has that of its base."""

    dataset: TargetDataset
    load: LastLoad | None

    @property
    def loaded_at(self) -> datetime | None:
        return self.load.newest.run.requested_at if self.load is not None else None

    @property
    def load_status(self) -> str | None:
        return self.load.newest.status if self.load is not None else None

    @property
    def rows(self) -> int | None:
        """Return the number of rows; of a history, that of its versions."""
        return self._count("versions" if self.dataset.history_of_id is not None else "rows")

    @property
    def open_versions(self) -> int | None:
        return self._count("open") if self.dataset.history_of_id is not None else None

    def _count(self, name: str) -> int | None:
        return self.load.counts.get(name) if self.load is not None else None


def with_last_loads(datasets: Iterable[TargetDataset]) -> list[ListedDataset]:
    """Return the datasets with their last loads, in a constant number of queries."""
    keys = {row: str((row.history_of or row).key) for row in datasets}
    loads = last_loads(keys.values())
    return [ListedDataset(row, loads.get(key)) for row, key in keys.items()]


def usual_seconds(run: LoadRun) -> dict[str, float]:
    """Return the seconds of each dataset in the newest earlier run that succeeded, by stable key.

    Only runs of the same kind, scope and environment count.
    """
    comparable = LoadRun.objects.filter(kind=run.kind, scope=run.scope, environment=run.environment, pk__lt=run.pk)
    before = comparable.filter(status=LoadRun.Status.SUCCEEDED).order_by("-pk").first()
    if before is None:
        return {}
    took = DatasetRun.objects.filter(run=before, seconds__isnull=False).values_list("dataset_key", "seconds")
    return {str(key): seconds for key, seconds in took}


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


def failing_schedules(environment: Environment) -> list[Schedule]:
    """Return the active schedules whose newest run failed, was blocked or was lost."""
    failed = (LoadRun.Status.FAILED, LoadRun.Status.BLOCKED, LoadRun.Status.LOST)
    return list(schedules(environment=environment).filter(active=True, last_run__status__in=failed))


@dataclass(frozen=True)
class DriftGlance:
    """Numbers of datasets by drift state; ``at`` is the time of the last check (None: never)."""

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
    """Number of leases in force, and of those whose holder's heartbeat is overdue."""

    count: int
    quiet: int


def leases_in_force(environment: Environment) -> LeasesHeld:
    quiet = Q(heartbeat_at__lt=timezone.now() - states.LOST_AFTER)
    leases = leases_held(environment=environment).order_by()
    return LeasesHeld(**leases.aggregate(count=Count("pk"), quiet=Count("pk", filter=quiet)))


def executions_of(run: LoadRun) -> list[Execution]:
    """Return the executions of structural changes for a run, in all its attempts, with their operations."""
    by_reason = Q(reason=f"load run {run.run_id}"[:200])
    rows = Execution.objects.filter(by_reason | Q(pk=run.execution_id)).order_by("pk")
    return list(rows.prefetch_related("operations"))


def table_versions(dataset: TargetDataset, limit: int = 50) -> list[tuple[int, str]]:
    """Return the Delta versions that the newest runs left of a dataset's table, with their runs in words.

    The table is the history of a dataset with one.
    """
    base = dataset.history_of_id or dataset.pk
    rows = DatasetRun.objects.filter(
        dataset_id=base,
        status=DatasetRun.Status.SUCCEEDED,
        run__environment=current_environment(),
        table_version_after__isnull=False,
    )
    newest = rows.select_related("run").order_by("-table_version_after", "-pk")[:limit]
    versions = {row.table_version_after: row.run for row in reversed(newest)}
    return [
        (version, f"{version} · {run.load_timestamp:%Y-%m-%d %H:%M} UTC · {run.run_id}")
        for version, run in sorted(versions.items(), reverse=True)
    ]


def load_times(dataset: TargetDataset, limit: int = 8) -> list[LoadRun]:
    """Return the newest runs that delivered rows to a dataset and are not reverted, newest first.

    Pages offer their load timestamps as times of the history.
    """
    base = dataset.history_of_id or dataset.pk
    rows = DatasetRun.objects.filter(
        dataset_id=base, status=DatasetRun.Status.SUCCEEDED, run__kind__in=BRINGING, reverted_by__isnull=True
    )
    return [row.run for row in rows.select_related("run").order_by("-run__load_timestamp")[:limit]]
