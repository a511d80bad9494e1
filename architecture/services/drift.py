"""Drift of an environment, adoption of tables as baseline, and import of state files."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db import transaction
from django.db.models import Count, Max

from architecture.domain.change_policy import PolicySet
from architecture.domain.report import FILES, ChangeReport, Scope, build_report
from architecture.domain.states import current_state as domain
from architecture.domain.states.current_state import CurrentState, DatasetDrift, Placed
from architecture.domain.states.state_files import ArchitectureState, dump_state, flat, of_row, parse_state
from architecture.domain.workflow import Refused
from architecture.models import AppliedDataset, Environment, KeptHistory
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.selectors.environments import applied_states, described_states
from architecture.services.change_policy import policy_in_force
from architecture.services.notifications import has_unread_drift, settle_drift
from architecture.services.proof import is_proven, signature_of
from architecture.services.reports import gather, refresh_state, tables_in_scope
from architecture.services.states import NOTHING, environment_or_own, last_seen, note_history, write_applied
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from metadata.domain.naming import history_dataset_key
from metadata.domain.state import DatasetState
from metadata.models import TargetSchema
from metadata.selectors.datasets import dataset_states


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
            "in_sync": self.count(domain.IN_SYNC),
            "drifted": self.count(domain.DRIFTED),
            "unknown": self.count(domain.UNKNOWN),
            "datasets": [dataset.as_json() for dataset in self.datasets],
        }


def drift_of(environment: Environment) -> Drift:
    """Return the drift between applied state and the last observations. Datasets not observed are unknown."""
    applied, seen = applied_states(environment=environment), last_seen(environment=environment)
    observed = {key: table for key, table in seen.tables.items() if not table.dropped}
    known = [state for state in applied if state.key in seen.asked or state.materialization == "view"]
    known_keys = {state.key for state in known}
    unknown = [state for state in applied if state.key not in known_keys]
    drifts = (*domain.drift(known, _without_histories(observed, unknown)), *domain.drift(unknown, None))
    return Drift(tuple(sorted(drifts, key=lambda drift: (drift.dataset, drift.key))), seen.at)


def settle_if_in_sync(environment: Environment) -> None:
    """Mark the notices about drift as read if no table is drifted any more."""
    if has_unread_drift(environment) and not drift_of(environment).count(domain.DRIFTED):
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
    seen = last_seen(environment=environment)
    for key in dataset_keys:
        if key not in known:
            raise Refused("UNKNOWN_DATASET", f"there is no dataset with the key {key}")
    if not seen.knows(dataset_keys):
        raise Refused("NOT_OBSERVED")
    observed = {key: table for key, table in seen.tables.items() if not table.dropped}
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
    state = as_seen(placed)
    if before is not None:
        note_history(environment=environment, before=before, after=state)
    return write_applied(
        environment=environment,
        state=state,
        versions=dataset_versions,
        execution=row.execution if row is not None else None,
        through=row.through if row is not None and is_proven(row) else NOTHING,
    )


def as_seen(placed: Placed) -> DatasetState:
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


# Drift for pages, cached until applied state or observations change.


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
    seen = environment.observations.aggregate(count=Count("pk"), newest=Max("observed_at"))
    inputs = repr((environment.pk, *applied.values(), *seen.values()))
    return f"drift-{hashlib.sha256(inputs.encode()).hexdigest()}"


# Comparison and import of state files. A file contains less than this installation: no layers, no keys of histories,
# and foreign keys only as technical columns. Therefore a comparison uses both sides in the form of an export, and an
# import adds the missing parts from the metadata.


METADATA = "metadata"


def report_from(previous: ArchitectureState, *, policy: PolicySet, source: str = "", target: str = "") -> ChangeReport:
    """Return the report on changing ``previous`` into the metadata's state. It is not stored."""
    scope = Scope(FILES, source=source, target=target or METADATA)
    return build_report(CurrentState.of_state(previous), _as_exported(dataset_states()), policy, scope)


def report_onto(
    desired: ArchitectureState, *, environment: str = "", source: str = "", target: str = ""
) -> ChangeReport:
    """Return the report on changing an environment into ``desired``, by its change policy. It is not stored.

    ``environment`` is a name, default the installation's own. Raises Refused NOT_OBSERVED if applied tables were
    never observed.
    """
    row = environment_or_own(environment)
    refresh_state(environment=row, keys=lambda: tables_in_scope(environment=row, scope=Scope()))
    current = gather(environment=row, scope=Scope(), desired=()).current
    observed = _as_exported(as_seen(placed) for placed in current.datasets if placed.base is not None)
    scope = Scope(FILES, source=source or row.name, target=target)
    return build_report(CurrentState.of_state(observed), desired, policy_in_force(row), scope, row.name)


def _as_exported(states: Iterable[DatasetState]) -> ArchitectureState:
    """Return the states as an exported state file has them."""
    return parse_state(dump_state(ArchitectureState(tuple(states))))


