"""Changes of one table that its operations plan, in place of those that a comparison finds.

A column whose key is not in the table yet is matched by the name in the operation, and its key is set before any other
change.
"""

from collections.abc import Sequence

from architecture.domain import operations as logical
from architecture.domain.operations import Operation
from architecture.domain.steps.step import (
    REBUILD_TABLE,
    RETYPE_COLUMN,
    WIDEN_COLUMN,
    StepProblem,
    TableShape,
)
from architecture.domain.steps.table_changes import NEVER_NARROWER, RAW, Changes, columns_by_key_and_name, retype
from architecture.domain.tables import ColumnSpec, ObservedColumn, TableSpec, stored
from architecture.domain.type_changes import common_type
from metadata.domain.naming import base_name

NOT_NULL = "NOT_NULL"
_DATA_PURPOSES = ("business_key", "attribute", "foreign_key")
# Operations to which changes of technical columns may belong, by priority.
_LEADING = (logical.RENAME_TABLE, logical.CHANGE_LOGIC, logical.CREATE_TABLE, logical.RENAME_COLUMN)
_RETYPING = {
    logical.WIDEN_COLUMN: WIDEN_COLUMN,
    logical.REBUILD_TABLE: REBUILD_TABLE,
    logical.RETYPE_COLUMN: RETYPE_COLUMN,
}


def follow_operations(
    table: TableSpec, shape: TableShape | None, owned: Sequence[tuple[int, Operation]], *, historized: bool
) -> Changes:
    """Return the changes that a dataset's operations cause in one of its tables.

    An event log follows its history; without one it follows the base table, and never gets narrower either.
    """
    return _TableOperations(table, shape, owned, historized=historized).changes()


