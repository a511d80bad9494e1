"""Builders of architecture states for tests, and the applied state after a report."""

from collections.abc import Iterable, Mapping
from typing import Any

from architecture.domain.change_policy import FLAGS, PolicySet
from architecture.domain.planning.matching import former_names, match
from architecture.domain.report import ChangeReport, build_report
from architecture.domain.states.applied_state import advance
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.inverses import Unwinding
from architecture.domain.steps.step import Step, TableShape, becomes
from metadata.domain.scope import FILES, Scope
from metadata.domain.state import ColumnState, DatasetState

EVERYTHING_ALLOWED = PolicySet.of_flags(dict.fromkeys(FLAGS, True))


def column(key: str, name: str = "", type_: str = "string(50)", **fields: Any) -> ColumnState:
    return ColumnState(key, name or key, type_, **fields)


def dataset(key: str = "d1", name: str = "", *columns: ColumnState, **fields: Any) -> DatasetState:
    """Return a rawcore dataset; without columns it has a key ``id`` and an attribute ``v``."""
    described = columns or (column("id", "id", "integer", role="business_key", nullable=False), column("v"))
    schema = fields.pop("schema", "rawcore")
    return DatasetState(key, schema, schema, name or f"rc_{key}", described, **fields)


def state(*datasets: DatasetState) -> ArchitectureState:
    return ArchitectureState(datasets)


def report(
    before: ArchitectureState | CurrentState, after: ArchitectureState, policy: PolicySet | None = None
) -> ChangeReport:
    """Return the report that leads from one state to the other."""
    current = before if isinstance(before, CurrentState) else CurrentState.of_state(before)
    return build_report(current, after, policy or PolicySet(), Scope(FILES))


def carried_out(before: ArchitectureState, after: ArchitectureState, change_report: ChangeReport) -> ArchitectureState:
    """Return the applied state after every operation of the report, finished one by one."""
    applied = {dataset.key: dataset for dataset in before.datasets}
    matching = match(before.datasets, after.datasets, name=lambda row: row.qualified_name.lower(), former=former_names)
    desired = {pair.before.key: pair.after for pair in matching.known} | {
        dataset.key: dataset for dataset in after.datasets
    }
    for operation in change_report.operations:
        key = operation.dataset_key
        reached = advance(applied.get(key), operation, desired.get(key))
        if reached is None:
            applied.pop(key, None)
        else:
            applied[key] = reached
    return ArchitectureState(tuple(applied.values()))


def descriptions(change_report: ChangeReport) -> list[str]:
    """Return the description of each operation in order."""
    return [operation.describe() for operation in change_report.operations]


def codes(change_report: ChangeReport) -> Iterable[str]:
    return [warning.code for warning in change_report.warnings]


def inverses(
    executed: Iterable[tuple[Step, int | None]], shapes: Mapping[str, TableShape] | None = None
) -> tuple[Step, ...]:
    """Return the steps that undo executed steps, in the order to run them: the last step is undone first.

    ``executed`` are the steps with the table versions before them, ``shapes`` the current shapes of all tables,
    including dropped ones (None: the results of the steps). Raises StoodOn for a table that was changed since its
    step.
    """
    executed = list(executed)
    unwinding = Unwinding({step.table.key: becomes(step) for step, _ in executed} if shapes is None else shapes)
    return tuple(back for step, version in reversed(executed) for back in unwinding.take_back(step, version))
