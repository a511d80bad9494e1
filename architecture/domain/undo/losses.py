"""Losses of an undo: what each of its steps removes from the tables, in words."""

from collections.abc import Iterable, Mapping

from architecture.domain.steps.step import DROP_COLUMN, DROP_TABLE, RESTORE_TABLE, Step
from elevata.core.words import counted


def losses(steps: Iterable[Step], rows: Mapping[str, int]) -> tuple[str, ...]:
    """Return the losses of these undo steps. ``rows`` are the numbers of rows of the tables, by key, if known."""
    texts = (_loss(step, rows.get(step.table.key)) for step in steps)
    return tuple(dict.fromkeys(text for text in texts if text))


def _loss(step: Step, rows: int | None) -> str:
    table = step.table.qualified_name
    if step.op == DROP_COLUMN and step.column is not None:
        return f"Column {step.column.name} of {table}, which must be empty."
    if step.op == DROP_TABLE:
        return f"Table {table} with {counted(rows, 'row')}." if rows is not None else f"Table {table} with its rows."
    if step.op == RESTORE_TABLE:
        return f"Versions of {table} after {step.version} are not current any more; no run has written rows since."
    return ""
