"""Change report: operations, warnings and fingerprint.

The fingerprint is SHA-256 over canonical JSON: desired and current state of the datasets in scope, the scope
itself, the environment, the operations with their decisions, and the policy set. Users, times, row ids, Delta
versions and messages are not part of it, so the same inputs have the same fingerprint in every installation.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from architecture.domain.change_policy import PolicySet, risk_of
from architecture.domain.operations import BLOCKED, Operation, Warning
from architecture.domain.planning.plan import Planned
from architecture.domain.report_content import current_row, dataset_row, operation_row
from architecture.domain.scope import keys_in_scope, scope_document
from architecture.domain.states.current_state import CurrentState, Placed
from architecture.domain.states.flat_states import flat
from architecture.domain.states.state_files import ArchitectureState
from elevata.core.canonical_json import sha256_hex
from metadata.domain.naming import HISTORY_SUFFIX, PREFIXES
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState

# Datasets in the title of a report, and its characters.
_TITLED = 2
MAX_TITLE = 300


FORMAT = "change-report/v1"
STATUS_OPEN, STATUS_BLOCKED, STATUS_NO_CHANGES = "open", "blocked", "no_changes"


@dataclass(frozen=True)
class ChangeReport:
    """Content of a change report, with operations in the order of execution.

    ``datasets`` are the names in scope. The fingerprint is computed from ``content``.
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
        """Return the highest risk of the operations: safe, review or destructive."""
        return risk_of(self.operations)

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``change-report/v1``; without a list of datasets if all are in scope."""
        return {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "scope": scope_document(self.scope, self.datasets),
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
    """Return the report on changing ``current`` into ``desired`` in ``scope`` (default: all).

    ``planned`` is the plan of the same states, if it was computed before. Raises ScopeProblem if the scope is empty,
    TypeProblem for an invalid column type.
    """
    scope = scope or Scope()
    states = tuple(desired.datasets if isinstance(desired, ArchitectureState) else desired)
    keys = keys_in_scope(scope, current, states)
    whole = planned or Planned.of(current, states, policy)
    plan = whole.within(None if scope.everything else keys)
    after = sorted((flat(state) for state in states if state.key in keys), key=lambda state: state.key)
    before = sorted(
        (dataset for dataset in current.datasets if dataset.state.key in keys), key=lambda entry: entry.state.key
    )
    names = {state.key: state.qualified_name for state in (*(placed.state for placed in before), *after)}
    warnings = _in_scope(plan.warnings, before, after) if not scope.everything else plan.warnings
    content = {
        "format": FORMAT,
        "desired": [dataset_row(state) for state in after],
        "current": [current_row(placed, current.observed) for placed in before],
        "scope": [scope.kind, scope.name, scope.target_only, sorted(keys)],
        "environment": environment,
        "operations": [operation_row(operation) for operation in plan.operations],
        "policy": policy.as_json(),
    }
    listed = () if scope.everything else tuple(sorted(names.values()))
    return ChangeReport(scope, environment, listed, plan.operations, warnings, sha256_hex(content), content)


def title_of(operations: Iterable[Operation], scope: Scope) -> str:
    """Return the datasets that a report changes, in short: ``customer, orders and 3 more``.

    A source's datasets in several layers count as one. A report without operations has its scope's words.
    """
    names = list(dict.fromkeys(_short_name(operation.dataset) for operation in operations))
    more = f" and {len(names) - _TITLED} more" if len(names) > _TITLED else ""
    return f"{', '.join(names[:_TITLED])}{more}"[:MAX_TITLE] or str(scope)[:MAX_TITLE]


def _short_name(dataset: str) -> str:
    """Return the name of a dataset, or of a history's base, without its schema and the prefix of its layer."""
    name = dataset.rpartition(".")[2].removesuffix(HISTORY_SUFFIX)
    prefix, mark, rest = name.partition("_")
    return rest if mark and rest and prefix in PREFIXES.values() else name


def _in_scope(
    warnings: Iterable[Warning], before: Iterable[Placed], after: Iterable[DatasetState]
) -> tuple[Warning, ...]:
    names = {table.qualified_name for placed in before for table in (placed.base, placed.history) if table}
    names |= {placed.state.qualified_name for placed in before} | {state.qualified_name for state in after}
    return tuple(warning for warning in warnings if warning.dataset in names)
