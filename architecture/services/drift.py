"""Drift, adoption as baseline, and import of state files."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import Count, Max

from architecture.domain import current_state as domain
from architecture.domain.change_policy import PolicySet
from architecture.domain.current_state import CurrentState, DatasetDrift, Placed
from architecture.domain.report import FILES, ChangeReport, Scope, build_report
from architecture.domain.state_files import ArchitectureState, dump_state, flat, of_row, parse_state
from architecture.domain.workflow import Refused
from architecture.models import AppliedDataset, Environment, KeptHistory
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.selectors.environments import applied_states, described_states, environment_named
from architecture.services.change_policy import policy_in_force
from architecture.services.proof import is_proven, signature_of
from architecture.services.reports import gather, refresh_state, tables_in_scope
from architecture.services.states import NOTHING, current_environment, last_seen, note_history, write_applied
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from metadata.domain.naming import history_dataset_key
from metadata.domain.state import DatasetState
from metadata.models import TargetSchema
from metadata.selectors.datasets import dataset_states


@dataclass(frozen=True)
class Drift:
    """Drift of an environment; ``at`` is the age of the observations, None if there are none."""

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
    """Return the drift between applied state and the last observations. Unobserved tables are unknown."""
    applied, seen = applied_states(environment=environment), last_seen(environment=environment)
    observed = {key: table for key, table in seen.tables.items() if not table.dropped}
    looked = [state for state in applied if state.key in seen.asked or state.materialization == "view"]
    known = {state.key for state in looked}
    unseen = [state for state in applied if state.key not in known]
    found = (*domain.drift(looked, _of_none(observed, unseen)), *domain.drift(unseen, None))
    return Drift(tuple(sorted(found, key=lambda one: (one.dataset, one.key))), seen.at)


def _of_none(observed: dict, unseen: list[DatasetState]) -> dict:
    """Return tables of no dataset; histories of datasets that were not observed do not count."""
    theirs = {state.history_key for state in unseen}
    return {key: table for key, table in observed.items() if key not in theirs}


@transaction.atomic
def adopt_as_baseline(
    *, environment: Environment, dataset_keys: Collection[str], user: Any, reason: str
) -> tuple[AppliedDataset, ...]:
    """Adopt the tables of these datasets as applied state; the next report starts from there.

    Logic stays as applied, or, if never applied, as described. A dataset without a table counts as not applied.
    Writes a change-log entry. Raises Refused UNKNOWN_DATASET for keys in neither metadata nor applied state,
    NOT_OBSERVED for tables that were never observed.
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
        key: {one.history_key for one in (*desired, *applied) if one.key == key} - {None} for key in dataset_keys
    }
    adopted = []
    with on_behalf_of(user):
        for key in sorted(dataset_keys):
            row = _adopt(environment, key, placed.get(key), {k: t.version for k, t in observed.items()}, histories[key])
            adopted += [row] if row is not None else []
            record_change(
                action="adopted",
                subject_kind="baseline",
                subject_key=f"{environment}/{key}",
                subject_name=f"{known[key].qualified_name} in {environment}",
                after={"table": row.qualified_name if row is not None else "not there"},
                dataset_key=key,
                reason=reason.strip(),
            )
    return tuple(adopted)


def _adopt(
    environment: Environment, key: str, placed: Placed | None, versions: dict[str, int], histories: Collection[str]
) -> AppliedDataset | None:
    """Store a dataset as observed. The adopting user becomes author of logic changed outside the product, too."""
    rows = AppliedDataset.objects.filter(environment=environment, dataset_key=key)
    row = rows.first()
    before = of_row(row.state) if row is not None else None
    for kept in KeptHistory.objects.filter(environment=environment, history_key__in=histories):
        KeptHistory.objects.filter(pk=kept.pk).update(signature=signature_of(kept))
    if placed is None or placed.base is None:
        note_history(environment=environment, before=before, after=None)
        rows.delete()
        return None
    own = {table: versions[table] for table in (key, placed.state.history_key) if table in versions}
    state = as_seen(placed)
    if before is not None:
        note_history(environment=environment, before=before, after=state)
    return write_applied(
        environment=environment,
        state=state,
        versions=own,
        execution=row.execution if row is not None else None,
        through=row.through if row is not None and is_proven(row) else NOTHING,
    )


