"""Steps between two state files, for their statements in a dialect.

A state file has short keys, and neither layers nor histories. Tables need both, so they are derived: a key that is no
UUID becomes one by its text, and a historized dataset gets its history.
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import NAMESPACE_URL, UUID, uuid5

from architecture.domain.operations import BLOCKED, Operation
from architecture.domain.planning.matching import as_known
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.domain.tables import ObservedColumn, ObservedTable, TableSpec, stored, tables_of
from metadata.domain.state import TECHNICAL, ColumnState, DatasetState


def steps_between(
    previous: ArchitectureState, desired: ArchitectureState, operations: Iterable[Operation]
) -> tuple[Step, ...]:
    """Return the steps of a report on two state files. Blocked operations have none."""
    before = tuple(map(_described, previous.datasets))
    after = as_known(tuple(map(_described, desired.datasets)), before).states
    observed = {spec.key: _observed(spec) for state in before for spec in tables_of(_unretired(state))}
    wanted = [spec for state in after for spec in tables_of(state)]
    planned = list(operations)
    steps = plan_steps(wanted, observed, [_with_keys(item) for item in planned if item.decision != BLOCKED])
    places = [place for place, item in enumerate(planned) if item.decision != BLOCKED]
    return tuple(
        step if step.operation is None else replace(step, operation=places[step.operation]) for step in steps
    )


def _key(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return str(uuid5(NAMESPACE_URL, text)) if text else ""


def _with_keys(operation: Operation) -> Operation:
    columns = tuple((_key(key), before, after) for key, before, after in operation.columns)
    dataset_key, column_key = _key(operation.dataset_key), _key(operation.column_key)
    return replace(operation, columns=columns, dataset_key=dataset_key, column_key=column_key)


def _described(dataset: DatasetState) -> DatasetState:
    columns = tuple(_column(column) for column in dataset.columns if column.role != TECHNICAL)
    described = replace(dataset, key=_key(dataset.key), columns=columns, inputs=tuple(map(_key, dataset.inputs)))
    if not dataset.historize:
        return described
    return replace(described, layer="rawcore", history_key=str(uuid5(UUID(described.key), "history")))


def _column(column: ColumnState) -> ColumnState:
    return replace(column, key=_key(column.key), inputs=tuple(map(_key, column.inputs)))


def _unretired(dataset: DatasetState) -> DatasetState:
    """Return the dataset with everything that was retired, whose tables and columns are still there."""
    return replace(dataset, active=True, columns=tuple(replace(column, active=True) for column in dataset.columns))


def _observed(spec: TableSpec) -> ObservedTable:
    columns = tuple(ObservedColumn(column.name, stored(column.type), key=column.key) for column in spec.columns)
    return ObservedTable(spec.key, spec.qualified_name, columns, 0, spec.partition_by)
