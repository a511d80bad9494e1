"""What a report is made from, gathered once: desired, applied and observed state, and the policy."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from architecture.domain import report as domain
from architecture.domain.history_views import history_views
from architecture.domain.operations import Operation
from architecture.domain.policy import PolicySet
from architecture.domain.scope import Scope
from architecture.domain.states.current import CurrentState
from architecture.domain.states.tables import TableSpec, memory_key
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.domain.workflow import Refused
from architecture.models import Environment
from architecture.selectors import applied_states, desired_tables
from architecture.services.observing import Seen, last_seen
from architecture.services.policies import policy_of
from metadata.domain.state import DatasetState
from metadata.selectors import dataset_states


@dataclass(frozen=True)
class Basis:
    """``seen`` are the tables as they were seen; those that were dropped count as absent."""

    environment: Environment
    scope: Scope
    desired: tuple[DatasetState, ...]
    applied: tuple[DatasetState, ...]
    seen: Seen
    policy: PolicySet

    @property
    def current(self) -> CurrentState:
        observed = {key: table for key, table in self.seen.tables.items() if not table.dropped}
        return CurrentState.of_warehouse(self.applied, observed, self.desired)

    def report(self) -> domain.ChangeReport:
        """The report of it, pure and the same wherever it is made."""
        return domain.build_report(self.current, self.desired, self.policy, self.scope, self.environment.name)

    def steps(self, operations: Iterable[Operation]) -> tuple[Step, ...]:
        """What Delta is told, for these operations."""
        operations = tuple(operations)
        keys = {operation.dataset_key for operation in operations}
        return plan_steps(self.tables(keys), self.seen.tables, operations, views_of(self.desired, keys))

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
    tables that were applied.
    """
    states = tuple(desired) if desired is not None else dataset_states()
    applied = applied_states(environment=environment)
    if only is not None:
        applied = tuple(state for state in applied if state.key in only)
    seen = last_seen(environment=environment) if seen is None else seen
    tables = {state.key for state in applied if state.active and state.materialization == "table"}
    if tables - seen.asked or (states and not seen.asked):
        raise Refused("NOT_OBSERVED")
    return Basis(environment, scope, states, applied, seen, policy_of(environment))


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
    desired, applied = dataset_states(), applied_states(environment=environment)
    keys = scope.resolve(CurrentState.of_warehouse(applied, {}, desired), desired)
    return table_keys(state for state in (*desired, *applied) if state.key in keys)


def views_of(states: Iterable[DatasetState], keys: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The statements that publish views over the histories of these datasets, by the history's key."""
    return {
        state.history_key: history_views(state)
        for state in states
        if state.key in keys and state.active and state.historize and state.history_key is not None
    }
