"""Changes that one table needs, from a report's operations or from its differences.

Columns are known by stable key. Where the table does not know a key yet, by the name that the
operation gives; such a column is tied to its key before anything else is done to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from architecture.domain import operations as logical
from architecture.domain.operations import Operation
from architecture.domain.states.tables import ColumnSpec, ObservedColumn, TableSpec, stored
from architecture.domain.steps.names import moving_name, order_moves, retired_name
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
from architecture.domain.type_changes import TypeChange, classify, common_type
from metadata.domain.types import parse

NEVER_NARROWER = ("history", "memory")
NOT_NULL = "NOT_NULL"
_DESCRIBED = ("business_key", "attribute", "foreign_key")
# Operations that technical columns of a table may follow; the first that there is counts.
_LEADING = (logical.RENAME_TABLE, logical.CHANGE_LOGIC, logical.CREATE_TABLE, logical.RENAME_COLUMN)
_RETYPING = {
    logical.WIDEN_COLUMN: WIDEN_COLUMN,
    logical.REBUILD_TABLE: REBUILD_TABLE,
    logical.RETYPE_COLUMN: RETYPE_COLUMN,
}


@dataclass
class Changes:
    """Changes of one table, each with the place of its operation (None in a load).

    ``stamps`` are (stable key, column name) to be tied, ``replaced`` keys that those columns had
    before; ``untied`` columns let go of their key and make way for another one under it.
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

    def steps(self, shape: TableShape | None) -> Iterator[Step]:
        """The steps for the columns, in order, on a table of this shape."""
        if shape is None:
            return
        table = replace(self.table, columns=())
        yield from self._identity(table)
        for column, place in self.checks:
            yield Step(CHECK_NOT_NULL, table, column, operation=place)
        yield from self._types(table, shape)
        for held, place in self.dropped:
            gone = ColumnSpec(held.key or "", held.name, held.type, "")
            yield Step(DROP_COLUMN, table, gone, operation=place)
        yield from self._names(table, shape)
        for column, place in self.added:
            yield Step(ADD_COLUMN, table, column, operation=place)

    def _identity(self, table: TableSpec) -> Iterator[Step]:
        tied = list(dict.fromkeys(self.stamps))
        if tied or self.untied:
            yield Step(
                STAMP_KEYS,
                table,
                stamps=tuple((key, name) for key, name, _ in tied),
                untied=(*self.replaced, *(key for key, _, _ in self.untied)),
                operation=(tied or self.untied)[0][2],
            )

    def _types(self, table: TableSpec, shape: TableShape) -> Iterator[Step]:
        """ALTERs one by one, which change no hash; all that one operation rebuilds in one overwrite."""
        together: dict[tuple[str, int | None], list[Retyped]] = {}
        for op, change, place in self.retyped:
            if op == WIDEN_COLUMN:
                yield Step(op, table, retyped=(change,), operation=place)
            else:
                together.setdefault((op, place), []).append(change)
        for (op, place), changes in together.items():
            rehashed = self._rehashed({change.name for change in changes}, shape)
            yield Step(op, table, retyped=tuple(changes), rehashed=rehashed, operation=place)

    def _rehashed(self, changing: set[str], shape: TableShape) -> tuple[Rehashed, ...]:
        """The keys that are hashes of columns which are written otherwise; the entity's before its versions'."""
        names = {column.key: column.name for column in shape.columns if column.key}
        names = {key: name for key, name in names.items() if name not in {held for _, held, _ in self.untied}}
        names |= {key: name for key, name, _ in self.stamps}
        found = []
        for column in sorted(self.table.columns, key=lambda column: column.purpose == "history_key"):
            parts = tuple((part, names[key]) for part, key in column.hash_of if key in names)
            whole = column.key in names and len(parts) == len(column.hash_of)
            if whole and changing & {name for _, name in parts}:
                found.append(Rehashed(names[column.key], parts, absent=column.purpose == "foreign_key"))
                changing = changing | {names[column.key]}
        return tuple(found)

    def _names(self, table: TableSpec, shape: TableShape) -> Iterator[Step]:
        gone = {held.name for held, _ in self.dropped}
        held = {column.name: column for column in shape.columns if column.name not in gone}
        renames = self._with_room(held, shape)
        taken = [*held, *(new for new, _ in renames.values()), *(column.name for column, _ in self.added)]
        places = {old: place for old, (_, place) in renames.items()}
        keys = {old: held[old].key or "" for old in renames}

        def aside(name: str) -> str:
            between = moving_name(keys[name], taken)
            places[between], keys[between] = places[name], keys[name]
            taken.append(between)
            return between

        for old, new in order_moves([(old, new) for old, (new, _) in renames.items()], held, aside):
            key = keys[old]
            yield Step(
                RENAME_COLUMN,
                table,
                ColumnSpec(key, new, held[old].type if old in held else "", ""),
                from_name=old,
                to_name=new,
                operation=places[old],
            )
            held[new] = held.pop(old)

    def _with_room(self, held: dict[str, ObservedColumn], shape: TableShape) -> dict[str, tuple[str, int | None]]:
        """The renames, with retired columns making way for what takes their names."""
        renames = dict(self.renames)
        asked = {new.lower(): place for new, place in renames.values()}
        asked |= {column.name.lower(): place for column, place in self.added}
        kept = {column.key for column in self.table.columns}
        let_go = {name for _, name, _ in self.untied}
        for name, column in held.items():
            retired = column.key is not None and column.key not in kept
            if name in let_go or (retired and name not in renames and name.lower() in asked):
                place = asked.get(name.lower(), next((p for _, n, p in self.untied if n == name), None))
                taken = [*held, *(new for new, _ in renames.values()), *asked]
                renames[name] = (retired_name(name, column.key or self.table.key, taken), place)
        return renames


