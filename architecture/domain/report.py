"""Change report: scope, fingerprint, text and Markdown.

The fingerprint is SHA-256 over canonical JSON: desired and current state of the datasets in scope, the scope
itself, the environment, the operations with their decisions, and the policy set. Users, times, row ids, Delta
versions and messages are not part of it, so the same inputs have the same fingerprint in every installation.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.change_policy import PolicySet, risk_of
from architecture.domain.operations import BLOCKED, Operation, Warning
from architecture.domain.planning.plan import Planned
from architecture.domain.report_content import current_row, dataset_row, operation_row
from architecture.domain.states.current_state import CurrentState, Placed
from architecture.domain.states.state_files import ArchitectureState, flat
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from metadata.domain.naming import HISTORY_SUFFIX, PREFIXES
from metadata.domain.state import DatasetState

# Scope of a report: all datasets, those of a schema, a dataset or a selection of datasets with its inputs, or a dataset
# alone.


ALL, SCHEMA, DATASET, SELECTION, FILES = "all", "schema", "dataset", "selection", "files"
KINDS = (ALL, SCHEMA, DATASET, SELECTION, FILES)
# Characters of a scope's name: about 2,000 names of datasets. Of a selection the first names are shown.
MAX_NAME = 100_000
_SHOWN = 3
# Datasets in the title of a report, and its characters.
_TITLED = 2
MAX_TITLE = 300
# Dependency modes: a dataset alone, or with its inputs.
TARGET_ONLY, WITH_DEPENDENCIES = "target_only", "with_dependencies"


class ScopeProblem(MetadataError):
    """Error of an invalid scope, or of one without existing or desired datasets."""

    def __init__(self, message: str) -> None:
        super().__init__("unknown_scope", message, "scope")


@dataclass(frozen=True)
class Scope:
    """Scope of a report.

    ``name`` is the name of a schema or dataset (``schema.name``), of a selection the names of its datasets, separated
    by spaces; ``target_only`` excludes a dataset's inputs. The kind ``files`` is a comparison of two state files with
    all their datasets; ``source`` and ``target`` are labels of the two, which are not part of the fingerprint. ``keys``
    are the datasets of a scope that was resolved before: its ``name`` may be outdated, so it is not resolved again.
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
        if self.kind == SELECTION and not self.name.split():
            raise ScopeProblem("a selection names at least one dataset")
        if len(self.name) > MAX_NAME:
            message = f"the names of the datasets have {len(self.name)} characters; {MAX_NAME} are possible"
            raise ScopeProblem(f"{message}. Select fewer, or a schema")

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
        if self.kind == SELECTION:
            names = self.name.split()
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            return f"datasets {', '.join(names[:_SHOWN])}{more}"
        return f"{self.kind} {self.name}{' (alone)' if self.target_only else ''}"

    def as_json(self, datasets: Iterable[str] = ()) -> dict[str, Any]:
        """Return the scope as JSON. ``datasets`` are the resolved names, empty if everything is in scope."""
        document: dict[str, Any] = {"kind": self.kind}
        if self.name:
            document |= {"name": self.name, "dependency_mode": self.dependency_mode}
        document |= {name: value for name in ("source", "target") if (value := getattr(self, name))}
        listed = sorted(datasets)
        return {**document, "datasets": listed} if listed else document

    def resolve(self, current: CurrentState, desired: Sequence[DatasetState]) -> frozenset[str]:
        """Return the stable keys of the datasets in scope, including those that only exist or are only desired."""
        if self.keys is not None:
            return self.keys
        before = {dataset.state.key: dataset.state for dataset in current.datasets}
        after = {dataset.key: dataset for dataset in desired}
        if self.everything:
            return frozenset(before) | frozenset(after)
        selected = {key for states in (before, after) for key, state in states.items() if self._selects(state)}
        self._refuse_unknown(state for states in (before, after) for state in states.values())
        if not self.target_only:
            selected = _with_upstream(selected, after)
        names = {after[key].qualified_name for key in selected if key in after}
        same = {key for key, state in before.items() if state.qualified_name in names and key not in after}
        return frozenset(selected | same)

    def _refuse_unknown(self, states: Iterable[DatasetState]) -> None:
        known = {state.schema if self.kind == SCHEMA else state.qualified_name for state in states}
        missing = [name for name in self._names() if name not in known]
        if missing:
            raise ScopeProblem(f"there is no {'dataset' if self.kind == SELECTION else self.kind} {missing[0]}")

    def _names(self) -> tuple[str, ...]:
        return tuple(self.name.split()) if self.kind == SELECTION else (self.name,)

    def _selects(self, state: DatasetState) -> bool:
        return (state.schema if self.kind == SCHEMA else state.qualified_name) in self._names()


