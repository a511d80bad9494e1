"""Content of a change report: the positional rows that its fingerprint covers, written and read.

The fields of a row are those of its class, in order; a stored row is never rewritten, so a field that is added later is
optional.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Self

from architecture.domain.operations import Operation
from architecture.domain.states.current_state import Placed, Table
from architecture.domain.states.flat_states import FOREIGN_KEY
from metadata.domain.state import ColumnState, DatasetState


class ColumnContent(NamedTuple):
    """Column of a dataset. ``inputs`` are stable keys; those of a foreign key are pairs of keys."""

    key: str
    name: str
    former_names: list[str]
    type: str
    nullable: bool
    role: str
    active: bool
    expression: str | None
    inputs: list[str]


class DatasetContent(NamedTuple):
    """Applied or desired dataset. Its row ends with the columns, after those optional fields that it has."""

    key: str
    schema: str
    name: str
    former_names: list[str]
    active: bool
    materialization: str
    historize: bool
    history_key: str | None
    filter: str | None
    inputs: list[str]
    load_policy: Any
    history_policy: Any
    hash_version: int
    select: str | None = ""
    increment: Any = None
    contract: Any = None
    column_rows: Sequence[list[Any]] = ()

    @classmethod
    def of_row(cls, row: list[Any]) -> Self:
        *fields, column_rows = row
        return cls(*fields)._replace(column_rows=column_rows)

    @property
    def columns(self) -> Iterator[ColumnContent]:
        """Yield the columns. They are read on demand, because most datasets of a report are unchanged."""
        return map(ColumnContent._make, self.column_rows)


class TableColumnContent(NamedTuple):
    """Observed column with its stable key."""

    key: str
    name: str
    type: str
    active: bool


class TableContent(NamedTuple):
    """Observed table or view."""

    schema: str
    name: str
    view: bool
    column_rows: Sequence[list[Any]]

    @property
    def columns(self) -> Iterator[TableColumnContent]:
        return map(TableColumnContent._make, self.column_rows)


class CurrentContent(NamedTuple):
    """Applied dataset with its observed tables. ``missing`` are the sides that were applied but not observed."""

    dataset: DatasetContent
    base: TableContent | None
    missing: tuple[str, ...]

    @classmethod
    def of_row(cls, row: list[Any]) -> Self:
        dataset, tables, missing = row
        base = TableContent(*tables[0]) if tables and tables[0] else None
        return cls(DatasetContent.of_row(dataset), base, tuple(missing))


class OperationContent(NamedTuple):
    """Operation with its decision. ``columns`` are key, and the rest, of each column that it changes together."""

    op: str
    dataset: str
    dataset_key: str
    side: str
    column: str
    column_key: str
    from_: str
    to: str
    columns: list[list[Any]]
    decision: str
    code: str
    destructive: bool
    consumers: Any = ()

    @property
    def column_keys(self) -> set[str]:
        """Return the stable keys of the columns that the operation changes."""
        return {self.column_key, *(column[0] for column in self.columns)} - {""}


def dataset_row(state: DatasetState) -> list[Any]:
    """Return a dataset as its row."""
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
        # Fields that were added later, without those that a dataset does not have.
        *([state.select, state.increment] if state.select or state.contract else []),
        *([asdict(state.contract)] if state.contract else []),
        [_column_row(column) for column in sorted(state.columns, key=lambda column: column.key)],
    ]


def _column_row(column: ColumnState) -> list[Any]:
    return list(
        ColumnContent(
            key=column.key,
            name=column.name,
            former_names=list(column.former_names),
            type=column.type,
            nullable=column.nullable,
            role=column.role,
            active=column.active,
            expression=column.expression,
            inputs=_inputs(column),
        )
    )


def _inputs(column: ColumnState) -> list[str]:
    """Return the inputs to hash. Without an expression their order counts: the first input of a dataset is used."""
    in_order = not column.expression and column.role != FOREIGN_KEY
    return list(column.inputs) if in_order else sorted(column.inputs)


def current_row(placed: Placed, observed: bool) -> list[Any]:
    """Return a dataset as its row, with its tables if they were observed; a state file's follow from the state."""
    tables = [_table_row(table) for table in (placed.base, placed.history)] if observed else []
    return [dataset_row(placed.state), tables, list(placed.missing)]


def _table_row(table: Table | None) -> list[Any] | None:
    if table is None:
        return None
    columns = [[column.key, column.name, column.type, column.active] for column in table.columns]
    return [table.schema, table.name, table.view, sorted(columns)]


def operation_row(operation: Operation) -> list[Any]:
    """Return an operation with its decision as its row."""
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
        *([[asdict(consumer) for consumer in operation.consumers]] if operation.consumers else []),
    ]


def read_desired(content: Mapping[str, Any]) -> Iterator[DatasetContent]:
    """Yield the desired datasets of a report's content."""
    return map(DatasetContent.of_row, content["desired"])


def read_current(content: Mapping[str, Any]) -> Iterator[CurrentContent]:
    """Yield the applied datasets of a report's content, with their observed tables."""
    return map(CurrentContent.of_row, content["current"])


def read_operations(content: Mapping[str, Any]) -> Iterator[OperationContent]:
    """Yield the operations of a report's content, in order."""
    return (OperationContent(*row) for row in content["operations"])
