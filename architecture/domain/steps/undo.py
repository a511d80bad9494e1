"""What takes a step back: the inverse, with the same table as it stood after the step as its ground.

Renames are renamed back, a dropped table is published again, an added column is dropped while it is
still empty. What rewrote or took away data goes back to the version before, which the runner refuses
once rows were written since.
"""

from collections.abc import Iterable
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
    WIDEN_COLUMN,
    Step,
    becomes,
)

_BY_RESTORE = (WIDEN_COLUMN, REBUILD_TABLE, RETYPE_COLUMN, DROP_COLUMN)


def inverse(step: Step, version_before: int | None = None) -> Step | None:
    """The step that takes ``step`` back, or None where nothing is to be taken back or nothing can be.

    ``version_before`` is the table's version that its execution recorded; without it nothing that
    rewrote data can be taken back. The inverse belongs to no operation yet.
    """
    back = Step(step.op, step.table, assumes=becomes(step))
    if step.op == RENAME_TABLE:
        schema, _, name = step.from_name.partition(".")
        table = replace(step.table, schema=schema, name=name)
        return replace(back, table=table, from_name=step.to_name, to_name=step.from_name)
    if step.op == RENAME_COLUMN and step.column is not None:
        column = replace(step.column, name=step.from_name)
        return replace(back, column=column, from_name=step.to_name, to_name=step.from_name)
    if step.op == ADD_COLUMN:
        return replace(back, op=DROP_COLUMN, column=step.column, only_empty=True)
    if step.op == CREATE_TABLE:
        return replace(back, op=DROP_TABLE, table=replace(step.table, columns=()))
    if step.op in (DROP_TABLE, PUBLISH_TABLE):
        return replace(back, op=PUBLISH_TABLE if step.op == DROP_TABLE else DROP_TABLE)
    if step.op in _BY_RESTORE and version_before is not None and not step.only_empty:
        return replace(back, op=RESTORE_TABLE, version=version_before, restored=step.assumes)
    return None


def inverses(executed: Iterable[tuple[Step, int | None]]) -> tuple[Step, ...]:
    """What takes back steps that ran, in the order to run it: the last one first.

    ``executed`` are the steps with their tables' versions before. Views that a rename would leave
    behind under their new names are dropped before it; publishing them again is the next load's.
    """
    back: list[Step] = []
    for step, version in reversed(list(executed)):
        found = inverse(step, version)
        if found is None:
            continue
        if found.op == RENAME_TABLE and found.table.kind == "history":
            back.append(Step(DROP_VIEWS, found.table, from_name=found.from_name, assumes=found.assumes))
        back.append(found)
    return tuple(back)