def _with_upstream(selected: set[str], states: dict[str, DatasetState]) -> set[str]:
    keys, waiting = set(selected), list(selected)
    while waiting:
        dataset = states.get(waiting.pop())
        for key in dataset.inputs if dataset else ():
            if key in states and key not in keys:
                keys.add(key)
                waiting.append(key)
    return keys


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
    """Return the report on changing ``current`` into ``desired`` in ``scope`` (default: all).

    ``planned`` is the plan of the same states, if it was computed before. Raises ScopeProblem if the scope is empty,
    TypeProblem for an invalid column type.
    """
    scope = scope or Scope()
    states = tuple(desired.datasets if isinstance(desired, ArchitectureState) else desired)
    keys = scope.resolve(current, states)
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
    return f"{', '.join(names[:_TITLED])}{more}"[:MAX_TITLE] or scope.describe()[:MAX_TITLE]


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


# Rendering of a report: text for a terminal, Markdown for a ticket or a pull request.


_MARKS = {ops.ALLOWED: "ok", ops.NEEDS_APPROVAL: "approve", ops.BLOCKED: "blocked", ops.METADATA_ONLY: "metadata"}
_STATUS = {"no_changes": "no changes", "open": "open", "blocked": "blocked"}


def as_text(report: ChangeReport) -> str:
    """Return the report as text: status, operations and warnings, one a line, and the fingerprint."""
    lines = [f"{report.scope.describe()}: {_status(report)}"]
    width = max((len(_mark(operation)) for operation in report.operations), default=0)
    for operation in report.operations:
        lines.append(f"  {_mark(operation):{width}}  {operation.describe()}")
        if operation.decision in (ops.NEEDS_APPROVAL, ops.BLOCKED):
            lines.append(f"  {'':{width}}  {operation.code}: {operation.message}")
        if operation.consumers:
            lines.append(f"  {'':{width}}  {operation.read_by}")
    lines += [f"  warning  {warning.code} {_about(warning)}: {warning.message}" for warning in report.warnings]
    lines.append(f"fingerprint {report.fingerprint}")
    return "\n".join(lines)


def as_markdown(report: ChangeReport) -> str:
    """Return the report as Markdown: headings and tables. Names and texts of users are escaped."""
    lines = [
        f"# Change report: {_escape(report.scope.describe())}",
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
    why = "; ".join(filter(None, (f"{operation.code}: {operation.message}", operation.read_by)))
    return _cells(decision, operation.op, operation.dataset, _change(operation), why)


def _change(operation: Operation) -> str:
    if operation.op in ops.NAMING:
        return operation.renaming
    if operation.from_ and operation.to:
        return f"{operation.column}: {operation.from_} → {operation.to}"
    return operation.column


def _cells(*cells: str) -> str:
    return "| " + " | ".join(map(_escape, cells)) + " |"


def _escape(text: str) -> str:
    """Return a text escaped for Markdown and HTML."""
    return "".join(_escaped_characters(text))


def _escaped_characters(text: str) -> Iterable[str]:
    for character in " ".join(text.split()):
        yield f"\\{character}" if character in "\\|`*_[]#<>" else character
