"""Inverses of steps, and the check that the table is unchanged since the step.

A rename is renamed back, a dropped table is published again, an added column is dropped if it is empty. Rewritten or
removed data is undone by restoring the previous table version. That would also undo later writes, so the runner refuses
it if rows were written since. A created history is not dropped, because it may have rows.
"""

from collections.abc import Mapping
from dataclasses import replace

from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    DROP_COLUMN,
    DROP_TABLE,
    DROP_VIEWS,
    PUBLISH_TABLE,
    REBUILD_TABLE,
    RENAME_COLUMN,
    RENAME_TABLE,
    RESTORE_TABLE,
    RETYPE_COLUMN,
    STAMP_KEYS,
    WIDEN_COLUMN,
    Step,
    StepProblem,
    TableShape,
    becomes,
    without_features,
)
from architecture.domain.tables import TableSpec, stored

KEPT = ("history", "event_log")
_BY_RESTORE = frozenset({WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, DROP_COLUMN, RESTORE_TABLE})


class StoodOn(StepProblem):
    """Error of a step that cannot be undone, because its table was changed since or its version is unknown."""

    def __init__(self, step: Step, differs: str) -> None:
        message = f"{step.describe()} cannot be undone: {differs}"
        super().__init__("TABLE_MOVED", message, where=step.dataset)
        self.differs = differs


def goes_to_version(step: Step) -> bool:
    """Return True if the step can be undone only by restoring the previous table version."""
    return step.op in _BY_RESTORE and not step.only_empty and not step.only_checks


def inverse(step: Step, version_before: int | None = None) -> Step | None:
    """Return the inverse of ``step``, or None if nothing has to be undone or the step cannot be undone.

    ``version_before`` is the table version before the step, as its execution recorded it; without it, rewritten data
    cannot be restored. ``operation`` of the inverse is not set.
    """
    back = Step(step.op, step.table, assumes=becomes(step), rewrites=step.rewrites and step.op == RENAME_COLUMN)
    if goes_to_version(step):
        known = replace(back, op=RESTORE_TABLE, version=version_before, restored=step.assumes)
        return known if version_before is not None else None
    if step.op == RENAME_TABLE:
        table = _with_name(step, step.from_name)
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
    return _restore_keys(step, back) if step.op == STAMP_KEYS else None


def _restore_keys(step: Step, back: Step) -> Step | None:
    """Return a step that sets the removed keys again; a column that got its first key keeps it."""
    free = {column.name for column in back.assumes.columns if column.key is None} if back.assumes else set()
    untied = [column for column in (step.assumes.columns if step.assumes else ()) if column.key in step.untied]
    stamps = tuple((column.key, column.name) for column in untied if column.key and column.name in free)
    return replace(back, stamps=stamps) if stamps else None


class Unwinding:
    """Shapes of the tables while steps are undone one after the other.

    With ``rewrites``, tables are rewritten instead of getting a new table feature.
    """

    def __init__(self, shapes: Mapping[str, TableShape | None], *, rewrites: bool = False) -> None:
        self.rewrites = rewrites
        self.shapes = {key: shape for key, shape in shapes.items() if shape is not None}
        names = ((shape.qualified_name.lower(), key) for key, shape in self.shapes.items() if not shape.dropped)
        self.names = dict(names)

    def take_back(self, step: Step, version_before: int | None) -> tuple[Step, ...]:
        """Return the steps that undo ``step`` in the current shapes; none if nothing has to be undone.

        Raises StoodOn if it cannot be undone. Before a history is renamed, its views are dropped, because they would
        keep their old names.
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
            back = replace(back, table=_with_name(back, shape.qualified_name))
        after = becomes(back)
        assert after is not None
        self._set(step.table.key, after)
        if back.op == RENAME_TABLE and back.table.kind == "history":
            return Step(DROP_VIEWS, back.table, from_name=back.from_name, assumes=shape), back
        return (back,)

    def _differs(self, step: Step, back: Step, shape: TableShape | None) -> str:
        """Return the difference between the table and the step's result that prevents undo; empty if there is none."""
        if shape is None:
            return "the table is not there"
        if back.op == RENAME_TABLE:
            return self._name_differs(step, shape)
        if back.op == PUBLISH_TABLE and (holder := self._holder(shape.qualified_name, besides=step.table.key)):
            return f"another table is called {holder}"
        if back.op in (RENAME_COLUMN, DROP_COLUMN, ADD_COLUMN):
            return _column_differs(step, back, shape)
        if back.op == STAMP_KEYS:
            free = {column.name for column in shape.columns if column.key is None}
            return "" if {name for _, name in back.stamps} <= free else "its columns have other keys"
        result = becomes(step)
        return "" if result is not None and result.matches(shape) else "the table was changed since"

    def _name_differs(self, step: Step, shape: TableShape) -> str:
        if shape.dropped or shape.qualified_name != step.to_name:
            return f"the table is called {shape.qualified_name}" if not shape.dropped else "the table was dropped"
        holder = self._holder(step.from_name, besides=step.table.key)
        return f"another table is called {holder}" if holder else ""

    def _holder(self, name: str, besides: str = "") -> str:
        """Return the name, as spelled, of the table with this name; empty if there is none but ``besides``."""
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
    """Return the difference between the column and the step's result, or the use of its former name; else empty."""
    assert step.column is not None
    if shape.dropped:
        return "the table was dropped"
    actual = next((column for column in shape.columns if column.name == step.column.name), None)
    if back.op != ADD_COLUMN and (actual is None or actual.key != _key_after(step)):
        return f"the table has no column {step.column.name} of that key"
    if back.op == DROP_COLUMN:
        same = actual is not None and stored(actual.type) == stored(step.column.type)
        return "" if same else f"{step.column.name} is of another type by now"
    desired = back.to_name if back.op == RENAME_COLUMN else step.column.name
    others = [column.name for column in shape.columns if column != actual and column.name.lower() == desired.lower()]
    return f"another column is called {others[0]}" if others else ""


def _key_after(step: Step) -> str | None:
    result = becomes(step)
    assert result is not None
    assert step.column is not None
    return result.column(step.column.name).key


def _with_name(step: Step, qualified_name: str) -> TableSpec:
    schema, _, name = qualified_name.partition(".")
    return replace(step.table, schema=schema, name=name)
