"""Inverses of steps, and the check that the table is still as the step left it.

Renames are renamed back, a dropped table is published again, an added column is dropped while it is
still empty. What rewrote or took away data goes back to the version before, which takes everything
along that was done to the table since: so nothing may have been. The runner refuses it once rows were
written. A history that was made stays: it may have been written to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from architecture.domain.states.tables import TableSpec, stored
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
)

KEPT = ("history", "memory")
_BY_RESTORE = frozenset({WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, DROP_COLUMN, RESTORE_TABLE})


class StoodOn(StepProblem):
    """A step that cannot be taken back, because its table is no longer as it left it."""

    def __init__(self, step: Step, differs: str) -> None:
        message = f"{step.describe()} cannot be taken back: {differs}"
        super().__init__("TABLE_MOVED", message, where=step.dataset)
        self.differs = differs


def goes_to_version(step: Step) -> bool:
    """Return whether only restoring the table's version before undoes the step."""
    return step.op in _BY_RESTORE and not step.only_empty and not step.only_looks


def inverse(step: Step, version_before: int | None = None) -> Step | None:
    """The step that takes ``step`` back, or None where nothing is to be taken back or nothing can be.

    ``version_before`` is the table's version that its execution recorded; without it nothing that
    rewrote data can be taken back. The inverse belongs to no operation yet.
    """
    back = Step(step.op, step.table, assumes=becomes(step))
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
    """Columns that were let go get their keys again; those that got one for the first time keep it."""
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
    """Shapes of the tables while one step after the other is undone."""

    def __init__(self, shapes: Mapping[str, TableShape | None]) -> None:
        self.shapes = {key: shape for key, shape in shapes.items() if shape is not None}
        held = ((shape.qualified_name.lower(), key) for key, shape in self.shapes.items() if not shape.dropped)
        self.names = dict(held)

    def take_back(self, step: Step, version_before: int | None) -> tuple[Step, ...]:
        """Return the steps that undo this one now; none where nothing is to be done.

        Raise StoodOn if it cannot be undone.

        Views that a rename would leave behind under their names are dropped before it.
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
        if back.op != RENAME_TABLE:
            back = replace(back, table=_called(back, shape.qualified_name))
        after = becomes(back)
        assert after is not None
        self._set(step.table.key, after)
        if back.op == RENAME_TABLE and back.table.kind == "history":
            return Step(DROP_VIEWS, back.table, from_name=back.from_name, assumes=shape), back
        return (back,)

    def _differs(self, step: Step, back: Step, shape: TableShape | None) -> str:
        """Return how the table differs from what the step left, as far as the undo needs it; empty if it does not."""
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
    """Return how the column differs from what the step left, or that its former name is taken; empty if neither."""
    assert step.column is not None
    if shape.dropped:
        return "the table was dropped"
    held = next((column for column in shape.columns if column.name == step.column.name), None)
    if back.op != ADD_COLUMN and (held is None or held.key != _key_left(step)):
        return f"the table has no column {step.column.name} of that key"
    if back.op == DROP_COLUMN:
        same = held is not None and stored(held.type) == stored(step.column.type)
        return "" if same else f"{step.column.name} is of another type by now"
    wanted = back.to_name if back.op == RENAME_COLUMN else step.column.name
    taken = [column.name for column in shape.columns if column != held and column.name.lower() == wanted.lower()]
    return f"another column is called {taken[0]}" if taken else ""


def _key_left(step: Step) -> str | None:
    left = becomes(step)
    assert left is not None
    assert step.column is not None
    return left.column(step.column.name).key


def _called(step: Step, qualified_name: str) -> TableSpec:
    schema, _, name = qualified_name.partition(".")
    return replace(step.table, schema=schema, name=name)
