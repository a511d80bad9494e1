"""Comparison and import of state files.

A file contains less than this installation: no layers, no keys of histories, and foreign keys only as technical
columns. Therefore a comparison uses both sides in the form of an export, and an import adds the missing parts from the
metadata.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from architecture.domain.change_policy import PolicySet
from architecture.domain.refusals import Refused
from architecture.domain.report import ChangeReport, build_report
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.flat_states import flat
from architecture.domain.states.state_files import ArchitectureState, dump_state, parse_state
from architecture.models import AppliedDataset, Environment, KeptHistory
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.selectors.dataset_states import applied_states
from architecture.services.change_policy import policy_in_force
from architecture.services.drift import as_observed
from architecture.services.environments import environment_or_own
from architecture.services.observations import last_observations
from architecture.services.report_basis import gather, tables_in_scope
from architecture.services.reports import refresh_state
from architecture.services.states import NOTHING, write_applied
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from metadata.domain.scope import FILES, Scope
from metadata.domain.stable_keys import history_dataset_key
from metadata.domain.state import DatasetState
from metadata.models import TargetSchema
from metadata.selectors.dataset_states import dataset_states

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
    observed = _as_exported(as_observed(placed) for placed in current.datasets if placed.base is not None)
    scope = Scope(FILES, source=source or row.name, target=target)
    return build_report(CurrentState.of_state(observed), desired, policy_in_force(row), scope, row.name)


def _as_exported(states: Iterable[DatasetState]) -> ArchitectureState:
    """Return the states as an exported state file has them."""
    return parse_state(dump_state(ArchitectureState(tuple(states))))


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
    observations = last_observations(environment=environment, keys=keys)
    # A retained history is resumed only by a report, which another user approves.
    key = dataset.history_key
    retained = key is not None and KeptHistory.objects.filter(environment=environment, history_key=key).exists()
    row = write_applied(
        environment=environment,
        state=replace(dataset, historize=dataset.historize and not retained),
        versions={key: table.version for key, table in observations.tables.items()},
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
