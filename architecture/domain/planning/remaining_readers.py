"""Warnings about columns that are dropped or no longer filled, but still read.

The next load of the reader would fail. The warnings do not affect the decision on the operation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from architecture.domain import operations as ops
from architecture.domain.operations import BASE, Operation, Warning
from elevata.core.errors import MetadataError
from metadata.domain.sql import check_expression
from metadata.domain.state import DatasetState

STILL_READ = "COLUMN_STILL_READ"
_REMOVALS = frozenset({ops.RETIRE_COLUMN, ops.DROP_COLUMN})
_MAX_LISTED = 10


def still_read(
    operations: Iterable[Operation], desired: Collection[DatasetState], same: Mapping[str, str]
) -> Iterator[Warning]:
    """Yield a warning for each removed column that desired datasets still read.

    ``same`` maps the dataset keys in operations to those in the desired state.
    """
    by_key = {dataset.key: dataset for dataset in desired}
    readers: dict[str, list[DatasetState]] = {}
    for dataset in sorted(desired, key=lambda dataset: dataset.qualified_name):
        for key in dataset.inputs if dataset.active else ():
            readers.setdefault(key, []).append(dataset)
    for operation in operations:
        if operation.side != BASE or operation.op not in _REMOVALS:
            continue
        key = same.get(operation.dataset_key, operation.dataset_key)
        names = _names(operation, by_key.get(key))
        messages = [
            message for reader in readers.get(key, ()) for message in _reads(reader, operation.column_key, names)
        ]
        if messages:
            yield Warning(STILL_READ, operation.dataset, operation.column, _still_read_message(messages))


def _names(operation: Operation, dataset: DatasetState | None) -> frozenset[str]:
    """Return the names by which readers may refer to the column: the current and the desired one."""
    columns = dataset.columns if dataset else ()
    desired = {column.name for column in columns if column.key == operation.column_key}
    return frozenset(name.lower() for name in {operation.column, *desired})


def _reads(reader: DatasetState, key: str, names: frozenset[str]) -> Iterator[str]:
    """Yield the columns and the filter of a dataset that read the column, by inputs or, without inputs, by name."""
    for column in reader.active_columns:
        by_name = not column.inputs and column.expression is not None and names & _names_in(column.expression)
        if key in column.inputs or by_name:
            yield f"{reader.qualified_name}.{column.name}"
    if reader.filter is not None and names & _names_in(reader.filter):
        yield f"the filter of {reader.qualified_name}"


def _names_in(text: str) -> frozenset[str]:
    """Return the names in an expression; none if it is not accepted SQL, as possible in another installation's file."""
    try:
        return frozenset(name.lower() for name in check_expression(text))
    except MetadataError:
        return frozenset()


def _still_read_message(messages: list[str]) -> str:
    more = f" and {len(messages) - _MAX_LISTED} more" if messages[_MAX_LISTED:] else ""
    listed = ", ".join(messages[:_MAX_LISTED]) + more
    return f"is still read by {listed}; let these read something else, or retire them, too"
