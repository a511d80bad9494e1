"""Sides of a dataset: its base table or history, each before and after."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from architecture.domain.operations import HISTORY, Operation
from architecture.domain.planning.logic import Renames
from architecture.domain.states.current_state import Table
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.domain.state import ColumnState


@dataclass(frozen=True)
class Side:
    """Table of a dataset (base or history) before and after, with the facts that planning needs.

    Attributes:
        side: base or history.
        dataset_key: stable key of the dataset.
        before, after: current and desired table.
        compares: a history exists before and after, so changed values would open versions.
        drops_history_columns: the change policy allows that a history loses columns.
        renames: columns that the plan renames.
        desired_key: stable key of the dataset in the desired state.
        described: keys of the columns in the metadata; all other columns of ``after`` are generated.
        retyped: keys of columns whose type the base table narrows; the history follows.
        doubtful: keys of columns that the base table adds but that may be renamed ones; the history follows.
        readers: readers that the environment supports.
    """

    side: str
    dataset_key: str
    before: Table
    after: Table
    compares: bool
    drops_history_columns: bool
    renames: Renames
    desired_key: str
    described: Collection[str]
    retyped: Collection[str]
    doubtful: Collection[str]
    readers: str

    @property
    def dataset(self) -> str:
        return self.before.qualified_name

    def base_name(self, table: Table) -> str:
        """Return the name of the base table, from which names of technical columns are derived."""
        return table.name.removesuffix(HISTORY_SUFFIX) if self.side == HISTORY else table.name

    def operation(self, op: str, on: ColumnState, /, **fields: Any) -> Operation:
        values: dict[str, Any] = {"column": on.name, "column_key": on.key, **fields}
        return Operation(op, self.dataset, self.dataset_key, self.side, **values)


def namespace(side: Side) -> str:
    return f"{side.side} {side.dataset_key}"
