"""Inputs of a report, read once: desired, applied and observed state, and the policy."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from architecture.domain import report as domain
from architecture.domain.change_policy import PolicySet
from architecture.domain.history_views import history_views
from architecture.domain.operations import Operation, Warning
from architecture.domain.planning.matching import Known, as_known
from architecture.domain.planning.plan import Planned
from architecture.domain.refusals import Refused
from architecture.domain.scope import keys_in_scope
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.flat_states import as_row
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.domain.tables import TableSpec, event_log_key, event_log_table, kept_histories
from architecture.models import Environment
from architecture.selectors.dataset_states import applied_states, described_states, desired_tables
from architecture.services.change_policy import policy_in_force
from architecture.services.observations import Observations, last_observations
from architecture.services.row_signatures import proven_followed, proven_states, refuse_altered_metadata
from elevata.audit.services import chain
from metadata.domain.load_policy import with_rules_of
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states
from metadata.selectors.datasets import tags_by_key


@dataclass(frozen=True)
class Basis:
    """Inputs of a report: desired, applied and observed state (``observations``), and change policy.

    ``desired`` has the environment's stable keys; ``warnings`` name those that differ in the metadata, each with the
    key of its dataset. ``through`` is the last link of the audit chain sealed before the metadata was read,
    ``followed`` the last logic of retained histories, by their keys. Dropped tables count as absent. With
    ``plans_feature_drops``, table features that some readers lack are dropped; an undo leaves them. ``others`` are the
    applied states of datasets that an undo leaves alone, whose histories may be built from those that it changes.
    """

    environment: Environment
    scope: Scope
    desired: tuple[DatasetState, ...]
    applied: tuple[DatasetState, ...]
    observations: Observations
    policy: PolicySet
    warnings: tuple[tuple[str, Warning], ...] = ()
    through: int = 0
    followed: Mapping[str, DatasetState] = field(default_factory=dict)
    plans_feature_drops: bool = True
    others: tuple[DatasetState, ...] = ()

    @cached_property
    def current(self) -> CurrentState:
        observed = {key: table for key, table in self.observations.tables.items() if not table.dropped}
        return CurrentState.of_warehouse(self.applied, observed, self.desired, self.followed)

    def within(self, scope: Scope) -> "Basis":
        """Return the same inputs for another scope; both share the plan."""
        other = replace(self, scope=scope)
        vars(other).update(current=self.current, planned=self.planned)
        return other

    def with_metadata(self, datasets: QuerySet[TargetDataset]) -> "Basis":
        """Return the same inputs with the current metadata of these datasets as the desired state."""
        known = as_known(dataset_states(datasets), self.applied)
        return replace(self, desired=known.states, warnings=known.warnings)

    @cached_property
    def planned(self) -> Planned:
        return Planned.of(
            self.current,
            self.desired,
            self.policy,
            plans_feature_drops=self.plans_feature_drops,
            others=self.others,
        )

    def report(self) -> domain.ChangeReport:
        """Return the report of these inputs. It is a pure function of them."""
        made = domain.build_report(
            self.current, self.desired, self.policy, self.scope, self.environment.name, self.planned
        )
        if not self.warnings:
            return made
        keys = self.keys()
        warnings = (*made.warnings, *(warning for key, warning in self.warnings if key in keys))
        ordered = sorted(warnings, key=lambda warning: (warning.dataset, warning.column, warning.code))
        return replace(made, warnings=tuple(ordered))

    def steps(self, operations: Iterable[Operation], *, readers_lost: bool = False) -> tuple[Step, ...]:
        """Return the steps for these operations. With ``readers_lost``, approvers accepted that tables lose readers."""
        operations = tuple(operations)
        keys = {operation.dataset_key for operation in operations}
        tables = self.tables({state.key for state in self.desired})
        views = views_of(self.desired, keys)
        return plan_steps(
            tables,
            self.observations.tables,
            operations,
            views,
            self._strangers(),
            readers=self.policy.readers,
            readers_lost=readers_lost,
        )

    def _strangers(self) -> frozenset[str]:
        """Return the keys of observed tables without a dataset, except retained histories."""
        known = table_keys((*self.desired, *self.applied))
        tables = {
            key: table for key, table in self.observations.tables.items() if key not in known and not table.dropped
        }
        return frozenset(tables) - kept_histories(tables)

    def before(self) -> dict[str, dict[str, Any]]:
        """Return the existing datasets as rows, by key, without dropped datasets whose history is retained."""
        applied = {state.key for state in self.applied}
        datasets = (item for item in self.current.datasets if item.base is not None or item.state.key in applied)
        return {item.state.key: as_row(item.state) for item in datasets}

    def tables(self, keys: Collection[str]) -> tuple[TableSpec, ...]:
        """Return the desired tables of these datasets."""
        return desired_tables(state for state in self.desired if state.key in keys)

    def keys(self) -> frozenset[str]:
        """Return the stable keys of the datasets in scope."""
        return keys_in_scope(self.scope, self.current, self.desired)

    def observed_at(self) -> datetime | None:
        """Return the time of the oldest observation of the tables in scope."""
        keys = self.keys()
        return self.observations.oldest(
            table_keys(state for state in (*self.desired, *self.applied) if state.key in keys)
        )


def gather(
    *,
    environment: Environment,
    scope: Scope,
    observations: Observations | None = None,
    desired: Iterable[DatasetState] | None = None,
    only: Collection[str] | None = None,
    datasets: QuerySet[TargetDataset] | None = None,
) -> Basis:
    """Return the current inputs of a report.

    ``observations`` defaults to the last ones. ``desired`` replaces the metadata, ``only`` restricts applied states to
    these datasets, ``datasets`` both sides to some of the metadata. Raises Refused: NOT_OBSERVED if applied tables were
    never observed; CHANGED_OUTSIDE, APPLIED_UNPROVEN or POLICY_UNPROVEN if the database was changed outside the
    product.
    """
    if desired is None:
        refuse_altered_metadata(datasets)
    through = chain.sealed_through()
    applied = proven_states(environment=environment)
    known = as_known(dataset_states(datasets), applied) if desired is None else _stored(desired, applied)
    if datasets is not None:
        only = {state.key for state in known.states}
    others: tuple[DatasetState, ...] = ()
    if only is not None:
        others = () if desired is None else tuple(state for state in applied if state.key not in only)
        applied = tuple(state for state in applied if state.key in only)
    observations = last_observations(environment=environment) if observations is None else observations
    tables = {state.key for state in applied if state.active and state.materialization == "table"}
    if tables - observations.keys or (known.states and not observations.keys):
        raise Refused("NOT_OBSERVED")
    policy = policy_in_force(environment)
    followed = proven_followed(environment=environment, states=(*known.states, *applied))
    return Basis(
        environment,
        scope,
        known.states,
        applied,
        observations,
        policy,
        known.warnings,
        through,
        followed,
        others=others,
    )


def _stored(desired: Iterable[DatasetState], applied: Iterable[DatasetState]) -> Known:
    """Return stored desired states. Rules that an older release did not record are the applied ones."""
    known = {state.key: state for state in applied}
    return Known(tuple(with_rules_of(state, known.get(state.key)) for state in desired))


def table_keys(states: Iterable[DatasetState]) -> frozenset[str]:
    """Return the stable keys of all possible tables of these datasets: base, history and event log."""
    keys = set()
    for state in states:
        keys.add(state.key)
        if state.history_key is not None:
            keys.add(state.history_key)
        if state.history_key is not None or event_log_table(state) is not None:
            keys.add(event_log_key(state))
    return frozenset(keys)


def named_scope(*, environment: Environment, scope: Scope) -> Scope:
    """Return the scope; for a selection by words, the selection of the names of its datasets. Raise ScopeProblem."""
    if not scope.has_words:
        return scope
    applied, described = applied_states(environment=environment), described_states(environment=environment)
    states = {state.key: state for state in (*applied, *described)}
    return scope.with_names(states.values(), tags_by_key())


def tables_in_scope(*, environment: Environment, scope: Scope) -> frozenset[str]:
    """Return the stable keys of the tables to observe for a report of this scope. Raise ScopeProblem if it is empty."""
    desired, applied = described_states(environment=environment), applied_states(environment=environment)
    keys = keys_in_scope(scope, CurrentState.of_warehouse(applied, {}, desired), desired)
    return table_keys(state for state in (*desired, *applied) if state.key in keys)


def views_of(states: Iterable[DatasetState], keys: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the statements that publish views over the histories of these datasets, by the history's key."""
    return {
        state.history_key: history_views(state)
        for state in states
        if state.key in keys and state.active and state.historize and state.history_key is not None
    }
