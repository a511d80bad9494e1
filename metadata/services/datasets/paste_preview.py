"""Preview of a paste from a spreadsheet into a dataset's columns, cell by cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.conf import settings

from elevata.core.errors import MetadataError, as_sentence
from metadata.domain.grid import BY_NAME, cell_text, read_cell
from metadata.domain.naming import check_column_name
from metadata.domain.paste import PastedLine, lay_out, read_block
from metadata.domain.quoted_names import ASK
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.column_grid import described_in_order, values_of
from metadata.services.datasets.column_batches import BatchProblem, ColumnEdit, edit_target_columns

# Defaults of a new column.
_NEW = {"nullable": True, "role": "attribute", "key_ordinal": None, "pii": False, "sensitivity": ""}


@dataclass(frozen=True)
class CellChange:
    """Cell of a line: its current value, its new value, and the reason if it is invalid."""

    name: str
    label: str
    before: str
    after: str
    problem: str = ""


@dataclass(frozen=True)
class LineShown:
    """Line of the text: its column and the changes. ``number`` as in the text."""

    number: int
    name: str
    column: TargetColumn | None
    cells: tuple[CellChange, ...]
    problem: str = ""

    @property
    def refused(self) -> bool:
        return bool(self.problem) or any(cell.problem for cell in self.cells)


@dataclass
class Paste:
    """Pasted block. ``problem`` concerns the block as a whole; ``stale``: a column was changed meanwhile.

    ``asks``: a new name needs quotes, and the user has to accept that (``quoted_name``).
    """

    dataset: TargetDataset
    lines: list[LineShown] = field(default_factory=list)
    edits: list[ColumnEdit] = field(default_factory=list)
    unchanged: int = 0
    problem: str = ""
    stale: bool = False
    quoted_name: bool = False
    asks: bool = False

    @property
    def refused(self) -> int:
        """Return the number of refused cells or whole lines."""
        cells = sum(1 for line in self.lines for cell in line.cells if cell.problem)
        return cells + sum(1 for line in self.lines if line.problem)

    @property
    def versions(self) -> dict[UUID, int]:
        """Return the version of every changed column, by its key."""
        return {edit.column.key: edit.column.version for edit in self.edits if edit.column is not None}

    @property
    def added(self) -> int:
        return sum(1 for line in self.lines if line.column is None)


def prepare(
    dataset: TargetDataset,
    text: str,
    *,
    column: str,
    cell: str,
    seen: Mapping[UUID, int] | None = None,
    quoted_name: bool = False,
) -> Paste:
    """Parse the text, map it to the grid from the ``cell`` of ``column`` (a key), and check it.

    ``seen`` are the versions on the user's page, by key; default: the current ones. ``quoted_name`` accepts new names
    that most engines need quotes for.
    """
    paste = Paste(dataset, quoted_name=quoted_name)
    rows = described_in_order(dataset)
    start = next((place for place, row in enumerate(rows) if str(row.key) == column), 0)
    try:
        lines = lay_out(read_block(text), names=[row.name for row in rows], row=start, cell=cell)
    except MetadataError as problem:
        paste.problem = as_sentence(problem.message)
        return paste
    for line in lines:
        _take(paste, line, None if line.row is None else rows[line.row], seen)
    if paste.edits and not paste.refused:
        apply(paste, check=True)
    return paste


def apply(paste: Paste, *, check: bool = False) -> bool:
    """Apply the prepared changes, or only ``check`` them; return False with the reasons in the lines if refused."""
    try:
        edit_target_columns(dataset=paste.dataset, edits=paste.edits, reason="pasted from a spreadsheet", check=check)
    except BatchProblem as refused:
        paste.stale = refused.stale
        paste.asks = settings.QUOTED_NAMES == ASK and any(entry.code == "quoted_name" for entry in refused.problems)
        _place(paste, refused)
        return False
    except MetadataError as problem:
        paste.problem = as_sentence(problem.one_line())
        return False
    return True


def _take(paste: Paste, line: PastedLine, row: TargetColumn | None, seen: Mapping[UUID, int] | None) -> None:
    """Parse the cells of a line; collect those that differ from the column, and count the others."""
    values = {**_NEW, "type": "", "expression": "", "description": "", "owner": "", "tags": []}
    if row is not None:
        values = values_of(row)
    cells: list[CellChange] = []
    changes: dict[str, Any] = {}
    for name, text in line.cells.items():
        if not text.strip() and not BY_NAME[name].clears:
            continue
        before = cell_text(name, values) if row is not None else ""
        try:
            given = read_cell(name, text)
        except MetadataError as problem:
            message = as_sentence(problem.message)
            cells.append(CellChange(name, BY_NAME[name].label, before, text.strip(), message))
            continue
        after = cell_text(name, values | given)
        if row is None or after != before:
            changes |= given
            if after or before:
                cells.append(CellChange(name, BY_NAME[name].label, before, after))
    if row is not None and not cells:
        paste.unchanged += 1
        return
    paste.lines.append(LineShown(line.number, line.name, row, tuple(cells), _wrong_name(line, row)))
    # Unchanged on the user's page, and different now: another user changed it.
    version = None if row is None else row.version if seen is None else seen.get(row.key, 0)
    paste.edits.append(ColumnEdit(line.name, changes, row, version, paste.quoted_name))


def _wrong_name(line: PastedLine, row: TargetColumn | None) -> str:
    """Return the problem of a new column's name, so that all problems are reported at once."""
    try:
        if row is None:
            check_column_name(line.name)
    except MetadataError as problem:
        return as_sentence(problem.message)
    return ""


def _place(paste: Paste, refused: BatchProblem) -> None:
    """Assign every refusal to its cell, or to the line if it concerns none of its cells."""
    for problem in refused.problems:
        message = as_sentence(problem.message)
        for place, line in enumerate(paste.lines):
            if line.name.lower() == problem.column.lower():
                paste.lines[place] = _with(line, problem.field, message)
                break
        else:
            paste.problem = " ".join(part for part in (paste.problem, _about(problem.column, message)) if part)


def _with(line: LineShown, name: str, problem: str) -> LineShown:
    if not any(cell.name == name for cell in line.cells):
        label = f"{BY_NAME[name].label}: " if name in BY_NAME else ""
        return replace(line, problem=f"{line.problem} {label}{problem}".strip())
    cells: Sequence[CellChange] = [replace(cell, problem=problem) if cell.name == name else cell for cell in line.cells]
    return replace(line, cells=tuple(cells))


def _about(column: str, message: str) -> str:
    return f"{column}: {message}" if column else message
