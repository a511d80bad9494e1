"""Step: change of one table, its preconditions and its inverse.

A step refers to a table's *shape*: its published name and its columns with types and stable keys, as the Delta log
has them. It never refers to versions, so a load in between does not outdate it. Preconditions are stored with the
step; its result is computed (``becomes``), so observing the table proves a step done, and a list of steps can be
resumed anywhere (``steps_done``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from architecture.domain.steps.features import COLUMN_MAPPING, TYPE_WIDENING, are_texts, features_of, needs_mapping
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec, stored
from elevata.core.errors import MetadataError

CREATE_TABLE, RENAME_TABLE, DROP_TABLE = "create_table", "rename_table", "drop_table"
PUBLISH_TABLE, RESTORE_TABLE, REBUILD_TABLE = "publish_table", "restore_table", "rebuild_table"
RENAME_COLUMN, ADD_COLUMN, WIDEN_COLUMN = "rename_column", "add_column", "widen_column"
RETYPE_COLUMN, DROP_COLUMN, STAMP_KEYS = "retype_column", "drop_column", "stamp_keys"
CHECK_NOT_NULL, PUBLISH_VIEW, DROP_VIEWS = "check_not_null", "publish_view", "drop_views"

# These leave no trace in the table: they change no rows or structure and may run again.
WITHOUT_TRACE = frozenset({CHECK_NOT_NULL, PUBLISH_VIEW, DROP_VIEWS})
# These create columns, which are tied to their stable keys in a second commit.
_TIED_AFTER = frozenset({CREATE_TABLE, ADD_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, STAMP_KEYS})


class StepProblem(MetadataError):
    """Steps that cannot be planned, or a table that is not as its steps take for granted."""


@dataclass(frozen=True)
class TableShape:
    """Structure as far as steps care: types as Delta stores them, NULLs allowed everywhere.

    ``features`` are those that the table has (``features``); shapes are compared without them.
    """

    qualified_name: str
    columns: tuple[ObservedColumn, ...]
    partition_by: tuple[str, ...] = ()
    dropped: bool = False
    features: tuple[str, ...] = field(default=(), compare=False)

    def column(self, name: str) -> ObservedColumn:
        """Return the column with exactly this name. Raise LookupError if there is none."""
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
    """Column that changes its type; ``name`` is its name in the table at that time.

    ``from_type`` is the stored type, ``to_type`` the described one: a uuid is stored as text, but not every text is
    a uuid.
    """

    name: str
    from_type: str
    to_type: str


@dataclass(frozen=True)
class Rehashed:
    """Key that a rebuild hashes again because one of its values changes its text form.

    ``parts`` are (name of a part in the hash, column with its value), under the table's names at that time;
    ``absent`` if the key is NULL when a part is, as for a foreign key.
    """

    name: str
    parts: tuple[tuple[str, str], ...]
    absent: bool = False


@dataclass(frozen=True)
class Step:
    """Change of one table. ``op`` is its kind, on which the other fields depend.

    ``table`` is the desired table (columns only if it is created), ``column`` the changed column, ``from_name`` and
    ``to_name`` the names of a rename (of tables ``schema.name``), ``retyped`` the columns of a rebuild or a widening,
    ``rehashed`` the keys that a rebuild hashes again, dependent ones last, ``stamps`` (stable key, column name) to
    tie and ``untied`` keys to untie. ``view`` is a view's statement, ``version`` the one to restore, ``restored`` the
    shape it had. ``only_empty`` drops a column only if it is all NULL; ``replaces`` creates a table in place of a
    dropped one, ``features`` are those that a new one has whatever its columns are. ``rewrites`` rewrites the table,
    so that it needs no further feature. ``assumes`` is the table's shape before (None: no table). ``operation`` is
    the ordinal of the report's operation, None for a load's own steps.
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
    features: tuple[str, ...] = ()
    rewrites: bool = False
    assumes: TableShape | None = None
    operation: int | None = None

    @property
    def dataset(self) -> str:
        return self.table.qualified_name

    @property
    def narrows(self) -> bool:
        return self.op == RETYPE_COLUMN

    @property
    def overwrites(self) -> bool:
        """Return True if the step rewrites every row of the table."""
        return self.rewrites or (self.op in (REBUILD_TABLE, RETYPE_COLUMN) and not self.only_checks)

    @property
    def only_checks(self) -> bool:
        """Return True between types that are stored alike, as text to uuid: values are checked and stay unchanged."""
        return self.op == RETYPE_COLUMN and all(stored(item.from_type) == stored(item.to_type) for item in self.retyped)

    @property
    def leaves_trace(self) -> bool:
        """Return True if the table shows whether the step was done."""
        return self.op not in WITHOUT_TRACE and not self.only_checks

    @property
    def needed_features(self) -> tuple[str, ...]:
        """Return the table features that the table must have after the step."""
        if self.rewrites:
            return self.features
        columns = (*(self.table.columns if self.op == CREATE_TABLE else ()), *((self.column,) if self.column else ()))
        mapped = self.op in (RENAME_COLUMN, DROP_COLUMN) or any(needs_mapping(column.name) for column in columns)
        needed = self.features + ((COLUMN_MAPPING,) if mapped else ())
        types = [type_ for change in self.retyped for type_ in (change.from_type, change.to_type)]
        return (*needed, TYPE_WIDENING) if self.op == WIDEN_COLUMN and not are_texts(*types) else needed

    @property
    def missing_features(self) -> tuple[str, ...]:
        """Return needed features that the table does not have before the step."""
        present = self.assumes.features if self.assumes is not None else ()
        return tuple(name for name in self.needed_features if name not in present)

    def describe(self) -> str:
        """Return one line of text: ``add_column rawcore.rc_air_airport.lid string``."""
        subject = f"{self.op} {self.dataset}"
        if self.from_name:
            return f"{subject}: {self.from_name} → {self.to_name}"
        if self.retyped:
            return f"{subject}: " + ", ".join(f"{c.name} {c.from_type} → {c.to_type}" for c in self.retyped)
        return f"{subject}.{self.column.name} {self.column.type}" if self.column else subject


