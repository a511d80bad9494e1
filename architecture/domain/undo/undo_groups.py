"""Groups of operations that are undone together, and the states after undo.

A change may take several operations: renaming a column takes one for the base table and one for the history, and
renaming a table also renames the technical columns named after it. Undoing only some of them would leave base table
and history inconsistent.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain import change_policy
from architecture.domain import operations as ops
from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.states.applied_state import LOGIC_FIELDS
from architecture.domain.steps.inverses import goes_to_version, inverse
from architecture.domain.steps.step import RENAME_COLUMN, Step
from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sql import ExpressionProblem, check_expression
from metadata.domain.state import ColumnState, DatasetState

# Aspects of a dataset or of a column that an operation changes.
TABLE, NAME, THERE, TYPE, USE, LOGIC, NULLABLE = "table", "name", "there", "type", "use", "logic", "nullable"
CONTRACT, FORM = "contract", "form"

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
    ops.CHANGE_CONTRACT: CONTRACT,
    ops.DROP_FEATURES: FORM,
}
_ON_TABLES = (ops.CREATE_TABLE, ops.DROP_TABLE, ops.RENAME_TABLE, ops.RETIRE_TABLE, ops.UNRETIRE_TABLE)


# Stable keys of dataset and column (empty: none), and the aspect.
Subject = tuple[str, str, str]


@dataclass(frozen=True)
class Executed:
    """Executed operation: its ordinal in the record, and its position in the report.

    ``step`` is None if no table was changed. ``version_before`` is the table version before it, None if it was not
    recorded.
    """

    ordinal: int
    place: int
    step: Step | None = None
    version_before: int | None = None


@dataclass(frozen=True)
class UndoGroup:
    """Operations that can only be undone together.

    They changed one ``aspect`` of a dataset, or of its column with ``column_key``.
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
        """Return True if undo restores a previous table version, including its rows."""
        return any(map(goes_to_version, self.steps))

    @property
    def version_is_lost(self) -> bool:
        """Return True if undo needs a table version that was not recorded."""
        known = ((executed.step, executed.version_before) for executed in self.executed)
        return any(step is not None and goes_to_version(step) and version is None for step, version in known)

    @property
    def changes_tables(self) -> bool:
        """Return True if undo runs a step; otherwise it changes only the applied state."""
        return any(inverse(item.step, item.version_before or 0) for item in self.executed if item.step is not None)

    def of_base(self, *kinds: str) -> tuple[Operation, ...]:
        """Return the group's operations of these kinds on the base table."""
        return tuple(operation for operation in self.operations if operation.side == BASE and operation.op in kinds)

    def describe(self) -> str:
        """Return the description of the operation on the base table, or of the first other one."""
        return (self.of_base(*_ASPECTS) or self.operations)[0].describe()

    @property
    def renamed(self) -> frozenset[str]:
        """Return the stable keys of the renamed columns, including retired columns that made group for a name."""
        columns = (step.column for step in self.steps if step.op == RENAME_COLUMN)
        return frozenset(column.key for column in columns if column is not None)

    def answered_by(self, operation: Operation, subject: Subject) -> bool:
        """Return True if an operation of the undo report, with this subject, undoes this group's change.

        A created history is not dropped but retired. A rebuild changes several columns.
        """
        dataset_key, column_key, aspect = subject
        if dataset_key != self.dataset_key or aspect not in ((TABLE, USE) if self.aspect == TABLE else (self.aspect,)):
            return False
        columns = columns_of(operation) if not column_key else {column_key}
        return not self.column_key or self.column_key in columns or (aspect == NAME and column_key in self.renamed)


def columns_of(operation: Operation) -> frozenset[str]:
    """Return the stable keys of an operation's columns."""
    return frozenset(key for key, _, _ in operation.columns) or frozenset({operation.column_key} - {""})


def undo_groups(
    operations: Sequence[Operation], executed: Iterable[Executed], described: Collection[str]
) -> tuple[UndoGroup, ...]:
    """Return the executed operations of a record as groups, in order.

    ``operations`` are the report's, ``described`` the keys of the columns in the metadata. Technical columns belong
    to the group of their table's rename, type change or logic change. A contract has no group: it follows from what it
    promises. Neither do dropped table features: nothing in the table depends on them, and the next step that needs one
    enables it.
    """
    subjects = subjects_of(operations, described)
    groups: dict[Subject, list[Executed]] = {}
    for item in sorted(executed, key=lambda item: item.ordinal):
        if operations[item.place].op not in (ops.CHANGE_CONTRACT, ops.DROP_FEATURES):
            groups.setdefault(subjects[item.place], []).append(item)
    return tuple(
        UndoGroup(
            *subject,
            tuple(operation for operation, other in zip(operations, subjects, strict=True) if other == subject),
            tuple(items),
        )
        for subject, items in groups.items()
    )


def subjects_of(operations: Sequence[Operation], described: Collection[str]) -> list[Subject]:
    """Return each operation's subject, shared by base and history: dataset, column (empty: the table) and aspect."""
    return _Grouping(operations, frozenset(described)).keys()