def as_seen(placed: Placed) -> DatasetState:
    """Return the dataset with the columns of its base table; technical ones are derived, so they are left out."""
    assert placed.base is not None
    described = {column.key: column for column in placed.state.columns}
    technical = {column.key for column in placed.base.columns if column.role == "technical"} - set(described)
    shown = tuple(
        column for column in placed.base.columns if column.key not in technical or column.key.startswith("name:")
    )
    kept = {column.key for column in shown}
    retired = tuple(column for column in placed.state.columns if not column.active and column.key not in kept)
    keeps = placed.state.historize and placed.history is not None
    return replace(placed.state, columns=(*shown, *retired), historize=keeps)


# Drift for pages: compared once and cached until applied state or observations change.


_KEPT = 3600  # seconds


def current_drift(environment: Environment) -> Drift:
    """Return the current drift. Comparing thousands of tables takes a moment."""
    place = _place(environment)
    found = cache.get(place)
    if found is None:
        found = drift_of(environment)
        cache.set(place, found, _KEPT)
    return found


def known_drift(environment: Environment) -> Drift | None:
    """Return the cached drift; None if it would have to be computed first."""
    return cache.get(_place(environment))


def _place(environment: Environment) -> str:
    """Return a cache key that changes with either side."""
    applied = environment.applied_datasets.aggregate(count=Count("pk"), newest=Max("updated_at"))
    seen = environment.observations.aggregate(count=Count("pk"), newest=Max("observed_at"))
    moved = repr((environment.pk, *applied.values(), *seen.values()))
    return f"drift-{hashlib.sha256(moved.encode()).hexdigest()}"


# Comparison and import of state files. A file has less than this installation: no layer, no history's key, and a
# foreign key only as the technical column that it is. So a comparison uses both sides in the form of an export, and
# an import adds the missing parts from metadata.


METADATA = "metadata"


def report_from(previous: ArchitectureState, *, policy: PolicySet, source: str = "", target: str = "") -> ChangeReport:
    """Return the report on turning ``previous`` into what metadata describes. It is not stored."""
    scope = Scope(FILES, source=source, target=target or METADATA)
    return build_report(CurrentState.of_state(previous), _as_written(dataset_states()), policy, scope)


def report_onto(
    desired: ArchitectureState, *, environment: str = "", source: str = "", target: str = ""
) -> ChangeReport:
    """Return the report on turning an environment into ``desired``, by its policy. It is not stored.

    ``environment`` is a name, default the installation's own. Raises Refused NOT_OBSERVED if applied tables were
    never observed.
    """
    own = not environment or environment == settings.ENVIRONMENT
    row = current_environment() if own else environment_named(environment)
    refresh_state(environment=row, keys=lambda: tables_in_scope(environment=row, scope=Scope()))
    current = gather(environment=row, scope=Scope(), desired=()).current
    there = _as_written(as_seen(placed) for placed in current.datasets if placed.base is not None)
    scope = Scope(FILES, source=source or row.name, target=target)
    return build_report(CurrentState.of_state(there), desired, policy_in_force(row), scope, row.name)


def _as_written(states: Iterable[DatasetState]) -> ArchitectureState:
    """Return states in the form in which a state file would have them."""
    return parse_state(dump_state(ArchitectureState(tuple(states))))


# --- importing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imported:
    """Names of the datasets that were (or would be) taken over, and of those that were applied just so before."""

    imported: tuple[str, ...]
    unchanged: tuple[str, ...]


