"""Groups of operations that are undone together.

A change may take several operations: renaming a column takes one for the base table and one for the history, and
renaming a table also renames the technical columns named after it. Undoing only some of them would leave base table
and history inconsistent.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from architecture.domain import operations as ops
from architecture.domain import policy_rules
from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.steps.inverses import goes_to_version, inverse
from architecture.domain.steps.step import RENAME_COLUMN, Step

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
            if (operation.op, operation.code) == (ops.WIDEN_COLUMN, policy_rules.REWRITE_TABLE):
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
        rewritten = technical and (op, operation.code) == (ops.RENAME_COLUMN, policy_rules.REWRITE_TABLE)
        if operation.code == policy_rules.FOLLOWS_TABLE or rewritten:
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
        return NULLABLE if operation.code == policy_rules.NOT_NULL else _ASPECTS[operation.op]
