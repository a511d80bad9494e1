"""Applied state after each finished operation.

It is advanced operation by operation, so it never claims more than was done, and a new report plans the rest of a
half-finished one. States are flat (``architecture.domain.state_files``).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from architecture.domain import change_policy
from architecture.domain import operations as ops
from architecture.domain.operations import HISTORY, Operation
from architecture.domain.planning.logic import match_columns, policy_choices
from architecture.domain.state_files import FOREIGN_KEY, flat
from architecture.domain.type_changes import TypeChange, classify
from elevata.core.errors import MetadataError
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.state import ColumnState, DatasetState


def advance(applied: DatasetState | None, operation: Operation, desired: DatasetState | None) -> DatasetState | None:
    """Return the applied state of a dataset after ``operation``; None once its table is dropped.

    ``applied`` is None for a dataset without a table yet, ``desired`` for one that is no longer described. Raises
    ValueError for an operation that does not fit the two.
    """
    wanted = flat(desired) if desired is not None else None
    if operation.op == ops.CREATE_TABLE:
        return _created(applied, operation, _needed(wanted, operation))
    if applied is None and operation.op in (ops.RENAME_TABLE, ops.RETIRE_TABLE) and operation.side == HISTORY:
        return None  # A history outlives its base table, and gets its name back before the base is created again.
    if applied is None:
        raise ValueError(f"{operation.describe()}: the dataset was never applied")
    state = _STEPS[operation.op](flat(applied), operation, wanted)
    if state is None or wanted is None:
        return state
    if wanted.active and not follows_history(wanted):
        # The first operation of such a plan sets the logic aside: the history did not follow it.
        state = replace(state, historize=False)
    return settled(state, wanted)


def follows_history(dataset: DatasetState | None) -> bool:
    """Return whether loads compare with the dataset's history and write versions."""
    return dataset is not None and dataset.historize and dataset.materialization == "table"


def settled(applied: DatasetState, desired: DatasetState) -> DatasetState:
    """Return ``applied`` with the changes that need no operation: former names, keys, loosened nullability.

    The next report has to know them.
    """
    wanted = flat(desired)
    applied = flat(applied)
    pairs = match_columns(applied.columns, wanted.columns).pairs
    # No operation speaks of the columns of a retired table: one under a known name may be another.
    ways = ("key", "name") if wanted.active or wanted.materialization == "view" else ("key",)
    known = {pair.before.key: pair.after for pair in pairs if pair.by in ways}
    columns = tuple(_settled(column, known.get(column.key)) for column in applied.columns)
    named = applied.qualified_name.lower() == wanted.qualified_name.lower()
    return replace(
        applied,
        key=wanted.key,
        history_key=wanted.history_key or applied.history_key,
        former_names=wanted.former_names if named else applied.former_names,
        columns=columns,
    )


def _settled(column: ColumnState, wanted: ColumnState | None) -> ColumnState:
    if wanted is None:
        return column
    renamed = column.name.lower() != wanted.name.lower()
    return replace(
        column,
        key=wanted.key,
        former_names=column.former_names if renamed else wanted.former_names,
        nullable=column.nullable or wanted.nullable,
    )


def is_reached(applied: DatasetState | None, desired: DatasetState) -> bool:
    """Return True if no operation is left to reach ``desired``, retired columns and datasets included.

    The retired column of a foreign key stays after its reference is removed, so it may remain.
    """
    if applied is None:
        return False
    there, wanted = flat(applied), flat(desired)
    columns = {column.key: column for column in there.columns}
    left = [columns.pop(column.key, None) for column in wanted.columns]
    return (
        _said(there) == _said(wanted)
        and all(one is not None and _same(one, column) for one, column in zip(left, wanted.columns, strict=True))
        and not any(column.active or column.role != FOREIGN_KEY for column in columns.values())
    )


def _said(dataset: DatasetState) -> DatasetState:
    """Return all but the columns, in one spelling."""
    return replace(
        dataset,
        layer="",
        columns=(),
        former_names=tuple(sorted({*dataset.former_names})),
        inputs=tuple(sorted({*dataset.inputs})),
        filter=dataset.filter or None,
        load_policy=dataset.load_policy or None,
        history_policy=policy_choices(dataset.history_policy),
    )


def _same(applied: ColumnState, wanted: ColumnState) -> bool:
    stored = classify(applied.type, wanted.type) is TypeChange.EQUIVALENT
    return stored and _spelled(applied) == _spelled(replace(wanted, type=applied.type))


def _spelled(column: ColumnState) -> ColumnState:
    names, inputs = tuple(sorted({*column.former_names})), tuple(sorted({*column.inputs}))
    return replace(column, former_names=names, inputs=inputs, expression=column.expression or None)


def _needed(wanted: DatasetState | None, operation: Operation) -> DatasetState:
    if wanted is None:
        raise ValueError(f"{operation.describe()}: the dataset is not described")
    return wanted


# --- tables ----------------------------------------------------------------------------------


