"""Reconciliation of the control database with the warehouse, after one of them was restored from a backup.

A restored control database lacks what was executed and loaded after its copy: datasets that were created or changed
since, views among them, and the numbers of runs. A restored warehouse lacks the newest runs. In both cases the tables
are taken as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from architecture.domain.states.dataset_drift import DRIFTED
from architecture.models import Environment, ExecutionOperation
from architecture.selectors.dataset_states import applied_states, described_states
from architecture.services.drift import drift_of
from architecture.services.observations import Observations, last_observations
from loader.domain.dependencies import is_loaded, tables_read
from loader.models import DatasetRun
from loader.services.loads.applied_runs import leading_table, newest_applied
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Behind:
    """Datasets whose state in the control database differs from the warehouse.

    ``unapplied`` are to be adopted as applied: their tables exist but were never applied or drifted, and views over
    existing tables that were never applied. ``moved`` are to be accepted: their tables have another version than the
    newest run left. ``missing`` have applied runs but no table, and can only be restored or created anew by a report.
    """

    unapplied: tuple[DatasetState, ...] = ()
    moved: tuple[DatasetState, ...] = ()
    missing: tuple[DatasetState, ...] = ()

    @property
    def names(self) -> dict[str, list[str]]:
        parts = {"adopt": self.unapplied, "accept": self.moved, "missing": self.missing}
        return {name: sorted(state.qualified_name for state in states) for name, states in parts.items()}

    def __bool__(self) -> bool:
        return bool(self.unapplied or self.moved or self.missing)


def differences(environment: Environment) -> Behind:
    """Return the datasets that are behind, by the last observations of all tables."""
    described = {state.key: state for state in described_states(environment=environment)}
    applied = {state.key for state in applied_states(environment=environment)}
    observations = last_observations(environment=environment)
    drifted = {dataset.key for dataset in drift_of(environment).of(DRIFTED)}
    existing = {key for key, table in observations.tables.items() if not table.dropped}
    leading = {key: leading_table(state) for key, state in described.items() if is_loaded(state)}
    with_runs = newest_applied(environment=environment, leading=leading)
    missing = {key for key, run in with_runs.items() if run.sequence is not None and leading[key] not in existing}

    def is_unapplied(state: DatasetState) -> bool:
        if state.key in missing:
            return False
        if state.materialization == "table":
            return state.key in existing and (state.key not in applied or state.key in drifted)
        return state.key not in applied and all(table.key in existing for table in tables_read(state, described))

    moved = _moved(environment, leading, observations)
    return Behind(
        tuple(state for state in described.values() if is_unapplied(state)),
        tuple(described[key] for key in moved if key not in missing),
        tuple(described[key] for key in missing),
    )


def _moved(environment: Environment, leading: Mapping[str, str], observations: Observations) -> list[str]:
    """Return the datasets whose first table has another version than the control database knows as the newest."""
    versions = {key: table.version for key, table in observations.tables.items() if not table.dropped}
    runs = DatasetRun.objects.filter(run__environment=environment, table_version_after__isnull=False)
    steps = ExecutionOperation.objects.filter(execution__environment=environment, version_after__isnull=False)
    moved = []
    for key, table in leading.items():
        recorded = [
            runs.filter(dataset_key=key).order_by("-finished_at").values_list("finished_at", "table_version_after"),
            steps.filter(table_key=table)
            .order_by("-execution__finished_at", "-ordinal")
            .values_list("execution__finished_at", "version_after"),
        ]
        newest = max((row for rows in recorded if (row := rows.first()) is not None and row[0]), default=None)
        if table in versions and newest is not None and newest[1] != versions[table]:
            moved.append(key)
    return moved
