"""Groups of operations undone together, and the states after undo.

Renaming a dataset's column takes one operation and one step each for base and history; a table's rename includes
the technical columns named after it. An undo of less would leave base and history inconsistent.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain import change_policy
from architecture.domain import operations as ops
from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.steps.step import RENAME_COLUMN, Step, goes_to_version, inverse
from elevata.core.errors import MetadataError
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import ExpressionProblem, check_expression
from metadata.domain.state import ColumnState, DatasetState

# Aspects of a dataset or of a column that an operation changes.
TABLE, NAME, THERE, TYPE, USE, LOGIC, NULLABLE = "table", "name", "there", "type", "use", "logic", "nullable"

_ASPECTS = {
    ops.CREATE_TABLE: TABLE,
    ops.DROP_TABLE: TABLE,
    ops.RENAME_TABLE: NAME,
    ops.RENAME_COLUMN: NAME,
    ops.ADD_COLUMN: THERE,
    ops.DROP_COLUMN: THERE,
    ops.WIDEN_COLUMN: TYPE,
    ops.RETYPE_COLUMN: TYPE,
    ops.REBUILD_TABLE: TYPE,
    ops.RETIRE_TABLE: USE,
    ops.UNRETIRE_TABLE: USE,
    ops.RETIRE_COLUMN: USE,
    ops.UNRETIRE_COLUMN: USE,
    ops.CHANGE_LOGIC: LOGIC,
}
_ON_TABLES = (ops.CREATE_TABLE, ops.DROP_TABLE, ops.RENAME_TABLE, ops.RETIRE_TABLE, ops.UNRETIRE_TABLE)


# Stable keys of dataset and column (empty: none), and the aspect.
Subject = tuple[str, str, str]


@dataclass(frozen=True)
class Executed:
    """An operation of a record that was done: its ordinal there, and its place in the report.

    ``step`` is None where no table was changed, ``version_before`` where it was not recorded.
    """

    ordinal: int
    place: int
    step: Step | None = None
    version_before: int | None = None


@dataclass(frozen=True)
class WayBack:
    """Operations that can only be undone together.

    ``aspect`` of the dataset, or of a column (``column_key``), was changed.
    """

    dataset_key: str
    column_key: str
    aspect: str
    operations: tuple[Operation, ...]
    executed: tuple[Executed, ...]

    @property
    def ordinals(self) -> tuple[int, ...]:
        return tuple(executed.ordinal for executed in self.executed)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(executed.step for executed in self.executed if executed.step is not None)

    @property
    def goes_to_version(self) -> bool:
        """Return True if the table version before is restored, rows included."""
        return any(map(goes_to_version, self.steps))

    @property
    def version_is_lost(self) -> bool:
        """Return True if undo needs a table version that was not recorded."""
        known = ((executed.step, executed.version_before) for executed in self.executed)
        return any(step is not None and goes_to_version(step) and version is None for step, version in known)

    @property
    def changes_tables(self) -> bool:
        """Return True if undo runs a step; otherwise only stored state changes."""
        return any(inverse(item.step, item.version_before or 0) for item in self.executed if item.step is not None)

    def of_base(self, *kinds: str) -> tuple[Operation, ...]:
        """Return the group's operations of these kinds on the base table."""
        return tuple(operation for operation in self.operations if operation.side == BASE and operation.op in kinds)

    def describe(self) -> str:
        """Return the description of the operation on the base table, or of the first other one."""
        return (self.of_base(*_ASPECTS) or self.operations)[0].describe()

    @property
    def renamed(self) -> frozenset[str]:
        """Return stable keys of the columns that the group renamed, including retired ones it moved."""
        steps = (step for step in self.steps if step.op == RENAME_COLUMN and step.column is not None)
        return frozenset(step.column.key for step in steps)

    def answered_by(self, operation: Operation, subject: Subject) -> bool:
        """Return whether an operation of the undo report, with this subject, covers this group's change.

        A created history is not dropped but retired. A rebuild covers several columns.
        """
        dataset_key, column_key, aspect = subject
        if dataset_key != self.dataset_key or aspect not in ((TABLE, USE) if self.aspect == TABLE else (self.aspect,)):
            return False
        about = columns_of(operation) if not column_key else {column_key}
        return not self.column_key or self.column_key in about or (aspect == NAME and column_key in self.renamed)


def columns_of(operation: Operation) -> frozenset[str]:
    """Return stable keys of the columns of an operation."""
    return frozenset(key for key, _, _ in operation.columns) or frozenset({operation.column_key} - {""})


def ways_back(
    operations: Sequence[Operation], executed: Iterable[Executed], described: Collection[str]
) -> tuple[WayBack, ...]:
    """Return the executed operations of a record as groups, in order.

    ``operations`` are the report's, ``described`` the keys of described columns: technical ones follow their table,
    its types or its policy.
    """
    keys = subjects_of(operations, described)
    done: dict[Subject, list[Executed]] = {}
    for one in sorted(executed, key=lambda one: one.ordinal):
        done.setdefault(keys[one.place], []).append(one)
    return tuple(
        WayBack(
            *key, tuple(operation for operation, own in zip(operations, keys, strict=True) if own == key), tuple(of)
        )
        for key, of in done.items()
    )


