"""Undo of one group in a dataset's applied state: only the group's change is reverted, later changes remain.

All states are flat; None is a missing dataset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.states.applied_state import LOGIC_FIELDS
from architecture.domain.undo.undo_groups import LOGIC, NAME, NULLABLE, TABLE, THERE, TYPE, USE, UndoGroup
from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.state import ColumnState, DatasetState

State = DatasetState | None
# Current value of what the group changed: as the group left it, as before the group, or changed since.
LEFT, BEFORE, MOVED = "left", "before", "moved"


@dataclass(frozen=True)
class Undone:
    """Result of undoing a group in a state.

    ``found`` is LEFT, BEFORE or MOVED; ``state`` is the state after undo, unchanged unless ``found`` is LEFT.
    """

    found: str
    state: State


def undone(group: UndoGroup, state: State, before: State, left: State) -> Undone:
    """Return the result for ``state`` (applied now).

    ``before`` and ``left`` are the states before and after the record.
    """
    if group.aspect == TABLE:
        return _table(group, state, before, left)
    if state is None:
        return Undone(MOVED, state)
    if group.column_key:
        return _column(group, state, before, left)
    return _types(group, state) if group.aspect == TYPE else _fields(group, state, before, left)


def _undo_fields(
    state: DatasetState, now: Mapping[str, Any], was: Mapping[str, Any], then: Mapping[str, Any]
) -> Undone:
    if now == then:
        return Undone(LEFT, replace(state, **was))
    return Undone(BEFORE if now == was else MOVED, state)


def _table(group: UndoGroup, state: State, before: State, left: State) -> Undone:
    """Undo the creation or removal of a table, with the whole state of its dataset."""
    if not group.of_base(ops.CREATE_TABLE, ops.DROP_TABLE):  # a history was created for an existing base table
        if state is None:
            return Undone(MOVED, state)
        return _undo_fields(state, {"historize": state.historize}, {"historize": False}, {"historize": True})
    now, was, then = _comparable(state), _comparable(before), _comparable(left)
    if now == then and now != was:
        return Undone(LEFT, before)
    return Undone(BEFORE if now == was else MOVED, state)


def _comparable(state: State) -> Any:
    """Return the parts of a dataset's state that operations on the base table change, for comparison."""
    if state is None:
        return None
    table = (state.qualified_name, state.active, state.materialization, state.filter, sorted(state.inputs))
    columns = sorted(
        (column.key, column.name, column.type, column.active, column.expression or "") for column in state.columns
    )
    return table, state.load_policy, state.history_policy, columns


def _fields(group: UndoGroup, state: DatasetState, before: State, left: State) -> Undone:
    """Undo a change of the dataset's name, use or logic."""
    if before is None or left is None or (group.aspect == NAME and not group.of_base(ops.RENAME_TABLE)):
        return Undone(LEFT, state)  # only the history was changed, which has no state of its own
    fields = _FIELDS[group.aspect]
    now, was, then = (fields(side, state) for side in (state, before, left))
    if group.aspect == USE and not left.active:
        then["historize"] = now["historize"]  # retiring a dataset does not change whether it is historized
    result = _undo_fields(state, now, was, then)
    if group.aspect == NAME and result.found == LEFT and result.state is not None:
        return Undone(LEFT, replace(result.state, former_names=before.former_names))
    return result


def _name_fields(side: DatasetState, state: DatasetState) -> dict[str, Any]:
    return {"schema": side.schema, "layer": side.layer, "name": side.name}


def _use_fields(side: DatasetState, state: DatasetState) -> dict[str, Any]:
    return {"active": side.active, "historize": side.historize}


def _logic_fields(side: DatasetState, state: DatasetState) -> dict[str, Any]:
    return {
        **{name: getattr(side, name) for name in LOGIC_FIELDS},
        "history_policy": _with_current_names(side.history_policy, side, state),
        "columns": _with_roles(state, side),
    }


# The fields of each aspect, read from a state before, after or now (first argument), with the columns as they are now
# (second argument).
_FIELDS: dict[str, Callable[[DatasetState, DatasetState], dict[str, Any]]] = {
    NAME: _name_fields,
    USE: _use_fields,
    LOGIC: _logic_fields,
}


def _with_current_names(policy: dict[str, Any] | str, of: DatasetState, state: DatasetState) -> dict[str, Any] | str:
    """Return the history policy of one state with the column names of ``state``."""
    now = {column.key: column.name for column in state.columns}
    renames = {column.name: now[column.key] for column in of.columns if now.get(column.key, column.name) != column.name}
    if not isinstance(policy, dict):
        return policy
    try:
        return HistoryPolicy.from_dict(policy).renamed(renames).to_dict()
    except MetadataError:
        return policy


def _with_roles(state: DatasetState, of: DatasetState) -> tuple[ColumnState, ...]:
    roles = {column.key: column.role for column in of.columns}
    return tuple(replace(column, role=roles.get(column.key, column.role)) for column in state.columns)