def without_features(step: Step) -> Step:
    """Return the step as one that writes the table anew, if it would give the table a feature otherwise."""
    possible = step.op in (RENAME_COLUMN, DROP_COLUMN, WIDEN_COLUMN) and step.missing_features
    return replace(step, rewrites=True) if possible else step


def shape_of(observed: ObservedTable | None) -> TableShape | None:
    """Return the shape of an observed table, as steps compare it."""
    if observed is None:
        return None
    return TableShape(
        observed.qualified_name,
        observed.as_stored,
        tuple(observed.partition_by),
        observed.dropped,
        features_of(observed.properties),
    )


def becomes(step: Step) -> TableShape | None:
    """Return the table's shape after the step."""
    shape = step.assumes
    if step.op == CREATE_TABLE:
        return replace(shape_of_spec(step.table), features=step.needed_features)
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
    shape, columns = replace(shape, features=(*shape.features, *step.missing_features)), shape.columns
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
    ties = (step.rewrites or step.op in _TIED_AFTER) and step.leaves_trace
    return ties and wanted is not None and wanted.matches(shape_of(observed), tied=False)


def assumed_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return whether the table meets the preconditions. A dropped table can be replaced by a new one."""
    if step.assumes is None:
        return observed is None or observed.dropped
    return step.assumes.matches(shape_of(observed))


def steps_done(steps: Sequence[Step], observed: ObservedTable | None) -> int:
    """Return how many of one table's steps, in order, are done. Raise StepProblem if the table fits none.

    Each step assumes the result of the one before, so the table fits one position in the list. A step without a
    trace counts as not done while the table is in the state before it.
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
    """Return the refusal for a table that differs from a step's preconditions, naming the difference."""
    shape, assumed = shape_of(observed), step.assumes
    if shape is None or assumed is None:
        differs = "there is no table" if shape is None else "there is a table already"
    elif shape.qualified_name != assumed.qualified_name:
        differs = f"it is called {shape.qualified_name}"
    else:
        actual, wanted = ({f"{c.name} {c.type}" for c in s.columns} for s in (shape, assumed))
        more, less = sorted(actual - wanted), sorted(wanted - actual)
        parts = (f"has {', '.join(more[:5])}" if more else "", f"lacks {', '.join(less[:5])}" if less else "")
        differs = "it " + " and ".join(filter(None, parts)) if any(parts) else "its columns have other keys"
    return StepProblem(
        "TABLE_MOVED",
        f"the table is not as it was when the steps were planned ({differs}); make a new report",
        where=step.dataset,
    )


