"""A dataset's applied state with one operation taken back: only what the operation changed is as before.

Whatever else was done to the dataset since stays. All states here are flat; None is a dataset that
is not there.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain.undo.undo_groups import LOGIC, NAME, NULLABLE, TABLE, THERE, TYPE, USE, WayBack
from elevata.core.errors import MetadataError
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import ExpressionProblem, check_expression
from metadata.domain.state import ColumnState, DatasetState

State = DatasetState | None

# How what an operation changed is found: as it left it, as it was before, or as something else made it since.
LEFT, BEFORE, MOVED = "left", "before", "moved"


@dataclass(frozen=True)
class Undone:
    """Result of undoing an operation in a state.

    How it was ``found``, and the ``state`` without it (unchanged unless LEFT).
    """

    found: str
    state: State


def undone(way: WayBack, state: State, before: State, left: State) -> Undone:
    """``state`` is what is applied now, ``before`` what was before the record, ``left`` what it described."""
    if way.aspect == TABLE:
        return _table(way, state, before, left)
    if state is None:
        return Undone(MOVED, state)
    if way.column_key:
        return _column(way, state, before, left)
    return _types(way, state) if way.aspect == TYPE else _fields(way, state, before, left)


def _moved_back(state: DatasetState, now: Mapping[str, Any], was: Mapping[str, Any], then: Mapping[str, Any]) -> Undone:
    if now == then:
        return Undone(LEFT, replace(state, **was))
    return Undone(BEFORE if now == was else MOVED, state)


# --- a dataset as a whole ----------------------------------------------------------------------


def _table(way: WayBack, state: State, before: State, left: State) -> Undone:
    """The table came, or went, with everything that is known of the dataset."""
    if not way.of_base(ops.CREATE_TABLE, ops.DROP_TABLE):  # a history was made beside a table that was there
        if state is None:
            return Undone(MOVED, state)
        return _moved_back(state, {"historize": state.historize}, {"historize": False}, {"historize": True})
    now, was, then = _said(state), _said(before), _said(left)
    if now == then and now != was:
        return Undone(LEFT, before)
    return Undone(BEFORE if now == was else MOVED, state)


def _said(state: State) -> Any:
    """Return the part of a dataset's state that an operation can change, without its history, which has its own."""
    if state is None:
        return None
    named = (state.qualified_name, state.active, state.materialization, state.filter, sorted(state.inputs))
    columns = sorted((one.key, one.name, one.type, one.active, one.expression or "") for one in state.columns)
    return named, state.load_policy, state.history_policy, columns


def _fields(way: WayBack, state: DatasetState, before: State, left: State) -> Undone:
    """Name, use or logic of the dataset as a whole."""
    if before is None or left is None or (way.aspect == NAME and not way.of_base(ops.RENAME_TABLE)):
        return Undone(LEFT, state)  # only the history was touched, which no state speaks of
    read = _READ[way.aspect]
    now, was, then = (read(one, state) for one in (state, before, left))
    if way.aspect == USE and not left.active:
        then["historize"] = now["historize"]  # of a retired dataset the history is in use as before
    found = _moved_back(state, now, was, then)
    if way.aspect == NAME and found.found == LEFT and found.state is not None:
        return Undone(LEFT, replace(found.state, former_names=before.former_names))
    return found


def _named(one: DatasetState, over: DatasetState) -> dict[str, Any]:
    return {"schema": one.schema, "layer": one.layer, "name": one.name}


def _in_use(one: DatasetState, over: DatasetState) -> dict[str, Any]:
    return {"active": one.active, "historize": one.historize}


def _computing(one: DatasetState, over: DatasetState) -> dict[str, Any]:
    return {
        "filter": one.filter,
        "inputs": one.inputs,
        "load_policy": one.load_policy,
        "history_policy": _over_names(one.history_policy, one, over),
        "hash_version": one.hash_version,
        "columns": _with_roles(over, one),
    }


_READ: dict[str, Callable[[DatasetState, DatasetState], dict[str, Any]]] = {
    NAME: _named,
    USE: _in_use,
    LOGIC: _computing,
}


def _over_names(described: dict | str, of: DatasetState, state: DatasetState) -> dict | str:
    """A history policy over the names that the columns have in ``state``."""
    now = {column.key: column.name for column in state.columns}
    renames = {one.name: now[one.key] for one in of.columns if now.get(one.key, one.name) != one.name}
    if not isinstance(described, dict):
        return described
    try:
        return HistoryPolicy.from_dict(described).renamed(renames).to_dict()
    except MetadataError:
        return described


def _with_roles(state: DatasetState, of: DatasetState) -> tuple[ColumnState, ...]:
    roles = {column.key: column.role for column in of.columns}
    return tuple(replace(column, role=roles.get(column.key, column.role)) for column in state.columns)


# --- columns -----------------------------------------------------------------------------------


def _column(way: WayBack, state: DatasetState, before: State, left: State) -> Undone:
    held, was, then = (_of_key(one, way.column_key) for one in (state, before, left))
    if way.aspect == THERE:
        return _there(way, state, held, was)
    operations = way.of_base(*_OF_COLUMN[way.aspect])
    if not operations:
        return Undone(LEFT, state)
    if held is None:
        return Undone(MOVED, state)
    return _REACHED[way.aspect](way, state, held, was, then)


