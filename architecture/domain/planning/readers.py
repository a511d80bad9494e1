"""Readers of a column that is dropped or no longer filled: expressions, filters, columns of views.

Nothing is decided here. Policy decides on the column; that others go on to name it is for people to know,
because the first load of a reader would find it out otherwise.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from architecture.domain import operations as ops
from architecture.domain.operations import BASE, Operation, Warning
from elevata.core.errors import MetadataError
from metadata.domain.sql import check_expression
from metadata.domain.state import DatasetState

STILL_READ = "COLUMN_STILL_READ"
_GOING = frozenset({ops.RETIRE_COLUMN, ops.DROP_COLUMN})
_MOST_NAMED = 10


def still_read(
    operations: Iterable[Operation], desired: Collection[DatasetState], same: Mapping[str, str]
) -> Iterator[Warning]:
    """A warning for each column that goes although desired datasets read it.

    ``same`` gives a dataset's key in the desired state by the one that operations carry.
    """
    by_key = {dataset.key: dataset for dataset in desired}
    readers: dict[str, list[DatasetState]] = {}
    for dataset in sorted(desired, key=lambda one: one.qualified_name):
        for key in dataset.inputs if dataset.active else ():
            readers.setdefault(key, []).append(dataset)
    for operation in operations:
        if operation.side != BASE or operation.op not in _GOING:
            continue
        key = same.get(operation.dataset_key, operation.dataset_key)
        names = _names(operation, by_key.get(key))
        found = [said for reader in readers.get(key, ()) for said in _reads(reader, operation.column_key, names)]
        if found:
            yield Warning(STILL_READ, operation.dataset, operation.column, _said(found))


def _names(operation: Operation, dataset: DatasetState | None) -> frozenset[str]:
    """Return the names under which the column is read: its present and its future name."""
    columns = dataset.columns if dataset else ()
    desired = {column.name for column in columns if column.key == operation.column_key}
    return frozenset(name.lower() for name in {operation.column, *desired})


def _reads(reader: DatasetState, key: str, names: frozenset[str]) -> Iterator[str]:
    """The places of a dataset that read the column. What a column reads, its inputs say; if they do not, its text."""
    for column in reader.active_columns:
        by_name = not column.inputs and column.expression is not None and names & _named(column.expression)
        if key in column.inputs or by_name:
            yield f"{reader.qualified_name}.{column.name}"
    if reader.filter is not None and names & _named(reader.filter):
        yield f"the filter of {reader.qualified_name}"


def _named(text: str) -> frozenset[str]:
    """The names in a text; none where it is not SQL of ours, as in another installation's file."""
    try:
        return frozenset(name.lower() for name in check_expression(text))
    except MetadataError:
        return frozenset()


def _said(found: list[str]) -> str:
    listed = ", ".join(found[:_MOST_NAMED]) + (f" and {len(found) - _MOST_NAMED} more" if found[_MOST_NAMED:] else "")
    return f"is still read by {listed}; let these read something else, or retire them, too"