# --- importing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imported:
    """Names of the datasets that were (or would be) imported, and of those that were already applied unchanged."""

    imported: tuple[str, ...]
    unchanged: tuple[str, ...]


@transaction.atomic
def import_state(
    *, environment: Environment, state: ArchitectureState, user: Any, reason: str, check: bool = False
) -> Imported:
    """Store a file's datasets as applied: the baseline of a warehouse that another installation filled.

    Only datasets without an applied state are imported. The warehouse is not changed; drift shows the differences.
    With ``check``, nothing is written. Writes change-log entries. Raises Refused for the whole file: ALREADY_APPLIED
    for a dataset with another applied state, BAD_KEY for a key that is no UUID, UNKNOWN_LAYER for an unknown schema.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_environment(environment))
    if not reason.strip() and not check:
        raise Refused("NO_REASON")
    Environment.objects.select_for_update().get(pk=environment.pk)
    described = {dataset_state.key: flat(dataset_state) for dataset_state in dataset_states()}
    datasets = [_complete(dataset, described.get(dataset.key)) for dataset in state.datasets]
    applied = {applied_state.key: applied_state for applied_state in applied_states(environment=environment)}
    _refuse_applied(datasets, applied)
    new = [dataset for dataset in datasets if dataset.key not in applied]
    same = [dataset.qualified_name for dataset in datasets if dataset.key in applied]
    if not check:
        with on_behalf_of(user):
            for dataset in new:
                _import_dataset(environment, dataset, reason.strip())
    return Imported(tuple(dataset.qualified_name for dataset in new), tuple(same))


def _complete(dataset: DatasetState, described: DatasetState | None) -> DatasetState:
    """Return a file's dataset with the attributes that a file does not contain."""
    try:
        key = UUID(dataset.key)
    except ValueError:
        message = f"{dataset.qualified_name} has the key {dataset.key!r}, under which no table can lie: it is no UUID"
        raise Refused("BAD_KEY", message) from None
    dataset = replace(dataset, key=str(key))
    if described is None:
        history = str(history_dataset_key(key)) if dataset.historize else None
        return replace(dataset, layer=_layer_of(dataset), history_key=history)
    roles = {column.key: column.role for column in described.columns}
    columns = tuple(_with_role(column, roles.get(column.key, column.role)) for column in dataset.columns)
    return replace(
        dataset,
        columns=columns,
        layer=described.layer if described.schema == dataset.schema else _layer_of(dataset),
        history_key=described.history_key or (str(history_dataset_key(key)) if dataset.historize else None),
        hash_version=described.hash_version,
    )


def _with_role(column: Any, role: str) -> Any:
    """Return the column as a foreign key if ``role`` says so: a file has it as a technical column."""
    return replace(column, role=role) if (column.role, role) == ("technical", "foreign_key") else column


def _layer_of(dataset: DatasetState) -> str:
    layer = TargetSchema.objects.filter(name=dataset.schema).values_list("layer", flat=True).first()
    if layer is None:
        message = f"{dataset.qualified_name} lies in a schema that is not described here, so its layer is not known"
        raise Refused("UNKNOWN_LAYER", message)
    return layer


def _refuse_applied(datasets: Iterable[DatasetState], applied: dict[str, DatasetState]) -> None:
    names = {state.qualified_name.lower(): state for state in applied.values()}
    for dataset in datasets:
        known = applied.get(dataset.key)
        if known is not None and _comparable(known) != _comparable(dataset):
            raise Refused("ALREADY_APPLIED", f"{dataset.qualified_name} was applied here already, and otherwise")
        other = names.get(dataset.qualified_name.lower())
        if known is None and other is not None:
            message = f"{dataset.qualified_name} was applied here already, under the key {other.key}"
            raise Refused("ALREADY_APPLIED", message)


def _comparable(dataset: DatasetState) -> str:
    """Return a dataset's state in a form that does not depend on the order of its parts."""
    return dump_state(ArchitectureState((dataset,)))


def _import_dataset(environment: Environment, dataset: DatasetState, reason: str) -> AppliedDataset:
    """Store a file's dataset as applied. This executes no edits: authors stay, and the importing user is added."""
    keys = {dataset.key} | ({dataset.history_key} if dataset.history_key else set())
    seen = last_seen(environment=environment, keys=keys)
    # A retained history is resumed only by a report, which another user approves.
    key = dataset.history_key
    retained = key is not None and KeptHistory.objects.filter(environment=environment, history_key=key).exists()
    row = write_applied(
        environment=environment,
        state=replace(dataset, historize=dataset.historize and not retained),
        versions={key: table.version for key, table in seen.tables.items()},
        execution=None,
        through=NOTHING,
    )
    record_change(
        action="imported",
        subject_kind="baseline",
        subject_key=f"{environment}/{dataset.key}",
        subject_name=f"{dataset.qualified_name} in {environment}",
        after={"dataset": dataset.qualified_name},
        dataset_key=UUID(dataset.key),
        reason=reason,
    )
    return row
