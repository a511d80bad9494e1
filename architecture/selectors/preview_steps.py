"""Steps of a preview by table, and the size of the tables that they change."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from architecture.domain.steps.step import Step, TableShape
from architecture.models import Preview
from architecture.services.previews import steps_in


@dataclass(frozen=True)
class StepRow:
    """Step of a preview, with its statements as one text."""

    number: int
    step: Step
    statement: str


@dataclass
class TableSteps:
    """Steps on one table, with the structure that the first step assumes and the table's size."""

    key: str
    name: str
    assumes: TableShape | None
    size: Mapping[str, int]
    rewritten: bool
    read: bool
    steps: list[StepRow] = field(default_factory=list)


def steps_by_table(preview: Preview) -> list[TableSteps]:
    """Return a preview's steps by table, in the order of each table's first step."""
    estimate = preview.estimate or {}
    tables: dict[str, TableSteps] = {}
    rows = zip(steps_in(preview), preview.document["steps"], strict=True)
    for number, (step, row) in enumerate(rows, start=1):
        key, name = step.table.key, step.table.qualified_name
        if key not in tables:
            tables[key] = TableSteps(
                key,
                step.assumes.qualified_name if step.assumes else name,
                step.assumes,
                preview.sizes.get(key) or {},
                rewritten=False,
                read=False,
            )
        table = tables[key]
        table.rewritten = table.rewritten or name in estimate.get("rewritten", {})
        table.read = table.read or name in estimate.get("read", {})
        table.steps.append(StepRow(number, step, row["statement"]))
    return list(tables.values())


@dataclass(frozen=True)
class ChangedSize:
    """Total size of the tables that a preview changes; None if a table's size is not known."""

    tables: int
    steps: int
    rows: int | None
    size: int | None
    rewritten_rows: int | None
    rewritten_size: int | None
    rewritten_tables: int


def changed_size(preview: Preview, tables: list[TableSteps]) -> ChangedSize:
    """Return the total size of the changed tables, and of the rewritten ones among them."""
    rewritten = [table for table in tables if table.rewritten]
    return ChangedSize(
        tables=len(tables),
        steps=len(preview.document["steps"]),
        rows=_sum(tables, "rows"),
        size=_sum(tables, "bytes"),
        rewritten_rows=_sum(rewritten, "rows"),
        rewritten_size=_sum(rewritten, "bytes"),
        rewritten_tables=len(rewritten),
    )


def _sum(tables: list[TableSteps], what: str) -> int | None:
    """Return the sum of one size, None if it is unknown for a table. Tables still to be created count as 0."""
    sizes = [0 if table.assumes is None else table.size.get(what) for table in tables]
    return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
