"""One step: a change of one table, what it takes for granted and what the table shows once it is done.

A step speaks of a table's *shape*: its published name and its columns with types and stable keys, as
the Delta log has them, never of versions, so that a load in between makes no step stale. What it
assumes is kept with it; what it leads to follows (``becomes``), so a step proves itself by looking
at the table, and a list of steps can be taken up wherever it was left (``steps_done``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from architecture.domain.states.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec, stored
from elevata.core.errors import MetadataError

CREATE_TABLE, RENAME_TABLE, DROP_TABLE = "create_table", "rename_table", "drop_table"
PUBLISH_TABLE, RESTORE_TABLE, REBUILD_TABLE = "publish_table", "restore_table", "rebuild_table"
RENAME_COLUMN, ADD_COLUMN, WIDEN_COLUMN = "rename_column", "add_column", "widen_column"
RETYPE_COLUMN, DROP_COLUMN, STAMP_KEYS = "retype_column", "drop_column", "stamp_keys"
CHECK_NOT_NULL, PUBLISH_VIEW, DROP_VIEWS = "check_not_null", "publish_view", "drop_views"

# These say nothing of themselves in the table: they write no rows or structure and may run again.
WITHOUT_TRACE = frozenset({CHECK_NOT_NULL, PUBLISH_VIEW, DROP_VIEWS})
# These make columns that are tied to their stable keys in a second commit.
_TIED_AFTER = frozenset({CREATE_TABLE, ADD_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, STAMP_KEYS})


class StepProblem(MetadataError):
    """Steps that cannot be planned, or a table that is not as its steps take for granted."""


@dataclass(frozen=True)
class TableShape:
    """Structure as far as steps care: types as Delta stores them, NULLs allowed everywhere."""

    qualified_name: str
    columns: tuple[ObservedColumn, ...]
    partition_by: tuple[str, ...] = ()
    dropped: bool = False

    def column(self, name: str) -> ObservedColumn:
        """The column called exactly so; LookupError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise LookupError(f"{self.qualified_name} has no column {name}")

    def matches(self, other: "TableShape | None", *, tied: bool = True) -> bool:
        """Return whether both have the same columns, in any order; if not ``tied``, a column may lack its key."""
        if other is None or (self.qualified_name, self.dropped) != (other.qualified_name, other.dropped):
            return False
        mine, others = ({c.name: c for c in shape.columns} for shape in (self, other))
        return mine.keys() == others.keys() and all(
            column.type == others[name].type
            and (column.key == others[name].key or (not tied and others[name].key is None))
            for name, column in mine.items()
        )


@dataclass(frozen=True)
class Retyped:
    """A column that gets another type; ``name`` is what the table calls it then.

    ``from_type`` is as the table has it, ``to_type`` as it is described: a uuid is stored as text, but
    not every text is one.
    """

    name: str
    from_type: str
    to_type: str


@dataclass(frozen=True)
class Rehashed:
    """A key that is hashed anew in a rebuild, because a value it is the hash of is written otherwise from then on.

    ``parts`` are (what a part is called in the hash, the column whose value it is), under the names the
    table has then; ``absent`` where it is NULL if one of them is, as a foreign key.
    """

    name: str
    parts: tuple[tuple[str, str], ...]
    absent: bool = False


@dataclass(frozen=True)
class Step:
    """One change of one table. ``op`` is its kind; what else it needs depends on that.

    ``table`` is the table as it should be (columns only of one that is created), ``column`` the
    column it is about, ``from_name`` and ``to_name`` what is renamed (of tables ``schema.name``),
    ``retyped`` the columns of a rebuild or a widening, ``rehashed`` the keys that follow from them in a
    rebuild, each after those it follows from itself, ``stamps`` (stable key, column name) that are
    tied and ``untied`` keys that are let go. ``view`` is a view's statement, ``version`` the one to
    restore, ``restored`` the shape it had. ``only_empty`` drops a column only while it is all NULL;
    ``replaces`` makes a table in the place of a dropped one.
    ``assumes`` is the table's shape before (None: no table). ``operation`` is the place of the
    report's operation it belongs to, None for a load's own steps.
    """

    op: str
    table: TableSpec
    column: ColumnSpec | None = None
    from_name: str = ""
    to_name: str = ""
    retyped: tuple[Retyped, ...] = ()
    rehashed: tuple[Rehashed, ...] = ()
    stamps: tuple[tuple[str, str], ...] = ()
    untied: tuple[str, ...] = ()
    view: str = ""
    version: int | None = None
    restored: TableShape | None = None
    only_empty: bool = False
    replaces: bool = False
    assumes: TableShape | None = None
    operation: int | None = None

    @property
    def dataset(self) -> str:
        return self.table.qualified_name

    @property
    def narrows(self) -> bool:
        return self.op == RETYPE_COLUMN

    @property
    def only_looks(self) -> bool:
        """A change between types that are stored alike, as text to uuid: values are checked and stay as they are."""
        return self.op == RETYPE_COLUMN and all(stored(one.from_type) == stored(one.to_type) for one in self.retyped)

    @property
    def leaves_trace(self) -> bool:
        """True if the table shows that the step was done."""
        return self.op not in WITHOUT_TRACE and not self.only_looks

    def describe(self) -> str:
        """One line for people: ``add_column rawcore.rc_air_airport.lid string``."""
        subject = f"{self.op} {self.dataset}"
        if self.from_name:
            return f"{subject}: {self.from_name} → {self.to_name}"
        if self.retyped:
            return f"{subject}: " + ", ".join(f"{c.name} {c.from_type} → {c.to_type}" for c in self.retyped)
        return f"{subject}.{self.column.name} {self.column.type}" if self.column else subject