class _TableOperations:
    """One table, and the operations on its dataset from which its changes follow."""

    def __init__(
        self,
        table: TableSpec,
        shape: TableShape | None,
        owned: Sequence[tuple[int, Operation]],
        *,
        historized: bool,
    ) -> None:
        self.table, self.shape, self.owned = table, shape, owned
        never_narrower = table.kind in NEVER_NARROWER
        side = logical.HISTORY if never_narrower and historized else logical.BASE
        # An event log without a history follows its base table, but does not get narrower with it.
        skipped = (logical.RETYPE_COLUMN,) if never_narrower and not historized else ()
        self.own = [
            (ordinal, operation)
            for ordinal, operation in owned
            if operation.side == side and operation.op not in skipped
        ]
        self.specs = {column.key: column for column in table.columns}
        self.result = Changes(table)
        self.by_key, self.by_name = columns_by_key_and_name(shape) if shape else ({}, {})

    def changes(self) -> Changes:
        if self.shape is None:
            ordinal = self._ordinal_of(logical.CREATE_TABLE)
            ordinal = self._leading() if ordinal is None else ordinal
            # A missing table without an operation that creates it belongs to another report.
            self.result.created, self.result.created_by = ordinal is not None, ordinal
            return self.result
        self._rename_table()
        for ordinal, operation in self.own:
            self._column(ordinal, operation)
        if self.table.kind in NEVER_NARROWER:
            self._follow_retyped()
        if self.table.kind == RAW and self.shape.partition_by != self.table.partition_by:
            self.result.repartitioned_by = self._ordinal_of(logical.REBUILD_TABLE)
            self.result.repartitioned = self.result.repartitioned_by is not None
        drops = (ordinal for ordinal, operation in self.own if operation.op == logical.DROP_FEATURES)
        self.result.drop_features_operation = next(drops, None)
        for column in self.table.columns:
            if column.purpose not in _DATA_PURPOSES:
                self._technical(column)
        return self.result

    def _ordinal_of(self, *ops: str) -> int | None:
        """Return the ordinal of the first operation of these kinds on this side, else on the other."""
        for operations in (self.own, self.owned):
            for op in ops:
                position = next((ordinal for ordinal, operation in operations if operation.op == op), None)
                if position is not None:
                    return position
        return None

    def _leading(self) -> int | None:
        return self._ordinal_of(*_LEADING)

    def _rename_table(self) -> None:
        ordinal = self._ordinal_of(logical.RENAME_TABLE)
        if ordinal is not None and self.shape and self.shape.qualified_name != self.table.qualified_name:
            self.result.renamed, self.result.renamed_by = True, ordinal

    def _current(self, key: str, *names: str) -> ObservedColumn | None:
        """Return the column with this key, else the first with one of these names and no key of a desired column."""
        if key in self.by_key:
            return self.by_key[key]
        for name in filter(None, names):
            current = self.by_name.get(name.lower())
            if current is not None and current.key not in self.specs:
                return current
        return None

    def _keyed(self, ordinal: int, key: str, *names: str) -> ObservedColumn | None:
        """Return the column to which an operation refers by ``key``, and set its key if it has another or none."""
        current = self._current(key, *names)
        if current is not None and key not in self.by_key and key in self.specs:
            self.result.stamps.append((key, current.name, ordinal))
            self.result.replaced.extend([current.key] if current.key else [])
            self.by_key[key] = current
        return current

    def _column(self, ordinal: int, operation: Operation) -> None:
        if operation.op == logical.RENAME_COLUMN:
            current = self._keyed(ordinal, operation.column_key, operation.from_, operation.column)
            if current is not None and current.name != operation.to:
                self.result.renames[current.name] = (operation.to, ordinal)
        elif operation.op == logical.ADD_COLUMN:
            self._add(ordinal, operation)
        elif operation.op in _RETYPING:
            self._retyped(ordinal, operation)
        elif operation.op == logical.DROP_COLUMN:
            current = self._current(operation.column_key, operation.column)
            if current is not None:
                self.result.dropped.append((current, ordinal))
        elif operation.op == logical.CHANGE_LOGIC and operation.code == NOT_NULL:
            current = self._current(operation.column_key, operation.column)
            if current is not None:
                checked = ColumnSpec(operation.column_key, current.name, current.type, "", nullable=False)
                self.result.checks.append((checked, ordinal))

    def _retyped(self, ordinal: int, operation: Operation) -> None:
        changes = operation.columns or ((operation.column_key, operation.from_, operation.to),)
        for key, _, type_ in changes:
            name = operation.column if key == operation.column_key else self._name_before(key)
            current = self._keyed(ordinal, key, name)
            if current is not None:
                retype(self.result, current, type_, ordinal, _RETYPING[operation.op])

    def _name_before(self, key: str) -> str:
        """Return the name of a column before the report."""
        renames = (item for _, item in self.own if item.op == logical.RENAME_COLUMN and item.column_key == key)
        renamed = next(renames, None)
        if renamed is not None:
            return renamed.from_
        return self.specs[key].name if key in self.specs else ""

    def _follow_retyped(self) -> None:
        """Widen a history's columns whose base columns change incompatibly, so that they take both types."""
        own = {operation.column_key for _, operation in self.own if operation.op in (logical.ADD_COLUMN, *_RETYPING)}
        own |= {key for _, operation in self.own for key, _, _ in operation.columns}
        for ordinal, operation in self.owned:
            if (operation.op, operation.side) != (logical.RETYPE_COLUMN, logical.BASE) or operation.column_key in own:
                continue
            current = self._current(operation.column_key, operation.column)
            both = common_type(current.type, operation.to) if current is not None else None
            if current is not None and both is not None:
                retype(self.result, current, both, ordinal)

    def _add(self, ordinal: int, operation: Operation) -> None:
        spec = self.specs.get(operation.column_key)
        if spec is None:  # an event log has no foreign keys
            return
        current = self.by_key.get(spec.key)
        if current is None:
            self.result.added.append((spec, ordinal))
        elif operation.from_ or current.type != stored(spec.type):
            # The types are incompatible: the old column stays, and loses its key and name to the new one.
            self.result.untied.append((spec.key, current.name, ordinal))
            self.result.added.append((spec, ordinal))
        elif current.name != spec.name:
            self.result.renames[current.name] = (spec.name, ordinal)

    def _technical(self, column: ColumnSpec) -> None:
        """Add the changes of a technical column that has no operation of its own."""
        columns = {operation.column_key for _, operation in self.own}
        if column.key in columns:
            return
        current = self._current(column.key, self._former(column), column.name)
        if current is None:
            self.result.added.append((column, self._require_leading(column, "is missing")))
            return
        if current.name != column.name:
            ordinal = self._require_leading(column, f"is called {current.name}")
            if current.key is None:
                self.result.stamps.append((column.key, current.name, ordinal))
            self.result.renames[current.name] = (column.name, ordinal)
        if common_type(current.type, stored(column.type)) != current.type:
            leading = self._ordinal_of(*_RETYPING, logical.CHANGE_LOGIC)
            ordinal = self._require_leading(column, f"is {current.type}") if leading is None else leading
            retype(self.result, current, column.type, ordinal)

    def _former(self, column: ColumnSpec) -> str:
        """Return the name, before the table is renamed, of a column that is named after the table; else empty."""
        assert self.shape is not None
        base = base_name(self.table.name)
        before = base_name(self.shape.qualified_name.partition(".")[2])
        return before + column.name.removeprefix(base) if column.name.startswith(base) else ""

    def _require_leading(self, column: ColumnSpec, state: str) -> int:
        """Return the ordinal of the operation to which the change of a technical column belongs, or raise."""
        ordinal = self._leading()
        if ordinal is None:
            raise StepProblem(
                "STEP_WITHOUT_OPERATION",
                f"column {column.name} {state}, and no operation of the report accounts for that; make a new report",
                where=self.table.qualified_name,
            )
        return ordinal