# Inverses of steps, and the check that the table is unchanged since the step. Renames are renamed back, a dropped
# table is published again, an added column is dropped while it is empty. Rewritten or removed data is undone by a
# restore of the version before, which would also undo later writes: the runner refuses it once rows were written. A
# created history stays, because it may have rows.


KEPT = ("history", "event_log")
_BY_RESTORE = frozenset({WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, DROP_COLUMN, RESTORE_TABLE})


class StoodOn(StepProblem):
    """Error of a step that cannot be undone, because its table was changed since."""

    def __init__(self, step: Step, differs: str) -> None:
        message = f"{step.describe()} cannot be undone: {differs}"
        super().__init__("TABLE_MOVED", message, where=step.dataset)
        self.differs = differs


def goes_to_version(step: Step) -> bool:
    """Return whether only restoring the table's version before undoes the step."""
    return step.op in _BY_RESTORE and not step.only_empty and not step.only_checks


def inverse(step: Step, version_before: int | None = None) -> Step | None:
    """Return the inverse of ``step``, or None if nothing has to be undone or the step cannot be undone.

    ``version_before`` is the table's version that its execution recorded; without it rewritten data cannot be
    restored. The inverse has no operation yet.
    """
    back = Step(step.op, step.table, assumes=becomes(step), rewrites=step.rewrites and step.op == RENAME_COLUMN)
    if goes_to_version(step):
        known = replace(back, op=RESTORE_TABLE, version=version_before, restored=step.assumes)
        return known if version_before is not None else None
    if step.op == RENAME_TABLE:
        table = _called(step, step.from_name)
        return replace(back, table=table, from_name=step.to_name, to_name=step.from_name)
    if step.op == RENAME_COLUMN and step.column is not None:
        column = replace(step.column, name=step.from_name)
        return replace(back, column=column, from_name=step.to_name, to_name=step.from_name)
    if step.op == ADD_COLUMN:
        return replace(back, op=DROP_COLUMN, column=step.column, only_empty=True)
    if step.op == DROP_COLUMN:
        return replace(back, op=ADD_COLUMN, column=step.column)
    if step.op == CREATE_TABLE and step.table.kind not in KEPT:
        return replace(back, op=DROP_TABLE, table=replace(step.table, columns=()))
    if step.op in (DROP_TABLE, PUBLISH_TABLE):
        return replace(back, op=PUBLISH_TABLE if step.op == DROP_TABLE else DROP_TABLE)
    return _tied_again(step, back) if step.op == STAMP_KEYS else None


def _tied_again(step: Step, back: Step) -> Step | None:
    """Return the keys that were untied; a column that got its first key keeps it."""
    free = {column.name for column in back.assumes.columns if column.key is None} if back.assumes else set()
    let_go = [column for column in (step.assumes.columns if step.assumes else ()) if column.key in step.untied]
    ties = tuple((column.key, column.name) for column in let_go if column.key and column.name in free)
    return replace(back, stamps=ties) if ties else None


def inverses(
    executed: Iterable[tuple[Step, int | None]], shapes: Mapping[str, TableShape] | None = None
) -> tuple[Step, ...]:
    """Return the steps that undo executed steps, in the order to run them: the last one first.

    ``executed`` are the steps with their tables' versions before, ``shapes`` all tables as they are now,
    dropped ones too (None: as the steps left them). StoodOn for a step whose table is not as it left it.
    """
    executed = list(executed)
    unwinding = Unwinding({step.table.key: becomes(step) for step, _ in executed} if shapes is None else shapes)
    return tuple(back for step, version in reversed(executed) for back in unwinding.take_back(step, version))


