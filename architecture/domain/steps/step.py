"""Steps: changes of one table each, with their preconditions and results.

A step refers to a table's *shape*: its name in the catalog and its columns with types and stable keys, as the Delta
log has them. It never refers to table versions, so a load between planning and execution does not outdate it.
Preconditions are stored with the step and its result is computed (``becomes``). Comparing a table with both shows
whether the step is done, so a list of steps can be resumed at any position (``steps_done``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain.steps.features import (
    COLUMN_MAPPING,
    TYPE_WIDENING,
    are_texts,
    closing_features,
    features_of,
    needs_mapping,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec, stored
from elevata.core.errors import MetadataError

CREATE_TABLE, RENAME_TABLE, DROP_TABLE = "create_table", "rename_table", "drop_table"
PUBLISH_TABLE, RESTORE_TABLE, REBUILD_TABLE = "publish_table", "restore_table", "rebuild_table"
RENAME_COLUMN, ADD_COLUMN, WIDEN_COLUMN = "rename_column", "add_column", "widen_column"
RETYPE_COLUMN, DROP_COLUMN, STAMP_KEYS = "retype_column", "drop_column", "stamp_keys"
CHECK_NOT_NULL, PUBLISH_VIEW, DROP_VIEWS = "check_not_null", "publish_view", "drop_views"
DROP_FEATURES = "drop_features"

# These change neither rows nor structure, so the table does not show that they ran. They may run again.
WITHOUT_TRACE = frozenset({CHECK_NOT_NULL, PUBLISH_VIEW, DROP_VIEWS})
# These create columns; a second commit sets the columns' stable keys.
_CREATE_COLUMNS = frozenset({CREATE_TABLE, ADD_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, STAMP_KEYS})


class StepProblem(MetadataError):
    """Error of steps that cannot be planned, or of a table that does not meet a step's preconditions."""


