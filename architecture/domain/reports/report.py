"""Change reports: what would change in a scope, what policy says of it, and one fingerprint of it all.

The fingerprint is SHA-256 over canonical JSON: desired and current state of the datasets in scope,
the scope itself, the environment, the operations with their decisions, and the policy set. People,
times, row ids, Delta versions and wording are no part of it, so the same input has the same
fingerprint everywhere.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from architecture.domain.operations import BLOCKED, Operation, Warning
from architecture.domain.planning.plan import Planned
from architecture.domain.policy import PolicySet, risk_of
from architecture.domain.reports.scope import Scope
from architecture.domain.states.current import CurrentState, Placed, Table
from architecture.domain.states.flat import FOREIGN_KEY, flat
from architecture.domain.states.state_files import ArchitectureState
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import ColumnState, DatasetState

FORMAT = "change-report/v1"
STATUS_OPEN, STATUS_BLOCKED, STATUS_NO_CHANGES = "open", "blocked", "no_changes"


@dataclass(frozen=True)
class ChangeReport:
    """Content of a change report, in executable order. ``datasets`` are the names in scope.

    ``content`` is what the fingerprint is over.
    """

    scope: Scope
    environment: str
    datasets: tuple[str, ...]
    operations: tuple[Operation, ...]
    warnings: tuple[Warning, ...]
    fingerprint: str
    content: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def status(self) -> str:
        if not self.operations:
            return STATUS_NO_CHANGES
        blocked = any(operation.decision == BLOCKED for operation in self.operations)
        return STATUS_BLOCKED if blocked else STATUS_OPEN

    @property
    def destructive(self) -> bool:
        return any(operation.destructive for operation in self.operations)

    @property
    def risk(self) -> str:
        """safe, review or destructive: the worst of its operations."""
        return risk_of(self.operations)

    def as_json(self) -> dict[str, Any]:
        """``change-report/v1``. Of two files everything is in scope, so datasets are not listed."""
        return {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "scope": self.scope.as_json(self.datasets),
            "status": self.status,
            "destructive": self.destructive,
            "operations": [operation.as_json() for operation in self.operations],
            "warnings": [warning.as_json() for warning in self.warnings],
        }


def build_report(
    current: CurrentState,
    desired: ArchitectureState | Collection[DatasetState],
    policy: PolicySet,
    scope: Scope | None = None,
    environment: str = "",
    planned: Planned | None = None,
) -> ChangeReport:
    """The report of what brings ``current`` to ``desired`` in ``scope`` (all, if none is given).

    ``planned`` is what was planned of them for another scope. ScopeProblem if the scope names nothing;
    TypeProblem for a column whose type is none.
    """
    scope = scope or Scope()
    states = tuple(desired.datasets if isinstance(desired, ArchitectureState) else desired)
    keys = scope.resolve(current, states)
    whole = planned or Planned.of(current, states, policy)
    found = whole.within(None if scope.everything else keys)
    wanted = sorted((flat(state) for state in states if state.key in keys), key=lambda state: state.key)
    there = sorted((one for one in current.datasets if one.state.key in keys), key=lambda one: one.state.key)
    names = {state.key: state.qualified_name for state in (*(placed.state for placed in there), *wanted)}
    warnings = _in_scope(found.warnings, there, wanted) if not scope.everything else found.warnings
    content = {
        "format": FORMAT,
        "desired": [_state_content(state) for state in wanted],
        "current": [_placed_content(placed, current.observed) for placed in there],
        "scope": [scope.kind, scope.name, scope.target_only, sorted(keys)],
        "environment": environment,
        "operations": [_operation_content(operation) for operation in found.operations],
        "policy": policy.as_json(),
    }
    listed = () if scope.everything else tuple(sorted(names.values()))
    return ChangeReport(scope, environment, listed, found.operations, warnings, sha256_hex(content), content)


def _in_scope(
    warnings: Iterable[Warning], there: Iterable[Placed], wanted: Iterable[DatasetState]
) -> tuple[Warning, ...]:
    names = {table.qualified_name for placed in there for table in (placed.base, placed.history) if table}
    names |= {placed.state.qualified_name for placed in there} | {state.qualified_name for state in wanted}
    return tuple(warning for warning in warnings if warning.dataset in names)


# --- what is hashed --------------------------------------------------------------------------


def _state_content(state: DatasetState) -> list[Any]:
    return [
        state.key,
        state.schema,
        state.name,
        list(state.former_names),
        state.active,
        state.materialization,
        state.historize,
        state.history_key,
        state.filter,
        sorted(state.inputs),
        state.load_policy,
        state.history_policy,
        state.hash_version,
        [_column_content(column) for column in sorted(state.columns, key=lambda one: one.key)],
    ]


def _column_content(column: ColumnState) -> list[Any]:
    return [
        column.key,
        column.name,
        list(column.former_names),
        column.type,
        column.nullable,
        column.role,
        column.active,
        column.expression,
        _inputs_content(column),
    ]


def _inputs_content(column: ColumnState) -> list[str]:
    """Without an expression a column takes the first input of a dataset; otherwise the order says nothing."""
    in_order = not column.expression and column.role != FOREIGN_KEY
    return list(column.inputs) if in_order else sorted(column.inputs)


def _placed_content(placed: Placed, observed: bool) -> list[Any]:
    """Of a file the tables follow from the state; of a warehouse they are what was seen."""
    tables = [_table_content(table) for table in (placed.base, placed.history)] if observed else []
    return [_state_content(placed.state), tables, list(placed.missing)]


def _table_content(table: Table | None) -> list[Any] | None:
    if table is None:
        return None
    columns = [[column.key, column.name, column.type, column.active] for column in table.columns]
    return [table.schema, table.name, table.view, sorted(columns)]


def _operation_content(operation: Operation) -> list[Any]:
    return [
        operation.op,
        operation.dataset,
        operation.dataset_key,
        operation.side,
        operation.column,
        operation.column_key,
        operation.from_,
        operation.to,
        [list(column) for column in operation.columns],
        operation.decision,
        operation.code,
        operation.destructive,
    ]