class _Grouping:
    """Grouping of a report's operations by dataset, column and aspect."""

    def __init__(self, operations: Sequence[Operation], described: frozenset[str]) -> None:
        self.operations, self.described = operations, described
        self.dropped_tables = {
            operation.dataset_key
            for operation in operations
            if operation.op == ops.DROP_TABLE and operation.side == BASE
        }
        dropped = [operation for operation in operations if operation.op == ops.DROP_COLUMN and operation.side == BASE]
        self.dropped_columns = {(operation.dataset_key, operation.column_key) for operation in dropped}
        logic = [operation for operation in operations if operation.op == ops.CHANGE_LOGIC and not operation.column_key]
        self.logic = {operation.dataset_key for operation in logic}
        # Columns whose types change together: one rebuild or rewrite changes several, and the type of a technical
        # column follows from another column's.
        self.together: dict[str, set[str]] = {}
        rewritten: dict[str, set[str]] = {}
        for operation in operations:
            columns = columns_of(operation)
            if operation.op == ops.REBUILD_TABLE or (_ASPECTS[operation.op] == TYPE and not columns <= self.described):
                self.together.setdefault(operation.dataset_key, set()).update(columns)
            if (operation.op, operation.code) == (ops.WIDEN_COLUMN, change_policy.REWRITE_TABLE):
                rewritten.setdefault(operation.dataset_key, set()).update(columns)
        for dataset, changed in rewritten.items():
            if len(changed) > 1:
                self.together.setdefault(dataset, set()).update(changed)

    def keys(self) -> list[Subject]:
        return [(operation.dataset_key, *self._subject(operation)) for operation in self.operations]

    def _subject(self, operation: Operation) -> tuple[str, str]:
        op, key, aspect = operation.op, operation.column_key, self._aspect(operation)
        if op in _ON_TABLES or not key:
            return ("", self._table_aspect(operation, aspect)) if op == ops.REBUILD_TABLE else ("", aspect)
        technical = key not in self.described
        rewritten = technical and (op, operation.code) == (ops.RENAME_COLUMN, change_policy.REWRITE_TABLE)
        if operation.code == change_policy.FOLLOWS_TABLE or rewritten:
            return "", NAME
        if aspect == TYPE and (technical or key in self.together.get(operation.dataset_key, ())):
            return "", self._table_aspect(operation, aspect)
        return ("", LOGIC) if technical else (key, aspect)

    def _table_aspect(self, operation: Operation, aspect: str) -> str:
        """Return LOGIC if changed logic of the table caused the type change of technical columns, else ``aspect``."""
        technical = self.together.get(operation.dataset_key, set()) - self.described
        return LOGIC if technical and operation.dataset_key in self.logic else aspect

    def _aspect(self, operation: Operation) -> str:
        """Return the changed aspect. A history retires columns that its base table drops, so their kinds differ."""
        dataset_key, column_key = operation.dataset_key, operation.column_key
        if operation.side == HISTORY:
            if operation.op == ops.RETIRE_TABLE and dataset_key in self.dropped_tables:
                return TABLE
            if operation.op in (ops.RETIRE_COLUMN, ops.ADD_COLUMN) and operation.from_:
                return TYPE
            if operation.op == ops.RETIRE_COLUMN and (dataset_key, column_key) in self.dropped_columns:
                return THERE
        return NULLABLE if operation.code == change_policy.NOT_NULL else _ASPECTS[operation.op]


# Undo of one group in a dataset's applied state: only the group's change is reverted, later changes remain. All
# states are flat; None is a missing dataset.


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


# --- a dataset as a whole ----------------------------------------------------------------------


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


# --- columns -----------------------------------------------------------------------------------


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


# --- readers -----------------------------------------------------------------------------------


def unreadable(
    states: Mapping[str, DatasetState], reading: Collection[str], known: Collection[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names or keys of missing inputs of the datasets ``reading``, by dataset and column.

    ``known`` are the keys of all target columns. An expression over other columns, those of sources, is not checked.
    """
    readers = [states[key] for key in reading if key in states]
    wanted = {input_key for state in readers for column in state.columns for input_key in column.inputs}
    names = {
        column.key: column.name.lower() for state in states.values() for column in state.columns if column.key in wanted
    }
    result: dict[tuple[str, str], tuple[str, ...]] = {}
    for state in readers:
        for column in state.active_columns if state.active else ():
            missing = _missing_inputs(column, names, known)
            if missing:
                result[state.key, column.key] = missing
    return result


def _missing_inputs(column: ColumnState, names: Mapping[str, str], known: Collection[str]) -> tuple[str, ...]:
    missing = tuple(key for key in column.inputs if key in known and key not in names)
    if missing or not column.inputs or not column.expression or any(key not in names for key in column.inputs):
        return missing
    present = {names[key] for key in column.inputs}
    try:
        return tuple(name for name in check_expression(column.expression) if name.lower() not in present)
    except ExpressionProblem:
        return ()