@dataclass(frozen=True)
class TableShape:
    """Structure of a table as steps compare it: types as Delta stores them, without nullability.

    ``features`` are the table's enabled features (``architecture.domain.steps.features``), ``closing`` those that some
    open readers do not support; comparisons ignore both.
    """

    qualified_name: str
    columns: tuple[ObservedColumn, ...]
    partition_by: tuple[str, ...] = ()
    dropped: bool = False
    features: tuple[str, ...] = field(default=(), compare=False)
    closing: tuple[str, ...] = field(default=(), compare=False)

    def column(self, name: str) -> ObservedColumn:
        """Return the column with exactly this name. Raise LookupError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise LookupError(f"{self.qualified_name} has no column {name}")

    def matches(self, other: "TableShape | None", *, tied: bool = True) -> bool:
        """Return True if both have the same name and columns, in any order.

        Without ``tied``, columns of ``other`` may lack their stable keys.
        """
        if other is None or (self.qualified_name, self.dropped) != (other.qualified_name, other.dropped):
            return False
        if self.partition_by != other.partition_by:
            return False
        mine, others = ({c.name: c for c in shape.columns} for shape in (self, other))
        return mine.keys() == others.keys() and all(
            column.type == others[name].type
            and (column.key == others[name].key or (not tied and others[name].key is None))
            for name, column in mine.items()
        )


@dataclass(frozen=True)
class Retyped:
    """Column that changes its type; ``name`` is its name in the table when the step runs.

    ``from_type`` is the stored type, ``to_type`` the type in the metadata: a uuid is stored as text, but not every
    text is a uuid.
    """

    name: str
    from_type: str
    to_type: str


@dataclass(frozen=True)
class Rehashed:
    """Key that a rebuild computes again, because the text form of one of its values changes.

    ``parts`` are (name of a part in the hash, column with its value), with the table's column names when the step
    runs. With ``absent``, the key is NULL if a part is, as for a foreign key. ``types`` are those of columns that are
    stored as text and hashed by their value.
    """

    name: str
    parts: tuple[tuple[str, str], ...]
    absent: bool = False
    types: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Step:
    """Change of one table. The kind ``op`` determines which other fields are set.

    Attributes:
        table: desired table, with columns only if it is created.
        column: changed column.
        from_name, to_name: names of a rename; of a table ``schema.name``.
        retyped: columns of a rebuild or a widening.
        rehashed: keys that a rebuild computes again, dependent ones last.
        stamps: (stable key, column name) to set.
        untied: stable keys to remove.
        view: statement of a view.
        version, restored: table version to restore, and its shape.
        only_empty: drop the column only if all its values are NULL.
        replaces: create the table in place of a dropped one.
        features: features of a new table, independent of its columns; features that a step drops.
        rewrites: rewrite the table, so that it needs no further feature.
        repartitions: a rebuild that gives the table the partition columns of ``table``.
        assumes: shape of the table before the step; None if there is no table.
        operation: ordinal of the report's operation; None for a load's own steps.
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
    repartitions: bool = False
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
        rebuilds = self.op in (REBUILD_TABLE, RETYPE_COLUMN) and not self.only_checks
        return self.rewrites or rebuilds or self.op == DROP_FEATURES

    @property
    def only_checks(self) -> bool:
        """Return True if both types are stored alike, as text and uuid: values are checked, not changed."""
        return self.op == RETYPE_COLUMN and all(stored(item.from_type) == stored(item.to_type) for item in self.retyped)

    @property
    def leaves_trace(self) -> bool:
        """Return True if the table shows whether the step was done."""
        return self.op not in WITHOUT_TRACE and not self.only_checks

    @property
    def needed_features(self) -> tuple[str, ...]:
        """Return the table features that the table must have after the step."""
        if self.op == DROP_FEATURES:
            return ()
        if self.rewrites:
            return self.features
        columns = (*(self.table.columns if self.op == CREATE_TABLE else ()), *((self.column,) if self.column else ()))
        mapped = self.op in (RENAME_COLUMN, DROP_COLUMN) or any(needs_mapping(column.name) for column in columns)
        needed = self.features + ((COLUMN_MAPPING,) if mapped else ())
        types = [type_ for change in self.retyped for type_ in (change.from_type, change.to_type)]
        return (*needed, TYPE_WIDENING) if self.op == WIDEN_COLUMN and not are_texts(*types) else needed

    @property
    def missing_features(self) -> tuple[str, ...]:
        """Return the needed features that the table lacks before the step."""
        present = self.assumes.features if self.assumes is not None else ()
        return tuple(name for name in self.needed_features if name not in present)

    def describe(self) -> str:
        """Return one line of text: ``add_column rawcore.rc_air_airport.lid string``."""
        subject = f"{self.op} {self.dataset}"
        if self.from_name:
            return f"{subject}: {self.from_name} → {self.to_name}"
        if self.repartitions:
            return f"{subject}: partitioned by {', '.join(self.table.partition_by) or 'nothing'}"
        if self.op == DROP_FEATURES:
            return f"{subject}: {', '.join(self.features)}"
        if self.retyped:
            return f"{subject}: " + ", ".join(f"{c.name} {c.from_type} → {c.to_type}" for c in self.retyped)
        return f"{subject}.{self.column.name} {self.column.type}" if self.column else subject


def without_features(step: Step) -> Step:
    """Return the step as a rewrite of the table, if it would otherwise enable a table feature."""
    possible = step.op in (RENAME_COLUMN, DROP_COLUMN, WIDEN_COLUMN) and step.missing_features
    return replace(step, rewrites=True) if possible else step


def joined_rewrites(first: Step, second: Step) -> Step | None:
    """Return one rewrite in place of two successive widenings that both rewrite a table; None for other steps."""
    if first.table.key != second.table.key or not all(s.op == WIDEN_COLUMN and s.rewrites for s in (first, second)):
        return None
    return replace(first, retyped=(*first.retyped, *second.retyped))


