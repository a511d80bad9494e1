"""Changes of one table, and the order of renames.

Columns are matched by stable key. A column whose key is not in the table yet is matched by the name in the operation,
and its key is set before any other change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from architecture.domain import operations as logical
from architecture.domain.operations import Operation
from architecture.domain.steps.features import are_texts
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CHECK_NOT_NULL,
    DROP_COLUMN,
    REBUILD_TABLE,
    RENAME_COLUMN,
    RETYPE_COLUMN,
    STAMP_KEYS,
    WIDEN_COLUMN,
    Rehashed,
    Retyped,
    Step,
    StepProblem,
    TableShape,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, TableSpec, stored
from architecture.domain.type_changes import TypeChange, classify, common_type
from elevata.core.errors import MetadataError
from metadata.domain.naming import MAX_COLUMN_BYTES, MAX_COLUMN_CHARACTERS, base_name, free_name
from metadata.domain.types import parse, stored_type

# Order of renames in which no name is used twice at any time, with temporary names if necessary. Names are compared
# without case, as Delta and the catalog do.


_MOVING, _RETIRED = "__moving_", "__retired_"


class NameTaken(MetadataError):
    """Error for a name that is used by an object that keeps it."""

    def __init__(self, name: str, where: str = "") -> None:
        super().__init__("NAME_TAKEN", f"{name} is taken; rename or drop what is called so first", where=where)


def order_moves(
    moves: Sequence[tuple[str, str]], held: Iterable[str], aside: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Return renames (from, to) in an order in which each new name is free.

    In a cycle, or for a change of case alone, one item is first renamed to the temporary name ``aside(name)``.
    ``held`` are all names in use. Raises NameTaken if there is no such order.
    """
    used_names = {name.lower() for name in held}
    waiting = [(old, new) for old, new in moves if old != new]
    ordered: list[tuple[str, str]] = []
    while waiting:
        move = next(((old, new) for old, new in waiting if new.lower() not in used_names), None)
        if move is None:
            leaving = {old.lower() for old, _ in waiting}
            stuck = next((new for _, new in waiting if new.lower() not in leaving), None)
            if stuck is not None:
                raise NameTaken(stuck)
            old, new = waiting[0]
            temporary = aside(old)
            waiting[0] = (temporary, new)
            move = (old, temporary)
        else:
            waiting.remove(move)
        used_names.discard(move[0].lower())
        used_names.add(move[1].lower())
        ordered.append(move)
    return ordered


def moving_name(key: str, taken: Iterable[str]) -> str:
    """Return a temporary name for a column or table during renames, derived from its key."""
    return free_name(_MOVING + key.replace("-", "")[:24], taken)


def retired_name(name: str, key: str, taken: Iterable[str]) -> str:
    """Return a new name for a retired column or table whose name is taken; it contains the old name."""
    start = f"{_RETIRED}{key.replace('-', '')[:8]}_"
    room = MAX_COLUMN_BYTES - len(start) - 4
    shortened = name[: MAX_COLUMN_CHARACTERS - len(start) - 4].encode()[:room].decode(errors="ignore")
    return free_name(start + shortened, taken)


NEVER_NARROWER = ("history", "event_log")
RAW = "raw"
NOT_NULL = "NOT_NULL"
_DATA_PURPOSES = ("business_key", "attribute", "foreign_key")
# Operations to which changes of technical columns may belong, by priority.
_LEADING = (logical.RENAME_TABLE, logical.CHANGE_LOGIC, logical.CREATE_TABLE, logical.RENAME_COLUMN)
_RETYPING = {
    logical.WIDEN_COLUMN: WIDEN_COLUMN,
    logical.REBUILD_TABLE: REBUILD_TABLE,
    logical.RETYPE_COLUMN: RETYPE_COLUMN,
}


