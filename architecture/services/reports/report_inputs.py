"""Inputs of a report, read once: desired, applied and observed state, and the policy."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from architecture.domain.history_views import history_views
from architecture.domain.operations import Operation, Warning
from architecture.domain.planning.identity import Known, as_known
from architecture.domain.planning.plan import Planned
from architecture.domain.policy import PolicySet
from architecture.domain.reports import report as domain
from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Refused
from architecture.domain.states.current import CurrentState
from architecture.domain.states.flat import as_row
from architecture.domain.states.tables import TableSpec, kept_histories, memory_key
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.models import Environment
from architecture.selectors import applied_states, described_states, desired_tables
from architecture.services.executions.proof import proven_followed, proven_states
from architecture.services.policies.policies import policy_in_force
from architecture.services.states.observed_states import Seen, last_seen
from metadata.domain.state import DatasetState
from metadata.selectors import dataset_states
from metadata.services import chain


@dataclass(frozen=True)
class Basis:
    """``seen`` are the tables as they were seen; those that were dropped count as absent.

    ``desired`` has the keys by which the environment knows things; ``warnings`` tell where metadata has
    another, each with the key of its dataset. ``through`` is the last link of the audit chain that was sealed
    before metadata was read, ``followed`` the logic that kept histories last followed, by their keys.
    """

    environment: Environment
    scope: Scope
    desired: tuple[DatasetState, ...]
    applied: tuple[DatasetState, ...]
    seen: Seen
    policy: PolicySet
    warnings: tuple[tuple[str, Warning], ...] = ()
    through: int = 0
    followed: Mapping[str, DatasetState] = field(default_factory=dict)

    @cached_property
    def current(self) -> CurrentState:
        observed = {key: table for key, table in self.seen.tables.items() if not table.dropped}
        return CurrentState.of_warehouse(self.applied, observed, self.desired, self.followed)

    def within(self, scope: Scope) -> "Basis":
        """The same for another scope; what is there is worked out once for both."""
        other = replace(self, scope=scope)
        vars(other).update(current=self.current, planned=self.planned)
        return other

    @cached_property
    def planned(self) -> Planned:
        return Planned.of(self.current, self.desired, self.policy)

    def report(self) -> domain.ChangeReport:
        """The report of it, pure and the same wherever it is made."""
        made = domain.build_report(
            self.current, self.desired, self.policy, self.scope, self.environment.name, self.planned
        )
        if not self.warnings:
            return made
        keys = self.keys()
        told = (*made.warnings, *(warning for key, warning in self.warnings if key in keys))
        return replace(made, warnings=tuple(sorted(told, key=lambda one: (one.dataset, one.column, one.code))))

    def steps(self, operations: Iterable[Operation]) -> tuple[Step, ...]:
        """Return the steps for these operations."""
        operations = tuple(operations)
        keys = {operation.dataset_key for operation in operations}
        tables = self.tables({state.key for state in self.desired})
        views = views_of(self.desired, keys)
        return plan_steps(tables, self.seen.tables, operations, views, self._strangers())

    def _strangers(self) -> frozenset[str]:
        """Tables that were seen and are of no dataset. A history is kept from when there was one."""
        known = table_keys((*self.desired, *self.applied))
        strangers = {key: one for key, one in self.seen.tables.items() if key not in known and not one.dropped}
        return frozenset(strangers) - kept_histories(strangers)

    def before(self) -> dict[str, dict[str, Any]]:
        """As rows: every dataset that is there, by key; one that was dropped is not, whatever is kept of it."""
        applied = {state.key for state in self.applied}
        placed = self.current.datasets
        return {one.state.key: as_row(one.state) for one in placed if one.base is not None or one.state.key in applied}

    def tables(self, keys: Collection[str]) -> tuple[TableSpec, ...]:
        """The desired tables of these datasets."""
        return desired_tables(state for state in self.desired if state.key in keys)

    def keys(self) -> frozenset[str]:
        """Stable keys of the datasets in scope."""
        return self.scope.resolve(self.current, self.desired)


def gather(
    *,
    environment: Environment,
    scope: Scope,
    seen: Seen | None = None,
    desired: Iterable[DatasetState] | None = None,
    only: Collection[str] | None = None,
) -> Basis:
    """The basis of a report as things are now.

    Without ``seen`` the last observation counts. ``desired`` takes the place of the metadata, ``only``
    leaves out what was applied of other datasets. Refused NOT_OBSERVED where nobody ever looked at
    tables that were applied, APPLIED_UNPROVEN and POLICY_UNPROVEN where the database was changed beside the product.
    """
    through = chain.sealed_through()
    applied = proven_states(environment=environment)
    known = as_known(dataset_states(), applied) if desired is None else Known(tuple(desired))
    if only is not None:
        applied = tuple(state for state in applied if state.key in only)
    seen = last_seen(environment=environment) if seen is None else seen
    tables = {state.key for state in applied if state.active and state.materialization == "table"}
    if tables - seen.asked or (known.states and not seen.asked):
        raise Refused("NOT_OBSERVED")
    policy = policy_in_force(environment)
    followed = proven_followed(environment=environment, states=(*known.states, *applied))
    return Basis(environment, scope, known.states, applied, seen, policy, known.warnings, through, followed)


def table_keys(states: Iterable[DatasetState]) -> frozenset[str]:
    """Stable keys of every table that these datasets have, may have had, or may get."""
    keys = set()
    for state in states:
        keys.add(state.key)
        if state.history_key is not None:
            keys |= {state.history_key, memory_key(state.history_key)}
    return frozenset(keys)


def tables_in_scope(*, environment: Environment, scope: Scope) -> frozenset[str]:
    """Stable keys of the tables to look at before a report of this scope is made. ScopeProblem if it names nothing."""
    desired, applied = described_states(environment=environment), applied_states(environment=environment)
    keys = scope.resolve(CurrentState.of_warehouse(applied, {}, desired), desired)
    return table_keys(state for state in (*desired, *applied) if state.key in keys)


def views_of(states: Iterable[DatasetState], keys: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The statements that publish views over the histories of these datasets, by the history's key."""
    return {
        state.history_key: history_views(state)
        for state in states
        if state.key in keys and state.active and state.historize and state.history_key is not None
    }