@transaction.atomic
def import_state(
    *, environment: Environment, state: ArchitectureState, user: Any, reason: str, check: bool = False
) -> Imported:
    """Store a file's datasets as applied, as the baseline of a warehouse that another installation filled.

    Only datasets without applied state here; the warehouse is not changed, and drift shows the differences.
    ``check`` writes nothing. Writes a change-log entry. Raises Refused for the whole file: ALREADY_APPLIED for a
    dataset with another applied state, BAD_KEY and UNKNOWN_LAYER for one that cannot be placed.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_environment(environment))
    if not reason.strip() and not check:
        raise Refused("NO_REASON")
    Environment.objects.select_for_update().get(pk=environment.pk)
    described = {dataset_state.key: flat(dataset_state) for dataset_state in dataset_states()}
    taken = [_placed(dataset, described.get(dataset.key)) for dataset in state.datasets]
    applied = {applied_state.key: applied_state for applied_state in applied_states(environment=environment)}
    _refuse_applied(taken, applied)
    new = [one for one in taken if one.key not in applied]
    same = [one.qualified_name for one in taken if one.key in applied]
    if not check:
        with on_behalf_of(user):
            for one in new:
                _take(environment, one, reason.strip())
    return Imported(tuple(one.qualified_name for one in new), tuple(same))


def _placed(one: DatasetState, described: DatasetState | None) -> DatasetState:
    """Return a file's dataset completed with attributes that a file does not have."""
    try:
        key = UUID(one.key)
    except ValueError:
        message = f"{one.qualified_name} has the key {one.key!r}, under which no table can lie: it is no UUID"
        raise Refused("BAD_KEY", message) from None
    one = replace(one, key=str(key))
    if described is None:
        history = str(history_dataset_key(key)) if one.historize else None
        return replace(one, layer=_layer_of(one), history_key=history)
    roles = {column.key: column.role for column in described.columns}
    columns = tuple(_with_role(column, roles.get(column.key, column.role)) for column in one.columns)
    return replace(
        one,
        columns=columns,
        layer=described.layer if described.schema == one.schema else _layer_of(one),
        history_key=described.history_key or (str(history_dataset_key(key)) if one.historize else None),
        hash_version=described.hash_version,
    )


def _with_role(column: Any, described: str) -> Any:
    """Return the column with its role: a foreign key is a technical column in a file."""
    return replace(column, role=described) if (column.role, described) == ("technical", "foreign_key") else column


def _layer_of(one: DatasetState) -> str:
    known = TargetSchema.objects.filter(name=one.schema).values_list("layer", flat=True).first()
    if known is None:
        message = f"{one.qualified_name} lies in a schema that is not described here, so its layer is not known"
        raise Refused("UNKNOWN_LAYER", message)
    return known


def _refuse_applied(taken: Iterable[DatasetState], applied: dict[str, DatasetState]) -> None:
    names = {one.qualified_name.lower(): one for one in applied.values()}
    for one in taken:
        known = applied.get(one.key)
        if known is not None and _said(known) != _said(one):
            raise Refused("ALREADY_APPLIED", f"{one.qualified_name} was applied here already, and otherwise")
        other = names.get(one.qualified_name.lower())
        if known is None and other is not None:
            message = f"{one.qualified_name} was applied here already, under the key {other.key}"
            raise Refused("ALREADY_APPLIED", message)


def _said(one: DatasetState) -> str:
    """Return a dataset's state in a form that ignores the order of its parts."""
    return dump_state(ArchitectureState((one,)))


def _take(environment: Environment, one: DatasetState, reason: str) -> AppliedDataset:
    """Store a file's dataset as applied. No edit was executed by that: authors stay, and the importing user is one."""
    seen = last_seen(environment=environment, keys={one.key} | ({one.history_key} if one.history_key else set()))
    # A retained history is resumed by a report, which another user approves.
    kept = KeptHistory.objects.filter(environment=environment, history_key=one.history_key).exists()
    row = write_applied(
        environment=environment,
        state=replace(one, historize=one.historize and not kept),
        versions={key: table.version for key, table in seen.tables.items()},
        execution=None,
        through=NOTHING,
    )
    record_change(
        action="imported",
        subject_kind="baseline",
        subject_key=f"{environment}/{one.key}",
        subject_name=f"{one.qualified_name} in {environment}",
        after={"dataset": one.qualified_name},
        dataset_key=UUID(one.key),
        reason=reason,
    )
    return row
