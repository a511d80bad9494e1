"""Applied state moves with each finished operation, and with nothing else.

So it never claims more than was done, and what is left of a half-finished report is what a new
report finds. States are flat (``architecture.domain.states.flat``).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain import policy
from architecture.domain.operations import HISTORY, Operation
from architecture.domain.planning.logic import match_columns, policy_choices
from architecture.domain.states.flat import FOREIGN_KEY, flat
from architecture.domain.type_changes import TypeChange, classify
from elevata.core.errors import MetadataError
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.state import ColumnState, DatasetState


def advance(applied: DatasetState | None, operation: Operation, desired: DatasetState | None) -> DatasetState | None:
    """The applied state of a dataset after ``operation`` finished on it; None once its table is gone.

    ``applied`` is None for what is not there yet, ``desired`` for what is no longer described.
    Raises ValueError for an operation that does not go with the two.
    """
    wanted = flat(desired) if desired is not None else None
    if operation.op == ops.CREATE_TABLE:
        return _created(applied, operation, _needed(wanted, operation))
    if applied is None and operation.op in (ops.RENAME_TABLE, ops.RETIRE_TABLE) and operation.side == HISTORY:
        return None  # a history is kept after its base table, and gets its name back before that is made anew
    if applied is None:
        raise ValueError(f"{operation.describe()}: the dataset was never applied")
    state = _STEPS[operation.op](flat(applied), operation, wanted)
    if state is None or wanted is None:
        return state
    if wanted.active and not follows_history(wanted):
        # Whatever is done first of such a plan, no logic of it is what the history followed.
        state = replace(state, historize=False)
    return settled(state, wanted)


def follows_history(dataset: DatasetState | None) -> bool:
    """Return whether loads compare with the dataset's history and write versions."""
    return dataset is not None and dataset.historize and dataset.materialization == "table"


def settled(applied: DatasetState, desired: DatasetState) -> DatasetState:
    """``applied`` with what holds as soon as it is said: former names, keys, nullability that only loosens.

    None of it is an operation, yet the next report has to know it.
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
    """Return whether nothing of ``desired`` is left to carry out, in columns and datasets that are retired either.

    A retired foreign key's column stays after its reference is gone, so it may be left over.
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
    """A base table comes with its columns and logic; its history is another operation."""
    if operation.side == HISTORY:
        if applied is None:
            raise ValueError(f"{operation.describe()}: the base table was never applied")
        return replace(flat(applied), historize=True, history_key=wanted.history_key)
    kept = applied is not None and applied.historize and applied.materialization == "table"
    return replace(wanted, historize=kept)


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
        kept = wanted is not None and wanted.active
        return replace(applied, historize=False) if kept else applied
    return replace(applied, active=False)


def _unretired_table(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    return replace(applied, historize=True) if operation.side == HISTORY else replace(applied, active=True)


# --- columns ---------------------------------------------------------------------------------


def _on_column(change: Callable[[ColumnState, ColumnState | None, Operation], dict[str, Any]]) -> Callable:
    """A step that changes one column of the base; what happens to a history's follows from its base."""

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
    """The applied column that an operation means, by its key, and what it is to be; keys may have moved."""
    if wanted is not None:
        for pair in match_columns(applied.columns, wanted.columns).known:
            if pair.after.key == key:
                return pair.before.key, pair.after
    return key, None


def _renamed_column(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    """The history policy names columns, so it follows."""
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
    return replace(applied, columns=tuple(one for one in applied.columns if one.key != operation.column_key))


def _rebuilt(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    types = {_target(applied, key, wanted)[0]: after for key, _, after in operation.columns}
    columns = tuple(replace(one, type=types.get(one.key, one.type)) for one in applied.columns)
    return replace(applied, columns=columns)


def _logic(applied: DatasetState, operation: Operation, wanted: DatasetState | None) -> DatasetState:
    wanted = _needed(wanted, operation)
    if operation.column_key:
        return _column_logic(applied, operation, wanted)
    roles = {column.key: column.role for column in wanted.columns}
    columns = tuple(replace(column, role=roles.get(column.key, column.role)) for column in applied.columns)
    if operation.code == policy.KEY_CHANGE:
        return replace(applied, columns=columns)
    moved = {name: getattr(wanted, name) for name in ("filter", "inputs", "load_policy", "history_policy")}
    return replace(applied, columns=columns, hash_version=wanted.hash_version, **moved)


_column_logic = _on_column(
    lambda column, after, operation: (
        {"nullable": False}
        if operation.code == policy.NOT_NULL or after is None
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