def _there(way: WayBack, state: DatasetState, held: ColumnState | None, was: ColumnState | None) -> Undone:
    for one in way.of_base(ops.ADD_COLUMN):
        if held is None:
            return Undone(BEFORE, state)
        if (held.name, held.type) != (one.column, one.to):
            return Undone(MOVED, state)
        return Undone(LEFT, _with_column(state, held.key, None))
    for _ in way.of_base(ops.DROP_COLUMN):
        if held is not None or was is None:
            return Undone(BEFORE if held is not None else MOVED, state)
        # Of a column that was retired before nothing would tell, so what comes back is in use.
        return Undone(LEFT, replace(state, columns=(*state.columns, replace(was, active=True))))
    return Undone(LEFT, state)


def _renamed(way: WayBack, state: DatasetState, held: ColumnState, was: Any, then: Any) -> Undone:
    """The history policy names columns, so it follows."""
    (one,) = way.of_base(ops.RENAME_COLUMN)
    if held.name != one.to:
        return Undone(BEFORE if held.name == one.from_ else MOVED, state)
    # What reads the column follows it back, too, so the name that goes is a former one.
    former = (*(name for name in (was or held).former_names if name not in (one.from_, one.to)), one.to)
    renamed = _with_column(state, held.key, replace(held, name=one.from_, former_names=former))
    return Undone(LEFT, replace(renamed, history_policy=_over_names(state.history_policy, state, renamed)))


def _typed(way: WayBack, state: DatasetState, held: ColumnState, was: Any, then: Any) -> Undone:
    (one,) = way.of_base(ops.WIDEN_COLUMN, ops.RETYPE_COLUMN)
    return _of_column(state, held, {"type": one.from_}, {"type": one.to})


def _used(way: WayBack, state: DatasetState, held: ColumnState, was: Any, then: Any) -> Undone:
    """A column without a reference is retired, too, though nothing describes it any more."""
    retired = bool(way.of_base(ops.RETIRE_COLUMN))
    return _of_column(state, held, {"active": retired}, {"active": not retired})


def _computed(way: WayBack, state: DatasetState, held: ColumnState, was: Any, then: Any) -> Undone:
    fields = ("expression", "inputs", "role")
    sides = [{name: getattr(one, name) for name in fields} if one is not None else {} for one in (was, then)]
    return _of_column(state, held, *sides)


def _nullable(way: WayBack, state: DatasetState, held: ColumnState, was: Any, then: Any) -> Undone:
    return _of_column(state, held, {"nullable": True}, {"nullable": False})


_REACHED: dict[str, Callable[..., Undone]] = {
    NAME: _renamed,
    TYPE: _typed,
    USE: _used,
    LOGIC: _computed,
    NULLABLE: _nullable,
}
_OF_COLUMN = {
    NAME: (ops.RENAME_COLUMN,),
    TYPE: (ops.WIDEN_COLUMN, ops.RETYPE_COLUMN),
    USE: (ops.RETIRE_COLUMN, ops.UNRETIRE_COLUMN),
    LOGIC: (ops.CHANGE_LOGIC,),
    NULLABLE: (ops.CHANGE_LOGIC,),
}


def _of_column(state: DatasetState, held: ColumnState, was: Mapping[str, Any], then: Mapping[str, Any]) -> Undone:
    now = {name: getattr(held, name) for name in then}
    if now == then and was:
        return Undone(LEFT, _with_column(state, held.key, replace(held, **was)))
    return Undone(BEFORE if now == was else MOVED, state)


def _types(way: WayBack, state: DatasetState) -> Undone:
    """Several columns got other types together."""
    changed = {key: (was, then) for one in way.of_base(ops.REBUILD_TABLE) for key, was, then in one.columns}
    changed |= {one.column_key: (one.from_, one.to) for one in way.of_base(ops.WIDEN_COLUMN, ops.RETYPE_COLUMN)}
    held = {column.key: column for column in state.columns if column.key in changed}
    now = {key: column.type for key, column in held.items()}
    was, then = ({key: changed[key][side] for key in held} for side in (0, 1))
    if now != then:
        return Undone(BEFORE if now == was else MOVED, state)
    back = tuple(replace(one, type=was.get(one.key, one.type)) for one in state.columns)
    return Undone(LEFT, replace(state, columns=back))


def _of_key(state: State, key: str) -> ColumnState | None:
    return next((column for column in state.columns if column.key == key), None) if state is not None else None


def _with_column(state: DatasetState, key: str, column: ColumnState | None) -> DatasetState:
    columns = (column if one.key == key else one for one in state.columns)
    return replace(state, columns=tuple(one for one in columns if one is not None))


# --- what reads it -----------------------------------------------------------------------------


def unreadable(
    states: Mapping[str, DatasetState], reading: Collection[str], known: Collection[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names or input keys that columns of the datasets ``reading`` could not read, by dataset and column.

    ``known`` are the keys of columns that are missed if they are not there; a text over others, those of
    sources, is not judged.
    """
    readers = [states[key] for key in reading if key in states]
    wanted = {one for state in readers for column in state.columns for one in column.inputs}
    names = {
        column.key: column.name.lower() for state in states.values() for column in state.columns if column.key in wanted
    }
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for state in readers:
        for column in state.active_columns if state.active else ():
            lacking = _lacking(column, names, known)
            if lacking:
                found[state.key, column.key] = lacking
    return found


def _lacking(column: ColumnState, names: Mapping[str, str], known: Collection[str]) -> tuple[str, ...]:
    gone = tuple(key for key in column.inputs if key in known and key not in names)
    if gone or not column.inputs or not column.expression or any(key not in names for key in column.inputs):
        return gone
    there = {names[key] for key in column.inputs}
    try:
        return tuple(name for name in check_expression(column.expression) if name.lower() not in there)
    except ExpressionProblem:
        return ()