def subjects_of(operations: Sequence[Operation], described: Collection[str]) -> list[Subject]:
    """Return the subject of each operation: dataset, column (empty: the table) and aspect, shared by both sides."""
    return _Grouping(operations, frozenset(described)).keys()


class _Grouping:
    """Operations of a report grouped by dataset, column and aspect."""

    def __init__(self, operations: Sequence[Operation], described: frozenset[str]) -> None:
        self.operations, self.described = operations, described
        self.gone = {
            operation.dataset_key
            for operation in operations
            if operation.op == ops.DROP_TABLE and operation.side == BASE
        }
        dropped = [operation for operation in operations if operation.op == ops.DROP_COLUMN and operation.side == BASE]
        self.dropped = {(operation.dataset_key, operation.column_key) for operation in dropped}
        logic = [operation for operation in operations if operation.op == ops.CHANGE_LOGIC and not operation.column_key]
        self.logic = {operation.dataset_key for operation in logic}
        # Types of these change together: one rebuild does several, or a technical column follows a described
        # one.
        self.together: dict[str, set[str]] = {}
        for operation in operations:
            columns = columns_of(operation)
            if operation.op == ops.REBUILD_TABLE or (_ASPECTS[operation.op] == TYPE and not columns <= self.described):
                self.together.setdefault(operation.dataset_key, set()).update(columns)

    def keys(self) -> list[Subject]:
        return [(operation.dataset_key, *self._subject(operation)) for operation in self.operations]

    def _subject(self, one: Operation) -> tuple[str, str]:
        aspect = self._aspect(one)
        if one.op in _ON_TABLES or not one.column_key:
            return ("", self._whole(one, aspect)) if one.op == ops.REBUILD_TABLE else ("", aspect)
        technical = one.column_key not in self.described
        rewritten = technical and (one.op, one.code) == (ops.RENAME_COLUMN, change_policy.REWRITE_TABLE)
        if one.code == change_policy.FOLLOWS_TABLE or rewritten:
            return "", NAME
        if aspect == TYPE and (technical or one.column_key in self.together.get(one.dataset_key, ())):
            return "", self._whole(one, aspect)
        return ("", LOGIC) if technical else (one.column_key, aspect)

    def _whole(self, one: Operation, aspect: str) -> str:
        """Return the groups, with technical columns joined to the type change or policy that causes theirs."""
        technical = self.together.get(one.dataset_key, set()) - self.described
        return LOGIC if technical and one.dataset_key in self.logic else aspect

    def _aspect(self, one: Operation) -> str:
        """Return the changed aspect; history keeps columns that its dataset loses, so kinds of operations differ."""
        if one.side == HISTORY:
            if one.op == ops.RETIRE_TABLE and one.dataset_key in self.gone:
                return TABLE
            if one.op in (ops.RETIRE_COLUMN, ops.ADD_COLUMN) and one.from_:
                return TYPE
            if one.op == ops.RETIRE_COLUMN and (one.dataset_key, one.column_key) in self.dropped:
                return THERE
        return NULLABLE if one.code == change_policy.NOT_NULL else _ASPECTS[one.op]


# Undo of one operation in a dataset's applied state: only its own change is reverted, later changes stay. All states
# here are flat; None is a missing dataset.


State = DatasetState | None

# State of an operation's change: as the operation left it, as before it, or changed by something else.
LEFT, BEFORE, MOVED = "left", "before", "moved"


@dataclass(frozen=True)
class Undone:
    """Result of undoing an operation in a state.

    ``found`` is how the change was found, ``state`` the result (unchanged unless LEFT).
    """

    found: str
    state: State


def undone(way: WayBack, state: State, before: State, left: State) -> Undone:
    """Return the result for ``state`` (applied now), ``before`` (before the record) and ``left`` (after it)."""
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
    """Undo the creation or removal of a table, with the whole state of its dataset."""
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
    columns = sorted(
        (column.key, column.name, column.type, column.active, column.expression or "") for column in state.columns
    )
    return named, state.load_policy, state.history_policy, columns


def _fields(way: WayBack, state: DatasetState, before: State, left: State) -> Undone:
    """Name, use or logic of the dataset as a whole."""
    if before is None or left is None or (way.aspect == NAME and not way.of_base(ops.RENAME_TABLE)):
        return Undone(LEFT, state)  # only the history was touched, which no state speaks of
    read = _READ[way.aspect]
    now, was, then = (read(side, state) for side in (state, before, left))
    if way.aspect == USE and not left.active:
        then["historize"] = now["historize"]  # of a retired dataset the history is in use as before
    result = _moved_back(state, now, was, then)
    if way.aspect == NAME and result.found == LEFT and result.state is not None:
        return Undone(LEFT, replace(result.state, former_names=before.former_names))
    return result


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
    """Return a history policy with the current column names of ``state``."""
    now = {column.key: column.name for column in state.columns}
    renames = {column.name: now[column.key] for column in of.columns if now.get(column.key, column.name) != column.name}
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
    current, was, then = (_of_key(side, way.column_key) for side in (state, before, left))
    if way.aspect == THERE:
        return _there(way, state, current, was)
    operations = way.of_base(*_OF_COLUMN[way.aspect])
    if not operations:
        return Undone(LEFT, state)
    if current is None:
        return Undone(MOVED, state)
    return _REACHED[way.aspect](way, state, current, was, then)


