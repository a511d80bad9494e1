"""State files against this installation: compared with what is described or with what is there, and imported.

A file says less than this installation knows: no layer, no history's key, and a foreign key as the
technical column that it is. So both sides of a comparison are taken as an export would write them, and
an import adds what is missing from what is described here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from architecture.domain.policy import PolicySet
from architecture.domain.reports.report import ChangeReport, build_report
from architecture.domain.reports.scope import FILES, Scope
from architecture.domain.reports.workflow import Refused
from architecture.domain.states.current import CurrentState
from architecture.domain.states.flat import flat
from architecture.domain.states.state_files import ArchitectureState, dump_state, parse_state
from architecture.models import AppliedDataset, Environment, KeptHistory
from architecture.report_places import place_of_environment
from architecture.selectors import applied_states, environment_named
from architecture.services.actors import must_be_permitted, on_behalf_of
from architecture.services.policies.policies import policy_in_force
from architecture.services.reports.report_inputs import gather, tables_in_scope
from architecture.services.reports.reports import look_again
from architecture.services.states.applied_states import NOTHING, write_applied
from architecture.services.states.drift import as_seen
from architecture.services.states.environments import current_environment
from architecture.services.states.observed_states import last_seen
from metadata.domain.keys import history_dataset_key
from metadata.domain.roles import Permission
from metadata.domain.state import DatasetState
from metadata.models import TargetSchema
from metadata.selectors import dataset_states
from metadata.services.changelog import record_change

METADATA = "metadata"


def report_from(previous: ArchitectureState, *, policy: PolicySet, source: str = "", target: str = "") -> ChangeReport:
    """Return the report on turning ``previous`` into what metadata describes. It is not stored."""
    scope = Scope(FILES, source=source, target=target or METADATA)
    return build_report(CurrentState.of_state(previous), _as_written(dataset_states()), policy, scope)


def report_onto(
    desired: ArchitectureState, *, environment: str = "", source: str = "", target: str = ""
) -> ChangeReport:
    """Return the report on turning an environment into ``desired``, by its policy. It is not stored.

    ``environment`` is a name, the installation's own if it is empty. Refused NOT_OBSERVED where nobody
    ever looked at tables that were applied.
    """
    own = not environment or environment == settings.ENVIRONMENT
    row = current_environment() if own else environment_named(environment)
    look_again(environment=row, keys=lambda: tables_in_scope(environment=row, scope=Scope()))
    current = gather(environment=row, scope=Scope(), desired=()).current
    there = _as_written(as_seen(placed) for placed in current.datasets if placed.base is not None)
    scope = Scope(FILES, source=source or row.name, target=target)
    return build_report(CurrentState.of_state(there), desired, policy_in_force(row), scope, row.name)


def _as_written(states: Iterable[DatasetState]) -> ArchitectureState:
    """States as a file of them would be read."""
    return parse_state(dump_state(ArchitectureState(tuple(states))))


# --- importing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imported:
    """Names of the datasets that were (or would be) taken over, and of those that were applied just so before."""

    imported: tuple[str, ...]
    unchanged: tuple[str, ...]


@transaction.atomic
def import_state(
    *, environment: Environment, state: ArchitectureState, person: Any, reason: str, check: bool = False
) -> Imported:
    """Take a file's datasets for applied, as the baseline of a warehouse that another installation filled.

    Only those that nothing was applied of here; the warehouse is not touched, and drift tells where it is
    not so. ``check`` writes nothing. Stands in the change log. Refused, all or nothing: ALREADY_APPLIED
    for a dataset that was applied otherwise, BAD_KEY and UNKNOWN_LAYER for one that cannot be placed.
    """
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_environment(environment))
    if not reason.strip() and not check:
        raise Refused("NO_REASON")
    Environment.objects.select_for_update().get(pk=environment.pk)
    described = {one.key: flat(one) for one in dataset_states()}
    taken = [_placed(one, described.get(one.key)) for one in state.datasets]
    applied = {one.key: one for one in applied_states(environment=environment)}
    _refuse_applied(taken, applied)
    new = [one for one in taken if one.key not in applied]
    same = [one.qualified_name for one in taken if one.key in applied]
    if not check:
        with on_behalf_of(person):
            for one in new:
                _take(environment, one, reason.strip())
    return Imported(tuple(one.qualified_name for one in new), tuple(same))


def _placed(one: DatasetState, described: DatasetState | None) -> DatasetState:
    """A file's dataset with what a file does not say."""
    try:
        key = UUID(one.key)
    except ValueError:
        said = f"{one.qualified_name} has the key {one.key!r}, under which no table can lie: it is no UUID"
        raise Refused("BAD_KEY", said) from None
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
    """A foreign key is a technical column in a file; other roles are the file's to say."""
    return replace(column, role=described) if (column.role, described) == ("technical", "foreign_key") else column


def _layer_of(one: DatasetState) -> str:
    known = TargetSchema.objects.filter(name=one.schema).values_list("layer", flat=True).first()
    if known is None:
        said = f"{one.qualified_name} lies in a schema that is not described here, so its layer is not known"
        raise Refused("UNKNOWN_LAYER", said)
    return known


def _refuse_applied(taken: Iterable[DatasetState], applied: dict[str, DatasetState]) -> None:
    names = {one.qualified_name.lower(): one for one in applied.values()}
    for one in taken:
        known = applied.get(one.key)
        if known is not None and _said(known) != _said(one):
            raise Refused("ALREADY_APPLIED", f"{one.qualified_name} was applied here already, and otherwise")
        other = names.get(one.qualified_name.lower())
        if known is None and other is not None:
            said = f"{one.qualified_name} was applied here already, under the key {other.key}"
            raise Refused("ALREADY_APPLIED", said)


def _said(one: DatasetState) -> str:
    """Return a dataset's state in a form that ignores the order of its parts."""
    return dump_state(ArchitectureState((one,)))


def _take(environment: Environment, one: DatasetState, reason: str) -> AppliedDataset:
    """Write a file's dataset as applied. No edit was carried out by that: authors stay, and who imports is one."""
    seen = last_seen(environment=environment, keys={one.key} | ({one.history_key} if one.history_key else set()))
    # A history that is kept here is taken up again by a report, which somebody else approves.
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