def differences(table: TableSpec, shape: TableShape | None) -> Changes:
    """Every difference between a table and its description, whoever may decide on it."""
    changes = Changes(table)
    if shape is None:
        changes.created = True
        return changes
    changes.renamed = shape.qualified_name != table.qualified_name
    by_key, by_name = _known(shape)
    wanted = {column.key for column in table.columns}
    for column in table.columns:
        named = by_name.get(column.name.lower())
        held = by_key.get(column.key) or (named if named and named.key not in wanted else None)
        if held is None:
            changes.added.append((column, None))
            continue
        if held.name != column.name:
            changes.renames[held.name] = (column.name, None)
            if held.key is None:
                changes.stamps.append((column.key, held.name, None))
        _retype(changes, held, column.type, None)
    return changes


def _known(shape: TableShape) -> tuple[dict[str, ObservedColumn], dict[str, ObservedColumn]]:
    by_key = {column.key: column for column in shape.columns if column.key}
    return by_key, {column.name.lower(): column for column in shape.columns}


def _retype(changes: Changes, held: ObservedColumn, type_: str, place: int | None, op: str = "") -> None:
    """Give a column another type, unless it is stored so already or the table may keep a wider one.

    Values that are to be of a narrower type are looked at, also where nothing is stored in another way.
    """
    wanted = stored(type_)
    if held.type == wanted and op != RETYPE_COLUMN:
        return
    if not op:
        if changes.table.kind in NEVER_NARROWER and common_type(held.type, wanted) == held.type:
            return
        change = classify(held.type, wanted)
        op = {TypeChange.ALTER: WIDEN_COLUMN, TypeChange.REBUILD: REBUILD_TABLE}.get(change, RETYPE_COLUMN)
    changes.retyped.append((op, Retyped(held.name, held.type, str(parse(type_))), place))


def follow_operations(table: TableSpec, shape: TableShape | None, owned: Sequence[tuple[int, Operation]]) -> Changes:
    """Return the changes that a dataset's operations need in one of its tables; an event log follows its history."""
    return _Following(table, shape, owned).changes()


