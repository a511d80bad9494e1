"""Last loads of datasets, and the state of the warehouse and its tables."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet

from architecture.domain.states.dataset_drift import DRIFTED, IN_SYNC, UNKNOWN
from architecture.models import Environment
from architecture.selectors.environments import leases_held
from architecture.services.drift import current_drift
from architecture.services.environments import current_environment
from elevata.core.database import is_silent
from elevata.jobs import states
from loader.contract.run_states import BRINGING, OF_FILES, VACUUM
from loader.domain.dependencies import LOADED_LAYERS
from loader.models import DatasetRun, LoadRun
from loader.selectors.runs import sum_of
from metadata.domain.history.history_policy import BATCH_FILES
from metadata.models import TargetDataset


def is_loadable(dataset: TargetDataset) -> bool:
    """Return True if load runs write this dataset's table from its inputs."""
    if not dataset.active or dataset.materialization != "table" or dataset.history_of_id:
        return False
    is_written = dataset.schema.layer in LOADED_LAYERS or bool(dataset.select)
    return is_written and dataset.history_policy.get("input") != BATCH_FILES


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
    leases = leases_held(environment=environment).only("heartbeat_at")
    quiet = [is_silent(lease, states.LOST_AFTER) for lease in leases]
    return LeasesHeld(len(quiet), sum(quiet))


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
    versions = {row.table_version_after or 0: row.run for row in reversed(newest)}
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