def shape_of(observed: ObservedTable | None) -> TableShape | None:
    """Return the shape of an observed table."""
    if observed is None:
        return None
    return TableShape(
        observed.qualified_name,
        observed.as_stored,
        tuple(observed.partition_by),
        observed.dropped,
        features_of(observed.properties),
        closing_features(observed.properties),
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
    if step.op == DROP_FEATURES:
        features, closing = (
            tuple(feature for feature in present if feature not in step.features)
            for present in (shape.features, shape.closing)
        )
        return replace(shape, features=features, closing=closing)
    return _with_columns(step, shape)


def shape_of_spec(table: TableSpec) -> TableShape:
    columns = tuple(ObservedColumn(c.name, stored(c.type), key=c.key) for c in table.columns)
    return TableShape(table.qualified_name, columns, tuple(table.partition_by))


def _with_columns(step: Step, shape: TableShape) -> TableShape:
    shape, columns = replace(shape, features=(*shape.features, *step.missing_features)), shape.columns
    if step.op == RENAME_COLUMN:
        columns = _change_columns(columns, {step.from_name: {"name": step.to_name}})
        parts = tuple(step.to_name if name == step.from_name else name for name in shape.partition_by)
        return replace(shape, columns=columns, partition_by=parts)
    if step.op == ADD_COLUMN and step.column is not None:
        columns = (*columns, ObservedColumn(step.column.name, stored(step.column.type), key=step.column.key))
    elif step.op in (WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN):
        columns = _change_columns(columns, {c.name: {"type": stored(c.to_type)} for c in step.retyped})
        shape = replace(shape, partition_by=step.table.partition_by) if step.repartitions else shape
    elif step.op == DROP_COLUMN and step.column is not None:
        columns = tuple(column for column in columns if column.name != step.column.name)
    elif step.op == STAMP_KEYS:
        keys = {name: key for key, name in step.stamps}
        columns = tuple(replace(c, key=keys.get(c.name, None if c.key in step.untied else c.key)) for c in columns)
    else:
        raise StepProblem("UNKNOWN_STEP", f"{step.op} is no step, or lacks its column", where=step.dataset)
    return replace(shape, columns=columns)


def _change_columns(
    columns: tuple[ObservedColumn, ...], changes: dict[str, dict[str, Any]]
) -> tuple[ObservedColumn, ...]:
    return tuple(replace(column, **changes.get(column.name, {})) for column in columns)


def done_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return True if the table has the step's result. A step of ``WITHOUT_TRACE`` never counts as done."""
    desired, shape = becomes(step), shape_of(observed)
    return step.leaves_trace and desired is not None and desired.matches(shape) and not _drops_of(step, shape)


def _drops_of(step: Step, shape: TableShape | None) -> set[str]:
    """Return the features that the step drops and the table still has."""
    return set(step.features) & set(shape.closing) if step.op == DROP_FEATURES and shape is not None else set()


def half_done_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return True if the step created its columns, but did not set their stable keys yet.

    For dropped features: also if some features are left.
    """
    desired = becomes(step)
    ties = (step.rewrites or step.op in _CREATE_COLUMNS or step.op == DROP_FEATURES) and step.leaves_trace
    return ties and desired is not None and desired.matches(shape_of(observed), tied=False)


def assumed_by(step: Step, observed: ObservedTable | None) -> bool:
    """Return True if the table meets the preconditions. A dropped table can be replaced by a new one."""
    if step.assumes is None:
        return observed is None or observed.dropped
    shape = shape_of(observed)
    return step.assumes.matches(shape) and (step.op != DROP_FEATURES or bool(_drops_of(step, shape)))


def steps_done(steps: Sequence[Step], observed: ObservedTable | None) -> int:
    """Return how many of one table's steps, in order, are done. Raise StepProblem if the table fits no position.

    Each step assumes the result of the previous one, so the table fits one position in the list. A step of
    ``WITHOUT_TRACE`` counts as not done while the table meets its preconditions.
    """
    for position, step in enumerate(steps):
        if assumed_by(step, observed):
            return position
        if half_done_by(step, observed) and not done_by(step, observed):
            return position
    if steps and _all_done(steps, observed):
        return len(steps)
    raise moved(steps[0], observed)


def _all_done(steps: Sequence[Step], observed: ObservedTable | None) -> bool:
    desired = becomes(steps[-1])
    return desired is not None and desired.matches(shape_of(observed))


def moved(step: Step, observed: ObservedTable | None) -> StepProblem:
    """Return the error for a table that does not meet a step's preconditions; it names the difference."""
    shape, assumed = shape_of(observed), step.assumes
    if shape is None or assumed is None:
        differs = "there is no table" if shape is None else "there is a table already"
    elif shape.qualified_name != assumed.qualified_name:
        differs = f"it is called {shape.qualified_name}"
    else:
        actual, desired = ({f"{c.name} {c.type}" for c in s.columns} for s in (shape, assumed))
        more, less = sorted(actual - desired), sorted(desired - actual)
        parts = (f"has {', '.join(more[:5])}" if more else "", f"lacks {', '.join(less[:5])}" if less else "")
        same_partitions = shape.partition_by == assumed.partition_by
        otherwise = "its columns have other keys" if same_partitions else "it is partitioned by other columns"
        differs = "it " + " and ".join(filter(None, parts)) if any(parts) else otherwise
    return StepProblem(
        "TABLE_MOVED",
        f"the table is not as it was when the steps were planned ({differs}); make a new report",
        where=step.dataset,
    )