def _there(way: WayBack, state: DatasetState, current: ColumnState | None, was: ColumnState | None) -> Undone:
    for one in way.of_base(ops.ADD_COLUMN):
        if current is None:
            return Undone(BEFORE, state)
        if (current.name, current.type) != (one.column, one.to):
            return Undone(MOVED, state)
        return Undone(LEFT, _with_column(state, current.key, None))
    for _ in way.of_base(ops.DROP_COLUMN):
        if current is not None or was is None:
            return Undone(BEFORE if current is not None else MOVED, state)
        # A column that was retired before cannot be recognized as such, so the restored one is active.
        return Undone(LEFT, replace(state, columns=(*state.columns, replace(was, active=True))))
    return Undone(LEFT, state)


def _renamed(way: WayBack, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    """Undo a column's rename; the history policy names columns, so it is renamed there, too."""
    (one,) = way.of_base(ops.RENAME_COLUMN)
    if current.name != one.to:
        return Undone(BEFORE if current.name == one.from_ else MOVED, state)
    # Readers of the column are renamed, too, so the undone name becomes a former one.
    former = (*(name for name in (was or current).former_names if name not in (one.from_, one.to)), one.to)
    renamed = _with_column(state, current.key, replace(current, name=one.from_, former_names=former))
    return Undone(LEFT, replace(renamed, history_policy=_over_names(state.history_policy, state, renamed)))


def _typed(way: WayBack, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    (one,) = way.of_base(ops.WIDEN_COLUMN, ops.RETYPE_COLUMN)
    return _of_column(state, current, {"type": one.from_}, {"type": one.to})


def _used(way: WayBack, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    """Return whether a column is in use; a column without a reference is retired, even if not described."""
    retired = bool(way.of_base(ops.RETIRE_COLUMN))
    return _of_column(state, current, {"active": retired}, {"active": not retired})


def _computed(way: WayBack, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    fields = ("expression", "inputs", "role")
    sides = [{name: getattr(values, name) for name in fields} if values is not None else {} for values in (was, then)]
    return _of_column(state, current, *sides)


def _nullable(way: WayBack, state: DatasetState, current: ColumnState, was: Any, then: Any) -> Undone:
    return _of_column(state, current, {"nullable": True}, {"nullable": False})


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


def _of_column(state: DatasetState, current: ColumnState, was: Mapping[str, Any], then: Mapping[str, Any]) -> Undone:
    now = {name: getattr(current, name) for name in then}
    if now == then and was:
        return Undone(LEFT, _with_column(state, current.key, replace(current, **was)))
    return Undone(BEFORE if now == was else MOVED, state)


def _types(way: WayBack, state: DatasetState) -> Undone:
    """Undo the type change of several columns together."""
    changed = {key: (was, then) for operation in way.of_base(ops.REBUILD_TABLE) for key, was, then in operation.columns}
    retyped = way.of_base(ops.WIDEN_COLUMN, ops.RETYPE_COLUMN)
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
    columns = (column if one.key == key else one for one in state.columns)
    return replace(state, columns=tuple(column for column in columns if column is not None))


# --- what reads it -----------------------------------------------------------------------------


def unreadable(
    states: Mapping[str, DatasetState], reading: Collection[str], known: Collection[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names or input keys that columns of the datasets ``reading`` could not read, by dataset and column.

    ``known`` are the keys of columns that are missed if they are not there; a text over others, those of
    sources, is not judged.
    """
    readers = [states[key] for key in reading if key in states]
    wanted = {input_key for state in readers for column in state.columns for input_key in column.inputs}
    names = {
        column.key: column.name.lower() for state in states.values() for column in state.columns if column.key in wanted
    }
    result: dict[tuple[str, str], tuple[str, ...]] = {}
    for state in readers:
        for column in state.active_columns if state.active else ():
            lacking = _lacking(column, names, known)
            if lacking:
                result[state.key, column.key] = lacking
    return result


def _lacking(column: ColumnState, names: Mapping[str, str], known: Collection[str]) -> tuple[str, ...]:
    missing = tuple(key for key in column.inputs if key in known and key not in names)
    if missing or not column.inputs or not column.expression or any(key not in names for key in column.inputs):
        return missing
    there = {names[key] for key in column.inputs}
    try:
        return tuple(name for name in check_expression(column.expression) if name.lower() not in there)
    except ExpressionProblem:
        return ()