class _Following:
    """One table and the operations on its dataset."""

    def __init__(self, table: TableSpec, shape: TableShape | None, owned: Sequence[tuple[int, Operation]]) -> None:
        self.table, self.shape, self.owned = table, shape, owned
        side = logical.HISTORY if table.kind in NEVER_NARROWER else logical.BASE
        self.own = [(place, operation) for place, operation in owned if operation.side == side]
        self.specs = {column.key: column for column in table.columns}
        self.found = Changes(table)
        self.by_key, self.by_name = _known(shape) if shape else ({}, {})

    def changes(self) -> Changes:
        if self.shape is None:
            place = self._place_of(logical.CREATE_TABLE)
            place = self._leading() if place is None else place
            # A table that is missing although nothing says to make it is a matter of another report.
            self.found.created, self.found.created_by = place is not None, place
            return self.found
        self._rename_table()
        for place, operation in self.own:
            self._column(place, operation)
        if self.table.kind in NEVER_NARROWER:
            self._follow_retyped()
        for column in self.table.columns:
            if column.purpose not in _DESCRIBED:
                self._technical(column)
        return self.found

    def _place_of(self, *ops: str) -> int | None:
        """The first operation of these kinds on this side, else on the other."""
        for operations in (self.own, self.owned):
            for op in ops:
                found = next((place for place, operation in operations if operation.op == op), None)
                if found is not None:
                    return found
        return None

    def _leading(self) -> int | None:
        return self._place_of(*_LEADING)

    def _rename_table(self) -> None:
        place = self._place_of(logical.RENAME_TABLE)
        if place is not None and self.shape and self.shape.qualified_name != self.table.qualified_name:
            self.found.renamed, self.found.renamed_by = True, place

    def _held(self, key: str, *names: str) -> ObservedColumn | None:
        """The column with this key, else one that is called so and is nobody else's."""
        if key in self.by_key:
            return self.by_key[key]
        for name in filter(None, names):
            held = self.by_name.get(name.lower())
            if held is not None and held.key not in self.specs:
                return held
        return None

    def _bound(self, place: int, key: str, *names: str) -> ObservedColumn | None:
        """The column that an operation knows by ``key``, tied to it first where it is not yet."""
        held = self._held(key, *names)
        if held is not None and key not in self.by_key and key in self.specs:
            self.found.stamps.append((key, held.name, place))
            self.found.replaced.extend([held.key] if held.key else [])
            self.by_key[key] = held
        return held

    def _column(self, place: int, operation: Operation) -> None:
        if operation.op == logical.RENAME_COLUMN:
            held = self._bound(place, operation.column_key, operation.from_, operation.column)
            if held is not None and held.name != operation.to:
                self.found.renames[held.name] = (operation.to, place)
        elif operation.op == logical.ADD_COLUMN:
            self._add(place, operation)
        elif operation.op in _RETYPING:
            self._retyped(place, operation)
        elif operation.op == logical.DROP_COLUMN:
            held = self._held(operation.column_key, operation.column)
            if held is not None:
                self.found.dropped.append((held, place))
        elif operation.op == logical.CHANGE_LOGIC and operation.code == NOT_NULL:
            held = self._held(operation.column_key, operation.column)
            if held is not None:
                checked = ColumnSpec(operation.column_key, held.name, held.type, "", nullable=False)
                self.found.checks.append((checked, place))

    def _retyped(self, place: int, operation: Operation) -> None:
        changes = operation.columns or ((operation.column_key, operation.from_, operation.to),)
        for key, _, type_ in changes:
            held = self._bound(place, key, operation.column if key == operation.column_key else self._name_before(key))
            if held is not None:
                _retype(self.found, held, type_, place, _RETYPING[operation.op])

    def _name_before(self, key: str) -> str:
        """Return the name of a described column before the report."""
        renames = (one for _, one in self.own if one.op == logical.RENAME_COLUMN and one.column_key == key)
        renamed = next(renames, None)
        if renamed is not None:
            return renamed.from_
        return self.specs[key].name if key in self.specs else ""

    def _follow_retyped(self) -> None:
        """A base column whose new type is neither wider nor narrower: what never narrows takes both from now on."""
        own = {one.column_key for _, one in self.own if one.op in (logical.ADD_COLUMN, *_RETYPING)}
        own |= {key for _, one in self.own for key, _, _ in one.columns}
        for place, operation in self.owned:
            if (operation.op, operation.side) != (logical.RETYPE_COLUMN, logical.BASE) or operation.column_key in own:
                continue
            held = self._held(operation.column_key, operation.column)
            both = common_type(held.type, operation.to) if held is not None else None
            if held is not None and both is not None:
                _retype(self.found, held, both, place)

    def _add(self, place: int, operation: Operation) -> None:
        spec = self.specs.get(operation.column_key)
        if spec is None:  # of a memory: it has no foreign keys
            return
        held = self.by_key.get(spec.key)
        if held is None:
            self.found.added.append((spec, place))
        elif operation.from_ or held.type != stored(spec.type):
            # Another kind of type, if both are stored as text, too: the old column stays, and lets go of key and name.
            self.found.untied.append((spec.key, held.name, place))
            self.found.added.append((spec, place))
        elif held.name != spec.name:
            self.found.renames[held.name] = (spec.name, place)

    def _technical(self, column: ColumnSpec) -> None:
        """Technical columns follow the operation that moves their table, its logic or what they are dated by."""
        asked = {operation.column_key for _, operation in self.own}
        if column.key in asked:
            return
        held = self._held(column.key, self._former(column), column.name)
        if held is None:
            self.found.added.append((column, self._must_lead(column, "is missing")))
            return
        if held.name != column.name:
            place = self._must_lead(column, f"is called {held.name}")
            if held.key is None:
                self.found.stamps.append((column.key, held.name, place))
            self.found.renames[held.name] = (column.name, place)
        if common_type(held.type, stored(column.type)) != held.type:
            place = self._place_of(*_RETYPING, logical.CHANGE_LOGIC)
            place = self._must_lead(column, f"is {held.type}") if place is None else place
            _retype(self.found, held, column.type, place)

    def _former(self, column: ColumnSpec) -> str:
        """Return the name, before the table was renamed, of a column whose name contains the table's."""
        assert self.shape is not None
        base = self.table.name.removesuffix("_memory").removesuffix("_hist")
        before = self.shape.qualified_name.partition(".")[2].removesuffix("_memory").removesuffix("_hist")
        return before + column.name.removeprefix(base) if column.name.startswith(base) else ""

    def _must_lead(self, column: ColumnSpec, found: str) -> int:
        place = self._leading()
        if place is None:
            raise StepProblem(
                "STEP_WITHOUT_OPERATION",
                f"column {column.name} {found}, and no operation of the report accounts for that; make a new report",
                where=self.table.qualified_name,
            )
        return place
