"""Changes of one table: those that a comparison of its columns finds, and their steps.

Columns are matched by stable key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from architecture.domain.steps.features import are_texts
from architecture.domain.steps.rename_order import moving_name, order_moves, retired_name
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
    TableShape,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, TableSpec, stored
from architecture.domain.type_changes import TypeChange, classify, common_type
from metadata.domain.types import parse, stored_type

NEVER_NARROWER = ("history", "event_log")
RAW = "raw"


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
    by_key, by_name = columns_by_key_and_name(shape)
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
        retype(changes, current, column.type, None)
    return changes


def columns_by_key_and_name(shape: TableShape) -> tuple[dict[str, ObservedColumn], dict[str, ObservedColumn]]:
    by_key = {column.key: column for column in shape.columns if column.key}
    return by_key, {column.name.lower(): column for column in shape.columns}


def retype(changes: Changes, current: ObservedColumn, type_: str, ordinal: int | None, op: str = "") -> None:
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