def _created(applied: DatasetState | None, operation: Operation, wanted: DatasetState) -> DatasetState:
    """Return the state with a new base table, its columns and logic; its history is another operation."""
    if operation.side == HISTORY:
        if applied is None:
            raise ValueError(f"{operation.describe()}: the base table was never applied")
        return replace(flat(applied), historize=True, history_key=wanted.history_key)
    historized = applied is not None and applied.historize and applied.materialization == "table"
    return replace(wanted, historize=historized)


def _renamed_table(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    wanted = _needed(wanted, operation)
    if operation.side == HISTORY:
        return applied
    named = {"schema": wanted.schema, "layer": wanted.layer, "name": wanted.name, "former_names": wanted.former_names}
    return replace(applied, **named)


def _dropped_table(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState | None:
    return wanted


def _retired_table(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        still_active = wanted is not None and wanted.active
        return replace(applied, historize=False) if still_active else applied
    return replace(applied, active=False)


def _unretired_table(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    return replace(applied, historize=True) if operation.side == HISTORY else replace(applied, active=True)


# --- columns ---------------------------------------------------------------------------------


def _on_column(change: Callable[[ColumnState, ColumnState | None, Operation], dict[str, Any]]) -> Callable:
    """Return the state after a change of one base column; the history's column follows from its base."""

    def step(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
        if operation.side == HISTORY:
            return applied
        key, after = _target(applied, operation.column_key, wanted)
        columns = tuple(
            replace(column, **change(column, after, operation)) if column.key == key else column
            for column in applied.columns
        )
        return replace(applied, columns=columns)

    return step


def _target(applied: DatasetState, key: str, wanted: DatasetState | None) -> tuple[str, ColumnState | None]:
    """Return the applied column that an operation changes, by its key, and the desired one; keys may have moved."""
    if wanted is not None:
        for pair in match_columns(applied.columns, wanted.columns).known:
            if pair.after.key == key:
                return pair.before.key, pair.after
    return key, None


def _renamed_column(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    """Return the state with a renamed column; the history policy names columns, so it is renamed there, too."""
    if operation.side == HISTORY:
        return applied
    rename = _on_column(
        lambda column, after, _: {
            "name": operation.to,
            "former_names": after.former_names if after else (*column.former_names, column.name),
        }
    )
    renamed = rename(applied, operation, wanted)
    return replace(renamed, history_policy=_policy_renamed(applied.history_policy, operation.from_, operation.to))


def _policy_renamed(described: dict | str, before: str, after: str) -> dict | str:
    try:
        return HistoryPolicy.from_dict(described).renamed({before: after}).to_dict()
    except MetadataError:
        return described


def _added_column(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    added = [column for column in _needed(wanted, operation).columns if column.key == operation.column_key]
    rest = tuple(column for column in applied.columns if column.key != operation.column_key)
    return replace(applied, columns=(*rest, *added))


def _dropped_column(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    return replace(applied, columns=tuple(column for column in applied.columns if column.key != operation.column_key))


def _rebuilt(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    types = {_target(applied, key, wanted)[0]: after for key, _, after in operation.columns}
    columns = tuple(replace(column, type=types.get(column.key, column.type)) for column in applied.columns)
    return replace(applied, columns=columns)


def _logic(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    wanted = _needed(wanted, operation)
    if operation.column_key:
        return _column_logic(applied, operation, wanted)
    roles = {column.key: column.role for column in wanted.columns}
    columns = tuple(replace(column, role=roles.get(column.key, column.role)) for column in applied.columns)
    if operation.code == change_policy.KEY_CHANGE:
        return replace(applied, columns=columns)
    moved = {name: getattr(wanted, name) for name in ("filter", "inputs", "load_policy", "history_policy")}
    return replace(applied, columns=columns, hash_version=wanted.hash_version, **moved)


_column_logic = _on_column(
    lambda column, after, operation: (
        {"nullable": False}
        if operation.code == change_policy.NOT_NULL or after is None
        else {"expression": after.expression, "inputs": after.inputs, "role": after.role}
    )
)

_STEPS: dict[str, Callable[[DatasetState, Operation, DatasetState | None], DatasetState | None]] = {
    ops.RENAME_TABLE: _renamed_table,
    ops.DROP_TABLE: _dropped_table,
    ops.RETIRE_TABLE: _retired_table,
    ops.UNRETIRE_TABLE: _unretired_table,
    ops.REBUILD_TABLE: _rebuilt,
    ops.RENAME_COLUMN: _renamed_column,
    ops.ADD_COLUMN: _added_column,
    ops.WIDEN_COLUMN: _on_column(lambda column, after, operation: {"type": operation.to}),
    ops.RETYPE_COLUMN: _on_column(lambda column, after, operation: {"type": operation.to}),
    ops.RETIRE_COLUMN: _on_column(lambda column, after, operation: {"active": False}),
    ops.UNRETIRE_COLUMN: _on_column(lambda column, after, operation: {"active": True}),
    ops.DROP_COLUMN: _dropped_column,
    ops.CHANGE_LOGIC: _logic,
}
