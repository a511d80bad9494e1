"""Groups of operations that can only be undone together, with the steps that executed them.

A rename of a dataset's column is one thing to people, though base and history each had an operation and a
step of their own; so is a table with the technical columns that are called after it. Anything less
would leave base and history apart.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from architecture.domain import operations as ops
from architecture.domain import policy
from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.steps.inverse_steps import goes_to_version, inverse
from architecture.domain.steps.step import RENAME_COLUMN, Step

# What of a dataset or of a column an operation changes.
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
        return tuple(one.ordinal for one in self.executed)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(one.step for one in self.executed if one.step is not None)

    @property
    def goes_to_version(self) -> bool:
        """True if a table is restored to the version before, rows included."""
        return any(map(goes_to_version, self.steps))

    @property
    def version_is_lost(self) -> bool:
        """True if it would need a table version that was not recorded."""
        known = ((one.step, one.version_before) for one in self.executed)
        return any(step is not None and goes_to_version(step) and version is None for step, version in known)

    @property
    def changes_tables(self) -> bool:
        """True if a step has to be undone; otherwise only stored state changes."""
        return any(inverse(one.step, one.version_before or 0) for one in self.executed if one.step is not None)

    def of_base(self, *kinds: str) -> tuple[Operation, ...]:
        """Its operations of these kinds on the base table."""
        return tuple(one for one in self.operations if one.side == BASE and one.op in kinds)

    def describe(self) -> str:
        """The operation on the base table, or on what else it has."""
        return (self.of_base(*_ASPECTS) or self.operations)[0].describe()

    @property
    def renamed(self) -> frozenset[str]:
        """Stable keys of the columns that got other names by it, also of those that made way for others."""
        steps = (step for step in self.steps if step.op == RENAME_COLUMN and step.column is not None)
        return frozenset(step.column.key for step in steps)

    def answered_by(self, operation: Operation, subject: Subject) -> bool:
        """Return whether an operation of the undo report, with this subject, covers what this group changed.

        A history that was made is not dropped, but taken out of use. A rebuild answers for several columns.
        """
        dataset_key, column_key, aspect = subject
        if dataset_key != self.dataset_key or aspect not in ((TABLE, USE) if self.aspect == TABLE else (self.aspect,)):
            return False
        about = columns_of(operation) if not column_key else {column_key}
        return not self.column_key or self.column_key in about or (aspect == NAME and column_key in self.renamed)


def columns_of(operation: Operation) -> frozenset[str]:
    """Stable keys of the columns that an operation is about."""
    return frozenset(key for key, _, _ in operation.columns) or frozenset({operation.column_key} - {""})


def ways_back(
    operations: Sequence[Operation], executed: Iterable[Executed], described: Collection[str]
) -> tuple[WayBack, ...]:
    """The operations of a record that were done, each with what belongs to it, in the order in which they were.

    ``operations`` are the report's, ``described`` the keys of columns that people describe: technical ones
    follow their table, its types or its policy.
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
        self.gone = {one.dataset_key for one in operations if one.op == ops.DROP_TABLE and one.side == BASE}
        dropped = [one for one in operations if one.op == ops.DROP_COLUMN and one.side == BASE]
        self.dropped = {(one.dataset_key, one.column_key) for one in dropped}
        logic = [one for one in operations if one.op == ops.CHANGE_LOGIC and not one.column_key]
        self.logic = {one.dataset_key for one in logic}
        # Types of these change together: one rebuild does several, or a technical column follows a described one.
        self.together: dict[str, set[str]] = {}
        for one in operations:
            if one.op == ops.REBUILD_TABLE or (_ASPECTS[one.op] == TYPE and not columns_of(one) <= self.described):
                self.together.setdefault(one.dataset_key, set()).update(columns_of(one))

    def keys(self) -> list[Subject]:
        return [(one.dataset_key, *self._subject(one)) for one in self.operations]

    def _subject(self, one: Operation) -> tuple[str, str]:
        aspect = self._aspect(one)
        if one.op in _ON_TABLES or not one.column_key:
            return ("", self._whole(one, aspect)) if one.op == ops.REBUILD_TABLE else ("", aspect)
        if one.code == policy.FOLLOWS_TABLE:
            return "", NAME
        technical = one.column_key not in self.described
        if aspect == TYPE and (technical or one.column_key in self.together.get(one.dataset_key, ())):
            return "", self._whole(one, aspect)
        return ("", LOGIC) if technical else (one.column_key, aspect)

    def _whole(self, one: Operation, aspect: str) -> str:
        """Technical columns get other types because of a described one, or of the policy."""
        technical = self.together.get(one.dataset_key, set()) - self.described
        return LOGIC if technical and one.dataset_key in self.logic else aspect

    def _aspect(self, one: Operation) -> str:
        """History keeps what its dataset loses, so its operation is another one than the base's."""
        if one.side == HISTORY:
            if one.op == ops.RETIRE_TABLE and one.dataset_key in self.gone:
                return TABLE
            if one.op in (ops.RETIRE_COLUMN, ops.ADD_COLUMN) and one.from_:
                return TYPE
            if one.op == ops.RETIRE_COLUMN and (one.dataset_key, one.column_key) in self.dropped:
                return THERE
        return NULLABLE if one.code == policy.NOT_NULL else _ASPECTS[one.op]