@dataclass
class Changes:
    """Changes of one table, each with the ordinal of its operation (None in a load).

    ``stamps`` are (stable key, column name) to set, ``replaced`` the previous keys of those columns. ``untied``
    columns lose their key to another column. ``drop_features_operation`` is the operation that drops table features.
    """

    table: TableSpec
    created: bool = False
    created_by: int | None = None
    renamed: bool = False
    renamed_by: int | None = None
    stamps: list[tuple[str, str, int | None]] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    untied: list[tuple[str, str, int | None]] = field(default_factory=list)
    checks: list[tuple[ColumnSpec, int | None]] = field(default_factory=list)
    retyped: list[tuple[str, Retyped, int | None]] = field(default_factory=list)
    dropped: list[tuple[ObservedColumn, int | None]] = field(default_factory=list)
    renames: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    added: list[tuple[ColumnSpec, int | None]] = field(default_factory=list)
    repartitioned: bool = False
    repartitioned_by: int | None = None
    drop_features_operation: int | None = None

    def steps(self, shape: TableShape | None) -> Iterator[Step]:
        """Yield the steps for the columns of a table with this shape, in order."""
        if shape is None:
            return
        table = replace(self.table, columns=())
        yield from self._identity(table)
        for column, ordinal in self.checks:
            yield Step(CHECK_NOT_NULL, table, column, operation=ordinal)
        yield from self._types(table, shape)
        for current, ordinal in self.dropped:
            dropped = ColumnSpec(current.key or "", current.name, current.type, "")
            yield Step(DROP_COLUMN, table, dropped, operation=ordinal)
        yield from self._names(table, shape)
        for column, ordinal in self.added:
            yield Step(ADD_COLUMN, table, column, operation=ordinal)
        if self.repartitioned:
            yield Step(REBUILD_TABLE, table, repartitions=True, operation=self.repartitioned_by)

    def _identity(self, table: TableSpec) -> Iterator[Step]:
        stamps = list(dict.fromkeys(self.stamps))
        if stamps or self.untied:
            yield Step(
                STAMP_KEYS,
                table,
                stamps=tuple((key, name) for key, name, _ in stamps),
                untied=(*self.replaced, *(key for key, _, _ in self.untied)),
                operation=(stamps or self.untied)[0][2],
            )

    def _types(self, table: TableSpec, shape: TableShape) -> Iterator[Step]:
        """Yield one step per widened column, and one overwrite for all columns that an operation rebuilds.

        Texts are widened first, so that other widenings, which may rewrite the table, follow each other and are joined.
        """
        together: dict[tuple[str, int | None], list[Retyped]] = {}
        for op, change, ordinal in sorted(self.retyped, key=_is_no_text):
            if op == WIDEN_COLUMN:
                yield Step(op, table, retyped=(change,), operation=ordinal)
            else:
                together.setdefault((op, ordinal), []).append(change)
        for (op, ordinal), changes in together.items():
            rehashed = self._rehashed({change.name for change in changes}, shape)
            yield Step(op, table, retyped=tuple(changes), rehashed=rehashed, operation=ordinal)

    def _rehashed(self, changing: set[str], shape: TableShape) -> tuple[Rehashed, ...]:
        """Return the keys that hash a column whose text form changes; the entity key before the history key."""
        names = {column.key: column.name for column in shape.columns if column.key}
        names = {key: name for key, name in names.items() if name not in {untied for _, untied, _ in self.untied}}
        names |= {key: name for key, name, _ in self.stamps}
        rehashed = []
        for column in sorted(self.table.columns, key=lambda column: column.purpose == "history_key"):
            parts = tuple((part, names[key]) for part, key in column.hash_of if key in names)
            complete = column.key in names and len(parts) == len(column.hash_of)
            if complete and changing & {name for _, name in parts}:
                is_foreign = column.purpose == "foreign_key"
                rehashed.append(Rehashed(names[column.key], parts, is_foreign, self._value_types(names, parts)))
                changing = changing | {names[column.key]}
        return tuple(rehashed)

    def _value_types(self, names: Mapping[str, str], parts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the types, by present name, of hashed columns whose stored type is another one."""
        used = {name for _, name in parts}
        described = {names[c.key]: parse(c.type) for c in self.table.columns if c.key in names}
        return tuple(
            (name, type_.name) for name, type_ in described.items() if name in used and stored_type(type_) != type_
        )

    def _names(self, table: TableSpec, shape: TableShape) -> Iterator[Step]:
        dropped = {current.name for current, _ in self.dropped}
        current = {column.name: column for column in shape.columns if column.name not in dropped}
        renames = self._with_moved_columns(current, shape)
        used_names = [*current, *(new for new, _ in renames.values()), *(column.name for column, _ in self.added)]
        ordinals = {old: ordinal for old, (_, ordinal) in renames.items()}
        keys = {old: current[old].key or "" for old in renames}

        def aside(name: str) -> str:
            temporary = moving_name(keys[name], used_names)
            ordinals[temporary], keys[temporary] = ordinals[name], keys[name]
            used_names.append(temporary)
            return temporary

        for old, new in order_moves([(old, new) for old, (new, _) in renames.items()], current, aside):
            key = keys[old]
            yield Step(
                RENAME_COLUMN,
                table,
                ColumnSpec(key, new, current[old].type if old in current else "", ""),
                from_name=old,
                to_name=new,
                operation=ordinals[old],
            )
            current[new] = current.pop(old)

    def _with_moved_columns(
        self, current: dict[str, ObservedColumn], shape: TableShape
    ) -> dict[str, tuple[str, int | None]]:
        """Return the renames, including those of retired columns whose names are needed."""
        renames = dict(self.renames)
        wanted = {new.lower(): ordinal for new, ordinal in renames.values()}
        wanted |= {column.name.lower(): ordinal for column, ordinal in self.added}
        retained = {column.key for column in self.table.columns}
        untied = {name for _, name, _ in self.untied}
        for name, column in current.items():
            retired = column.key is not None and column.key not in retained
            if name in untied or (retired and name not in renames and name.lower() in wanted):
                ordinal = wanted.get(name.lower(), next((p for _, n, p in self.untied if n == name), None))
                used_names = [*current, *(new for new, _ in renames.values()), *wanted]
                renames[name] = (retired_name(name, column.key or self.table.key, used_names), ordinal)
        return renames


def _is_no_text(retyped: tuple[str, Retyped, int | None]) -> bool:
    return not are_texts(retyped[1].from_type, retyped[1].to_type)


def differences(table: TableSpec, shape: TableShape | None) -> Changes:
    """Return all differences between the current and the desired table as changes, regardless of approval."""
    changes = Changes(table)
    if shape is None:
        changes.created = True
        return changes
    changes.renamed = shape.qualified_name != table.qualified_name
    changes.repartitioned = table.kind == RAW and shape.partition_by != table.partition_by
    by_key, by_name = _columns_by_key_and_name(shape)
    wanted = {column.key for column in table.columns}
    for column in table.columns:
        same_name = by_name.get(column.name.lower())
        current = by_key.get(column.key) or (same_name if same_name and same_name.key not in wanted else None)
        if current is None:
            changes.added.append((column, None))
            continue
        if current.name != column.name:
            changes.renames[current.name] = (column.name, None)
            if current.key is None:
                changes.stamps.append((column.key, current.name, None))
        _retype(changes, current, column.type, None)
    return changes


def _columns_by_key_and_name(shape: TableShape) -> tuple[dict[str, ObservedColumn], dict[str, ObservedColumn]]:
    by_key = {column.key: column for column in shape.columns if column.key}
    return by_key, {column.name.lower(): column for column in shape.columns}


def _retype(changes: Changes, current: ObservedColumn, type_: str, ordinal: int | None, op: str = "") -> None:
    """Add the change of a column's type, unless the stored type is the same or the table may keep a wider one.

    A change to a narrower type is added even if the stored type is the same, because values are checked.
    """
    wanted = stored(type_)
    if current.type == wanted and op != RETYPE_COLUMN:
        return
    if not op:
        if changes.table.kind in NEVER_NARROWER and common_type(current.type, wanted) == current.type:
            return
        change = classify(current.type, wanted)
        op = {TypeChange.ALTER: WIDEN_COLUMN, TypeChange.REBUILD: REBUILD_TABLE}.get(change, RETYPE_COLUMN)
    changes.retyped.append((op, Retyped(current.name, current.type, str(parse(type_))), ordinal))


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
        self.by_key, self.by_name = _columns_by_key_and_name(shape) if shape else ({}, {})

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
                _retype(self.result, current, type_, ordinal, _RETYPING[operation.op])

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
                _retype(self.result, current, both, ordinal)

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
            _retype(self.result, current, column.type, ordinal)

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
