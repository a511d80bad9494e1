"""Change report: scope, fingerprint, text and Markdown.

The fingerprint is SHA-256 over canonical JSON: desired and current state of the datasets in scope, the scope
itself, the environment, the operations with their decisions, and the policy set. Users, times, row ids, Delta
versions and wording are not part of it, so the same input has the same fingerprint everywhere.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet, risk_of
from architecture.domain.current_state import CurrentState, Placed, Table
from architecture.domain.operations import BLOCKED, Operation, Warning
from architecture.domain.planning.plan import Planned
from architecture.domain.state_files import FOREIGN_KEY, ArchitectureState, flat
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from metadata.domain.state import ColumnState, DatasetState

# Scope of a report: all datasets, a schema's, one with its inputs, or one alone.


ALL, SCHEMA, DATASET, FILES = "all", "schema", "dataset", "files"
KINDS = (ALL, SCHEMA, DATASET, FILES)
# Dependency modes: a dataset alone, or with its inputs.
TARGET_ONLY, WITH_DEPENDENCIES = "target_only", "with_dependencies"


class ScopeProblem(MetadataError):
    """Error of a scope without any dataset, existing or desired."""

    def __init__(self, message: str) -> None:
        super().__init__("unknown_scope", message, "scope")


@dataclass(frozen=True)
class Scope:
    """Scope of a report.

    ``name`` is a schema's or a dataset's (``schema.name``); ``target_only`` excludes dependencies. For ``files``,
    two state files, everything is in scope; ``source`` and ``target`` are labels of the two sides, shown but not
    part of a fingerprint. ``keys`` are the datasets that the scope resolved to before; then ``name``, which may be
    outdated, is not resolved again.
    """

    kind: str = ALL
    name: str = ""
    target_only: bool = False
    source: str = ""
    target: str = ""
    keys: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ScopeProblem(f"{self.kind!r} is no kind of scope; kinds are {', '.join(KINDS)}")
        if self.target_only and self.kind != DATASET:
            raise ScopeProblem("target-only goes with a dataset")

    @property
    def everything(self) -> bool:
        return self.kind in (ALL, FILES)

    @property
    def dependency_mode(self) -> str:
        return TARGET_ONLY if self.target_only else WITH_DEPENDENCIES

    def describe(self) -> str:
        """Return ``all datasets``, ``schema rawcore``, ``dataset rawcore.rc_a (alone)`` or ``dev → prod``."""
        if self.kind == FILES:
            return f"{self.source or 'previous state'} → {self.target or 'desired state'}"
        if self.kind == ALL:
            return "all datasets"
        return f"{self.kind} {self.name}{' (alone)' if self.target_only else ''}"

    def as_json(self, datasets: Iterable[str] = ()) -> dict[str, Any]:
        """Return the scope as JSON; ``datasets`` are the resolved names, omitted if everything is in scope."""
        message: dict[str, Any] = {"kind": self.kind}
        if self.name:
            message |= {"name": self.name, "dependency_mode": self.dependency_mode}
        message |= {name: value for name in ("source", "target") if (value := getattr(self, name))}
        listed = sorted(datasets)
        return {**message, "datasets": listed} if listed else message

    def resolve(self, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
        """Return the stable keys of the datasets in scope, including those that only exist or are only desired."""
        if self.keys is not None:
            return self.keys
        there = {dataset.state.key: dataset.state for dataset in current.datasets}
        wanted = {dataset.key: dataset for dataset in desired}
        if self.everything:
            return frozenset(there) | frozenset(wanted)
        chosen = {key for states in (there, wanted) for key, state in states.items() if self._names(state)}
        if not chosen:
            raise ScopeProblem(f"there is no {self.kind} {self.name}")
        if not self.target_only:
            chosen = _with_upstream(chosen, wanted)
        names = {wanted[key].qualified_name for key in chosen if key in wanted}
        same = {key for key, state in there.items() if state.qualified_name in names and key not in wanted}
        return frozenset(chosen | same)

    def _names(self, state: DatasetState) -> bool:
        return self.name == (state.schema if self.kind == SCHEMA else state.qualified_name)


def _with_upstream(chosen: set[str], wanted: dict[str, DatasetState]) -> set[str]:
    selected, waiting = set(chosen), list(chosen)
    while waiting:
        dataset = wanted.get(waiting.pop())
        for key in dataset.inputs if dataset else ():
            if key in wanted and key not in selected:
                selected.add(key)
                waiting.append(key)
    return selected


FORMAT = "change-report/v1"
STATUS_OPEN, STATUS_BLOCKED, STATUS_NO_CHANGES = "open", "blocked", "no_changes"


@dataclass(frozen=True)
class ChangeReport:
    """Content of a change report, in executable order. ``datasets`` are the names in scope.

    ``content`` is the input of the fingerprint.
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
        """Return safe, review or destructive: the highest risk of its operations."""
        return risk_of(self.operations)

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``change-report/v1``; of two files without the list of datasets, as all are in scope."""
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
    """Return the report that turns ``current`` into ``desired`` in ``scope`` (default: all).

    ``planned`` is a plan made for another scope. Raises ScopeProblem if the scope is empty; TypeProblem for an
    invalid column type.
    """
    scope = scope or Scope()
    states = tuple(desired.datasets if isinstance(desired, ArchitectureState) else desired)
    keys = scope.resolve(current, states)
    whole = planned or Planned.of(current, states, policy)
    plan = whole.within(None if scope.everything else keys)
    wanted = sorted((flat(state) for state in states if state.key in keys), key=lambda state: state.key)
    there = sorted(
        (dataset for dataset in current.datasets if dataset.state.key in keys), key=lambda entry: entry.state.key
    )
    names = {state.key: state.qualified_name for state in (*(placed.state for placed in there), *wanted)}
    warnings = _in_scope(plan.warnings, there, wanted) if not scope.everything else plan.warnings
    content = {
        "format": FORMAT,
        "desired": [_state_content(state) for state in wanted],
        "current": [_placed_content(placed, current.observed) for placed in there],
        "scope": [scope.kind, scope.name, scope.target_only, sorted(keys)],
        "environment": environment,
        "operations": [_operation_content(operation) for operation in plan.operations],
        "policy": policy.as_json(),
    }
    listed = () if scope.everything else tuple(sorted(names.values()))
    return ChangeReport(scope, environment, listed, plan.operations, warnings, sha256_hex(content), content)


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
        [_column_content(column) for column in sorted(state.columns, key=lambda column: column.key)],
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
    """Return the inputs to hash; without an expression a column takes the first input of a dataset, so order counts."""
    in_order = not column.expression and column.role != FOREIGN_KEY
    return list(column.inputs) if in_order else sorted(column.inputs)


def _placed_content(placed: Placed, observed: bool) -> list[Any]:
    """Return the tables to hash: derived from the state for a file, observed for a warehouse."""
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


# Rendering of a report: text for a terminal, Markdown for a ticket or a pull request.


_MARKS = {ops.ALLOWED: "ok", ops.NEEDS_APPROVAL: "approve", ops.BLOCKED: "blocked", ops.METADATA_ONLY: "metadata"}
_STATUS = {"no_changes": "no changes", "open": "open", "blocked": "blocked"}


def as_text(report: ChangeReport) -> str:
    """Return status, operations one a line, warnings, and required approvals, without a trailing line end."""
    lines = [f"{report.scope.describe()}: {_status(report)}"]
    width = max((len(_mark(operation)) for operation in report.operations), default=0)
    for operation in report.operations:
        lines.append(f"  {_mark(operation):{width}}  {operation.describe()}")
        if operation.decision in (ops.NEEDS_APPROVAL, ops.BLOCKED):
            lines.append(f"  {'':{width}}  {operation.code}: {operation.message}")
    lines += [f"  warning  {warning.code} {_about(warning)}: {warning.message}" for warning in report.warnings]
    lines.append(f"fingerprint {report.fingerprint}")
    return "\n".join(lines)


def as_markdown(report: ChangeReport) -> str:
    """Return headings and tables; names and texts of users are escaped."""
    lines = [
        f"# Change report: {_plain(report.scope.describe())}",
        "",
        f"**{_status(report)}**",
        "",
        f"Fingerprint `{report.fingerprint}`",
    ]
    if report.operations:
        lines += ["", "## Operations", "", "| decision | operation | dataset | change | why |", "|---|---|---|---|---|"]
        lines += [_row(operation) for operation in report.operations]
    if report.warnings:
        lines += ["", "## Warnings", "", "| code | about | what to do |", "|---|---|---|"]
        lines += [_cells(warning.code, _about(warning), warning.message) for warning in report.warnings]
    return "\n".join(lines)


def _status(report: ChangeReport) -> str:
    counts = Counter(operation.decision for operation in report.operations)
    parts = [
        f"{counts[decision]} {decision.replace('_', ' ')}" for decision in reversed(ops.DECISIONS) if counts[decision]
    ]
    destructive = ["destructive"] if report.destructive else []
    return ", ".join([_STATUS[report.status], *destructive, *parts])


def _mark(operation: Operation) -> str:
    return _MARKS[operation.decision] + ("!" if operation.destructive else "")


def _about(warning: Warning) -> str:
    return f"{warning.dataset}.{warning.column}" if warning.column else warning.dataset


def _row(operation: Operation) -> str:
    decision = operation.decision.replace("_", " ") + (", destructive" if operation.destructive else "")
    return _cells(
        decision, operation.op, operation.dataset, _change(operation), f"{operation.code}: {operation.message}"
    )


def _change(operation: Operation) -> str:
    if operation.op in (ops.RENAME_TABLE, ops.RENAME_COLUMN):
        return f"{operation.from_} → {operation.to}"
    if operation.from_ and operation.to:
        return f"{operation.column}: {operation.from_} → {operation.to}"
    return operation.column


def _cells(*cells: str) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """Return a name escaped for Markdown and HTML."""
    return "".join(_escaped(text))


def _escaped(text: str) -> Iterable[str]:
    for character in " ".join(text.split()):
        yield f"\\{character}" if character in "\\|`*_[]#<>" else character
