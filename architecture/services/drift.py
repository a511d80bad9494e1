"""Drift of an environment, and adoption of tables as baseline."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db import transaction
from django.db.models import Count, Max

from architecture.domain.refusals import Refused
from architecture.domain.states import current_state as domain
from architecture.domain.states import dataset_drift
from architecture.domain.states.current_state import CurrentState, Placed
from architecture.domain.states.dataset_drift import DatasetDrift
from architecture.domain.states.flat_states import of_row
from architecture.models import AppliedDataset, Environment, KeptHistory
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.selectors.dataset_states import applied_states, described_states
from architecture.services.notifications import has_unread_drift, settle_drift
from architecture.services.observations import last_observations
from architecture.services.row_signatures import is_proven, signature_of
from architecture.services.states import NOTHING, note_history, write_applied
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Drift:
    """Drift of an environment. ``at`` is the time of the observations, None if there are none."""

    datasets: tuple[DatasetDrift, ...]
    at: datetime | None

    def of(self, status: str) -> tuple[DatasetDrift, ...]:
        return tuple(dataset for dataset in self.datasets if dataset.status == status)

    def count(self, status: str) -> int:
        return len(self.of(status))

    def as_json(self) -> dict[str, Any]:
        return {
            "observed_at": self.at.isoformat() if self.at else None,
            "in_sync": self.count(dataset_drift.IN_SYNC),
            "drifted": self.count(dataset_drift.DRIFTED),
            "unknown": self.count(dataset_drift.UNKNOWN),
            "datasets": [dataset.as_json() for dataset in self.datasets],
        }


def drift_of(environment: Environment) -> Drift:
    """Return the drift between applied state and the last observations. Datasets not observed are unknown."""
    applied, observations = applied_states(environment=environment), last_observations(environment=environment)
    observed = {key: table for key, table in observations.tables.items() if not table.dropped}
    known = [state for state in applied if state.key in observations.keys or state.materialization == "view"]
    known_keys = {state.key for state in known}
    unknown = [state for state in applied if state.key not in known_keys]
    drifts = (*dataset_drift.drift(known, _without_histories(observed, unknown)), *dataset_drift.drift(unknown, None))
    return Drift(tuple(sorted(drifts, key=lambda drift: (drift.dataset, drift.key))), observations.at)


def settle_if_in_sync(environment: Environment) -> None:
    """Mark the notices about drift as read if no table is drifted any more."""
    if has_unread_drift(environment) and not drift_of(environment).count(dataset_drift.DRIFTED):
        settle_drift(environment)


def _without_histories(observed: dict, states: list[DatasetState]) -> dict:
    """Return the observed tables without the histories of these datasets."""
    keys = {state.history_key for state in states}
    return {key: table for key, table in observed.items() if key not in keys}


@transaction.atomic
def adopt_as_baseline(
    *, environment: Environment, dataset_keys: Collection[str], user: Any, reason: str
) -> tuple[AppliedDataset, ...]:
    """Adopt the observed tables of these datasets as applied state, from which the next report starts.

    The applied logic is kept; a dataset that was never applied gets the logic in the metadata, a view, too. A dataset
    without a table counts as not applied. Writes a change-log entry. Raises Refused: UNKNOWN_DATASET for keys that are
    neither in the metadata nor applied, NOT_OBSERVED for tables that were never observed.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_environment(environment))
    if not reason.strip():
        raise Refused("NO_REASON")
    Environment.objects.select_for_update().get(pk=environment.pk)
    applied, desired = applied_states(environment=environment), described_states(environment=environment)
    known = {state.key: state for state in (*desired, *applied)}
    observations = last_observations(environment=environment)
    for key in dataset_keys:
        if key not in known:
            raise Refused("UNKNOWN_DATASET", f"there is no dataset with the key {key}")
    if not observations.knows(dataset_keys):
        raise Refused("NOT_OBSERVED")
    observed = {key: table for key, table in observations.tables.items() if not table.dropped}
    placed = {dataset.state.key: dataset for dataset in CurrentState.of_warehouse(applied, observed, desired).datasets}
    histories = {
        key: {state.history_key for state in (*desired, *applied) if state.key == key and state.history_key is not None}
        for key in dataset_keys
    }
    adopted = []
    with on_behalf_of(user):
        for key in sorted(dataset_keys):
            versions = {table_key: table.version for table_key, table in observed.items()}
            is_view = known[key].materialization == "view" and key not in placed
            dataset = domain.described(known[key]) if is_view else placed.get(key)
            row = _adopt(environment, key, dataset, versions, histories[key])
            adopted += [row] if row is not None else []
            record_change(
                action="adopted",
                subject_kind="baseline",
                subject_key=f"{environment}/{key}",
                subject_name=f"{known[key].qualified_name} in {environment}",
                after={"table": row.qualified_name if row is not None else "not there"},
                dataset_key=UUID(key),
                reason=reason.strip(),
            )
        settle_if_in_sync(environment)
    return tuple(adopted)


