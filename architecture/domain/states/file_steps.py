"""Steps between two state files, for their statements in a dialect.

A state file has short keys, and neither layers nor histories. Tables need both, so they are derived: a key that is no
UUID becomes one by its text, and a historized dataset gets its history.
"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import NAMESPACE_URL, UUID, uuid5

from architecture.domain.operations import Operation
from architecture.domain.planning.matching import as_known
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.domain.tables import ObservedColumn, ObservedTable, TableSpec, stored, tables_of
from metadata.domain.stable_keys import history_dataset_key
from metadata.domain.state import TECHNICAL, ColumnState, DatasetState


def steps_between(
    previous: ArchitectureState, desired: ArchitectureState, operations: Iterable[Operation]
) -> tuple[Step, ...]:
    """Return the steps of operations of a report on two state files."""
    before = tuple(map(_with_uuids, previous.datasets))
    after = as_known(tuple(map(_with_uuids, desired.datasets)), before).states
    observed = {spec.key: _observe(spec) for state in before for spec in tables_of(_activate_all(state))}
    wanted = [spec for state in after for spec in tables_of(state)]
    return plan_steps(wanted, observed, list(map(_with_keys, operations)))


def _key(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return str(uuid5(NAMESPACE_URL, text)) if text else ""


def _with_keys(operation: Operation) -> Operation:
    columns = tuple((_key(key), before, after) for key, before, after in operation.columns)
    dataset_key, column_key = _key(operation.dataset_key), _key(operation.column_key)
    return replace(operation, columns=columns, dataset_key=dataset_key, column_key=column_key)


def _with_uuids(dataset: DatasetState) -> DatasetState:
    columns = tuple(_column(column) for column in dataset.columns if column.role != TECHNICAL)
    described = replace(dataset, key=_key(dataset.key), columns=columns, inputs=tuple(map(_key, dataset.inputs)))
    if not dataset.historize:
        return described
    return replace(described, layer="rawcore", history_key=str(history_dataset_key(UUID(described.key))))


def _column(column: ColumnState) -> ColumnState:
    return replace(column, key=_key(column.key), inputs=tuple(map(_key, column.inputs)))


def _activate_all(dataset: DatasetState) -> DatasetState:
    """Return the dataset with everything that was retired, whose tables and columns are still there."""
    return replace(dataset, active=True, columns=tuple(replace(column, active=True) for column in dataset.columns))


def _observe(spec: TableSpec) -> ObservedTable:
    columns = tuple(ObservedColumn(column.name, stored(column.type), key=column.key) for column in spec.columns)
    return ObservedTable(spec.key, spec.qualified_name, columns, 0, spec.partition_by)