class Unwinding:
    """Shapes of the tables while one step after the other is undone.

    ``rewrites``: no table gets a feature for it; it is written anew instead.
    """

    def __init__(self, shapes: Mapping[str, TableShape | None], *, rewrites: bool = False) -> None:
        self.rewrites = rewrites
        self.shapes = {key: shape for key, shape in shapes.items() if shape is not None}
        held = ((shape.qualified_name.lower(), key) for key, shape in self.shapes.items() if not shape.dropped)
        self.names = dict(held)

    def take_back(self, step: Step, version_before: int | None) -> tuple[Step, ...]:
        """Return the steps that undo this one now; none if nothing has to be done.

        Raises StoodOn if it cannot be undone. Views that a rename would leave under their old names are dropped
        before it.
        """
        back = inverse(step, version_before)
        if back is None:
            if goes_to_version(step):
                raise StoodOn(step, "which version the table had before was not recorded")
            return ()
        shape = self.shapes.get(step.table.key)
        differs = self._differs(step, back, shape)
        if differs or shape is None:
            raise StoodOn(step, differs or "the table is not there")
        back = replace(back, assumes=shape)
        back = without_features(back) if self.rewrites else back
        if back.op != RENAME_TABLE:
            back = replace(back, table=_called(back, shape.qualified_name))
        after = becomes(back)
        assert after is not None
        self._set(step.table.key, after)
        if back.op == RENAME_TABLE and back.table.kind == "history":
            return Step(DROP_VIEWS, back.table, from_name=back.from_name, assumes=shape), back
        return (back,)

    def _differs(self, step: Step, back: Step, shape: TableShape | None) -> str:
        """Return how the table differs from the step's result in the parts that undo needs; empty if it does not."""
        if shape is None:
            return "the table is not there"
        if back.op == RENAME_TABLE:
            return self._not_called(step, shape)
        if back.op == PUBLISH_TABLE and (holder := self._holder(shape.qualified_name, besides=step.table.key)):
            return f"another table is called {holder}"
        if back.op in (RENAME_COLUMN, DROP_COLUMN, ADD_COLUMN):
            return _column_differs(step, back, shape)
        if back.op == STAMP_KEYS:
            free = {column.name for column in shape.columns if column.key is None}
            return "" if {name for _, name in back.stamps} <= free else "its columns have other keys"
        left = becomes(step)
        return "" if left is not None and left.matches(shape) else "the table was changed since"

    def _not_called(self, step: Step, shape: TableShape) -> str:
        if shape.dropped or shape.qualified_name != step.to_name:
            return f"the table is called {shape.qualified_name}" if not shape.dropped else "the table was dropped"
        holder = self._holder(step.from_name, besides=step.table.key)
        return f"another table is called {holder}" if holder else ""

    def _holder(self, name: str, besides: str = "") -> str:
        """Return the name of the table that holds a name, other than ``besides``."""
        key = self.names.get(name.lower(), besides)
        return self.shapes[key].qualified_name if key not in ("", besides) else ""

    def _set(self, key: str, shape: TableShape) -> None:
        before = self.shapes[key].qualified_name.lower()
        if self.names.get(before) == key:
            del self.names[before]
        if not shape.dropped:
            self.names[shape.qualified_name.lower()] = key
        self.shapes[key] = shape


def _column_differs(step: Step, back: Step, shape: TableShape) -> str:
    """Return how the column differs from the step's result, or that its former name is in use; empty if neither."""
    assert step.column is not None
    if shape.dropped:
        return "the table was dropped"
    actual = next((column for column in shape.columns if column.name == step.column.name), None)
    if back.op != ADD_COLUMN and (actual is None or actual.key != _key_left(step)):
        return f"the table has no column {step.column.name} of that key"
    if back.op == DROP_COLUMN:
        same = actual is not None and stored(actual.type) == stored(step.column.type)
        return "" if same else f"{step.column.name} is of another type by now"
    wanted = back.to_name if back.op == RENAME_COLUMN else step.column.name
    others = [column.name for column in shape.columns if column != actual and column.name.lower() == wanted.lower()]
    return f"another column is called {others[0]}" if others else ""


def _key_left(step: Step) -> str | None:
    left = becomes(step)
    assert left is not None
    assert step.column is not None
    return left.column(step.column.name).key


def _called(step: Step, qualified_name: str) -> TableSpec:
    schema, _, name = qualified_name.partition(".")
    return replace(step.table, schema=schema, name=name)