def shape_of(observed: ObservedTable | None) -> TableShape | None:
    """Return the shape of an observed table, as steps compare it."""
    if observed is None:
        return None
    return TableShape(observed.qualified_name, observed.as_stored, tuple(observed.partition_by), observed.dropped)


def becomes(step: Step) -> TableShape | None:
    """The table's shape once the step is done."""
    shape = step.assumes
    if step.op == CREATE_TABLE:
        return shape_of_spec(step.table)
    if step.op == RESTORE_TABLE:
        return step.restored
    if shape is None:
        raise StepProblem("NO_TABLE", f"{step.describe()} needs a table that is there", where=step.dataset)
    if step.op == RENAME_TABLE:
        return replace(shape, qualified_name=step.to_name)
    if step.op in (DROP_TABLE, PUBLISH_TABLE):
        return replace(shape, dropped=step.op == DROP_TABLE)
    if step.op in WITHOUT_TRACE:
        return shape
    return _with_columns(step, shape)


def shape_of_spec(table: TableSpec) -> TableShape:
    columns = tuple(ObservedColumn(c.name, stored(c.type), key=c.key) for c in table.columns)
    return TableShape(table.qualified_name, columns, tuple(table.partition_by))


def _with_columns(step: Step, shape: TableShape) -> TableShape:
    columns = shape.columns
    if step.op == RENAME_COLUMN:
        columns = _changed(columns, {step.from_name: {"name": step.to_name}})
        parts = tuple(step.to_name if name == step.from_name else name for name in shape.partition_by)
        return replace(shape, columns=columns, partition_by=parts)
    if step.op == ADD_COLUMN and step.column is not None:
        columns = (*columns, ObservedColumn(step.column.name, stored(step.column.type), key=step.column.key))
    elif step.op in (WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN):
        columns = _changed(columns, {c.name: {"type": stored(c.to_type)} for c in step.retyped})
    elif step.op == DROP_COLUMN and step.column is not None:
        columns = tuple(column for column in columns if column.name != step.column.name)
    elif step.op == STAMP_KEYS:
        keys = {name: key for key, name in step.stamps}
        columns = tuple(replace(c, key=keys.get(c.name, None if c.key in step.untied else c.key)) for c in columns)
    else:
        raise StepProblem("UNKNOWN_STEP", f"{step.op} is no step, or lacks its column", where=step.dataset)
    return replace(shape, columns=columns)


def _changed(columns: tuple[ObservedColumn, ...], changes: dict[str, dict]) -> tuple[ObservedColumn, ...]:
    return tuple(replace(column, **changes.get(column.name, {})) for column in columns)


def done_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return whether the table shows the step's result. A step without a trace never counts as done."""
    wanted = becomes(step)
    return step.leaves_trace and wanted is not None and wanted.matches(shape_of(observed))


def half_done_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return whether only the keys of the columns it creates are still to be set."""
    wanted = becomes(step)
    ties = step.op in _TIED_AFTER and step.leaves_trace
    return ties and wanted is not None and wanted.matches(shape_of(observed), tied=False)


def assumed_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return whether the table is as the step requires. A dropped table makes room for a new one."""
    if step.assumes is None:
        return observed is None or observed.dropped
    return step.assumes.matches(shape_of(observed))


def steps_done(steps: Sequence[Step], observed: ObservedTable | None) -> int:
    """Return how many of one table's steps, in order, are done. Raise StepProblem if the table fits none.

    Each step assumes what the one before leads to, so the table is at one place in the list. One
    without a trace counts as open while the table stands where it would run.
    """
    for place, step in enumerate(steps):
        if assumed_by(step, observed):
            return place
        if half_done_by(step, observed) and not done_by(step, observed):
            return place
    if steps and _stands_at_the_end(steps, observed):
        return len(steps)
    raise moved(steps[0], observed)


def _stands_at_the_end(steps: Sequence[Step], observed: ObservedTable | None) -> bool:
    wanted = becomes(steps[-1])
    return wanted is not None and wanted.matches(shape_of(observed))


def moved(step: Step, observed: ObservedTable | None) -> StepProblem:
    """The refusal for a table that is not as its steps take for granted, saying where it differs."""
    shape, assumed = shape_of(observed), step.assumes
    if shape is None or assumed is None:
        differs = "there is no table" if shape is None else "there is a table already"
    elif shape.qualified_name != assumed.qualified_name:
        differs = f"it is called {shape.qualified_name}"
    else:
        held, wanted = ({f"{c.name} {c.type}" for c in s.columns} for s in (shape, assumed))
        more, less = sorted(held - wanted), sorted(wanted - held)
        said = (f"has {', '.join(more[:5])}" if more else "", f"lacks {', '.join(less[:5])}" if less else "")
        differs = "it " + " and ".join(filter(None, said)) if any(said) else "its columns have other keys"
    return StepProblem(
        "TABLE_MOVED",
        f"the table is not as it was when the steps were planned ({differs}); make a new report",
        where=step.dataset,
    )