def _adopt(
    environment: Environment, key: str, placed: Placed | None, versions: dict[str, int], histories: Collection[str]
) -> AppliedDataset | None:
    """Store a dataset as observed. The adopting user becomes an author also of logic changed outside the product."""
    rows = AppliedDataset.objects.filter(environment=environment, dataset_key=key)
    row = rows.first()
    before = of_row(row.state) if row is not None else None
    for history in KeptHistory.objects.filter(environment=environment, history_key__in=histories):
        KeptHistory.objects.filter(pk=history.pk).update(signature=signature_of(history))
    if placed is None or placed.base is None:
        note_history(environment=environment, before=before, after=None)
        rows.delete()
        return None
    dataset_versions = {table: versions[table] for table in (key, placed.state.history_key) if table in versions}
    state = as_observed(placed)
    if before is not None:
        note_history(environment=environment, before=before, after=state)
    return write_applied(
        environment=environment,
        state=state,
        versions=dataset_versions,
        execution=row.execution if row is not None else None,
        through=row.through if row is not None and is_proven(row) else NOTHING,
    )


def as_observed(placed: Placed) -> DatasetState:
    """Return the dataset with the columns of its base table, without derived technical columns."""
    assert placed.base is not None
    known = {column.key for column in placed.state.columns}
    technical = {column.key for column in placed.base.columns if column.role == "technical"} - known
    columns = tuple(
        column for column in placed.base.columns if column.key not in technical or column.key.startswith("name:")
    )
    keys = {column.key for column in columns}
    retired = tuple(column for column in placed.state.columns if not column.active and column.key not in keys)
    historized = placed.state.historize and placed.history is not None
    return replace(placed.state, columns=(*columns, *retired), historize=historized)


# Pages read drift from the cache until applied state or observations change.
# Pages read drift from the cache until applied state or observations change.
_CACHE_SECONDS = 3600


def current_drift(environment: Environment) -> Drift:
    """Return the current drift, from the cache if possible."""
    key = _cache_key(environment)
    drift = cache.get(key)
    if drift is None:
        drift = drift_of(environment)
        cache.set(key, drift, _CACHE_SECONDS)
    return drift


def known_drift(environment: Environment) -> Drift | None:
    """Return the cached current drift; None if it is not cached."""
    return cache.get(_cache_key(environment))


def _cache_key(environment: Environment) -> str:
    """Return a cache key that changes with applied state and observations."""
    applied = environment.applied_datasets.aggregate(count=Count("pk"), newest=Max("updated_at"))
    observations = environment.observations.aggregate(count=Count("pk"), newest=Max("observed_at"))
    inputs = repr((environment.pk, *applied.values(), *observations.values()))
    return f"drift-{hashlib.sha256(inputs.encode()).hexdigest()}"