def _column(group: UndoGroup, state: DatasetState, before: State, left: State) -> Undone:
    current, was, then = (_of_key(side, group.column_key) for side in (state, before, left))
    if group.aspect == THERE:
        return _presence(group, state, current, was)
    operations = group.of_base(*_COLUMN_OPERATIONS[group.aspect])
    if not operations:
        return Undone(LEFT, state)
    if current is None:
        return Undone(MOVED, state)
    return _COLUMN_UNDOS[group.aspect](group, state, current, was, then)


def _presence(group: UndoGroup, state: DatasetState, current: ColumnState | None, was: ColumnState | None) -> Undone:
    for operation in group.of_base(ops.ADD_COLUMN):
        if current is None:
            return Undone(BEFORE, state)
        if (current.name, current.type) != (operation.column, operation.to):
            return Undone(MOVED, state)
        return Undone(LEFT, _with_column(state, current.key, None))
    for _ in group.of_base(ops.DROP_COLUMN):
        if current is not None or was is None:
            return Undone(BEFORE if current is not None else MOVED, state)
        # A column that was retired before cannot be recognized as such, so the restored one is active.
        return Undone(LEFT, replace(state, columns=(*state.columns, replace(was, active=True))))
    return Undone(LEFT, state)


def _name(group: UndoGroup, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    """Undo a column's rename, also in the history policy, which refers to columns by name."""
    (operation,) = group.of_base(ops.RENAME_COLUMN)
    before, after = operation.from_, operation.to
    if current.name != after:
        return Undone(BEFORE if current.name == before else MOVED, state)
    # Readers of the column are renamed, too, so the undone name becomes a former one.
    former = (*(name for name in (was or current).former_names if name not in (before, after)), after)
    renamed = _with_column(state, current.key, replace(current, name=before, former_names=former))
    return Undone(LEFT, replace(renamed, history_policy=_with_current_names(state.history_policy, state, renamed)))


def _type(group: UndoGroup, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    (operation,) = group.of_base(ops.WIDEN_COLUMN, ops.RETYPE_COLUMN)
    return _of_column(state, current, {"type": operation.from_}, {"type": operation.to})


def _use(group: UndoGroup, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    """Undo retiring a column or its reversal."""
    retired = bool(group.of_base(ops.RETIRE_COLUMN))
    return _of_column(state, current, {"active": retired}, {"active": not retired})


def _logic(group: UndoGroup, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    fields = ("expression", "inputs", "role")
    sides = [{name: getattr(values, name) for name in fields} if values is not None else {} for values in (was, then)]
    return _of_column(state, current, *sides)


def _nullable(group: UndoGroup, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    return _of_column(state, current, {"nullable": True}, {"nullable": False})


_COLUMN_UNDOS: dict[str, Callable[..., Undone]] = {
    NAME: _name,
    TYPE: _type,
    USE: _use,
    LOGIC: _logic,
    NULLABLE: _nullable,
}
_COLUMN_OPERATIONS = {
    NAME: (ops.RENAME_COLUMN,),
    TYPE: (ops.WIDEN_COLUMN, ops.RETYPE_COLUMN),
    USE: (ops.RETIRE_COLUMN, ops.UNRETIRE_COLUMN),
    LOGIC: (ops.CHANGE_LOGIC,),
    NULLABLE: (ops.CHANGE_LOGIC,),
}


def _of_column(state: DatasetState, current: ColumnState, was: Mapping[str, Any], then: Mapping[str, Any]) -> Undone:
    now = {name: getattr(current, name) for name in then}
    if now == then and was:
        return Undone(LEFT, _with_column(state, current.key, replace(current, **was)))
    return Undone(BEFORE if now == was else MOVED, state)


def _types(group: UndoGroup, state: DatasetState) -> Undone:
    """Undo the type change of several columns together."""
    changed = {
        key: (was, then) for operation in group.of_base(ops.REBUILD_TABLE) for key, was, then in operation.columns
    }
    retyped = group.of_base(ops.WIDEN_COLUMN, ops.RETYPE_COLUMN)
    changed |= {operation.column_key: (operation.from_, operation.to) for operation in retyped}
    current = {column.key: column for column in state.columns if column.key in changed}
    now = {key: column.type for key, column in current.items()}
    was, then = ({key: changed[key][side] for key in current} for side in (0, 1))
    if now != then:
        return Undone(BEFORE if now == was else MOVED, state)
    back = tuple(replace(column, type=was.get(column.key, column.type)) for column in state.columns)
    return Undone(LEFT, replace(state, columns=back))


def _of_key(state: State, key: str) -> ColumnState | None:
    return next((column for column in state.columns if column.key == key), None) if state is not None else None


def _with_column(state: DatasetState, key: str, column: ColumnState | None) -> DatasetState:
    columns = (column if other.key == key else other for other in state.columns)
    return replace(state, columns=tuple(other for other in columns if other is not None))
