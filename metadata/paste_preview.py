"""Preview of a paste from a spreadsheet into a dataset's columns, cell by cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from elevata.core.errors import MetadataError, as_sentence
from metadata.domain.cells import BY_NAME, cell_text, read_cell
from metadata.domain.clipboard import PastedLine, lay_out, read_block
from metadata.domain.naming import check_column_name
from metadata.grid import described_in_order, values_of
from metadata.models import TargetColumn, TargetDataset
from metadata.services.column_batches import BatchProblem, ColumnEdit, edit_target_columns

# What a new column is where its line does not say it.
_NEW = {"nullable": True, "role": "attribute", "key_ordinal": None, "pii": False, "sensitivity": ""}


@dataclass(frozen=True)
class CellChange:
    """One cell of a line: what stands there, what is to, and why it cannot."""

    name: str
    label: str
    before: str
    after: str
    problem: str = ""


@dataclass(frozen=True)
class LineShown:
    """One line of the text: the column it is about and what would become of it. ``number`` as in the text."""

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
    """All of it. ``problem`` is about the block as a whole; ``stale``: somebody changed a column meanwhile."""

    dataset: TargetDataset
    lines: list[LineShown] = field(default_factory=list)
    edits: list[ColumnEdit] = field(default_factory=list)
    unchanged: int = 0
    problem: str = ""
    stale: bool = False

    @property
    def refused(self) -> int:
        """Number of cells, or whole lines, that are refused."""
        cells = sum(1 for line in self.lines for cell in line.cells if cell.problem)
        return cells + sum(1 for line in self.lines if line.problem)

    @property
    def versions(self) -> dict[str, int]:
        """The version of every column that is to be changed, by its key."""
        return {str(edit.column.key): edit.column.version for edit in self.edits if edit.column is not None}

    @property
    def added(self) -> int:
        return sum(1 for line in self.lines if line.column is None)


def prepare(
    dataset: TargetDataset, text: str, *, column: str, cell: str, seen: Mapping[str, int] | None = None
) -> Paste:
    """Read the text, lay it over the grid from the ``cell`` of ``column`` (a key), and have it checked.

    ``seen`` are the versions that somebody looked at, by key; left out, what is there now counts.
    """
    paste = Paste(dataset)
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
    """Do what was prepared, or only ``check`` it; False with the reasons in the lines if it is refused."""
    try:
        edit_target_columns(dataset=paste.dataset, edits=paste.edits, reason="pasted from a spreadsheet", check=check)
    except BatchProblem as refused:
        paste.stale = refused.stale
        _place(paste, refused)
        return False
    except MetadataError as problem:
        paste.problem = as_sentence(problem.one_line())
        return False
    return True


def _take(paste: Paste, line: PastedLine, row: TargetColumn | None, seen: Mapping[str, int] | None) -> None:
    """One line: its cells read, what differs kept, the rest counted."""
    values = {**_NEW, "type": "", "expression": "", "description": "", "owner": "", "tags": []}
    if row is not None:
        values = values_of(row)
    cells, changes = [], {}
    for name, text in line.cells.items():
        if not text.strip() and not BY_NAME[name].clears:
            continue
        before = cell_text(name, values) if row is not None else ""
        try:
            given = read_cell(name, text)
        except MetadataError as problem:
            said = as_sentence(problem.message)
            cells.append(CellChange(name, BY_NAME[name].label, before, text.strip(), said))
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
    # What did not differ when somebody looked, and does now, was changed by another.
    version = None if row is None else row.version if seen is None else seen.get(str(row.key), 0)
    paste.edits.append(ColumnEdit(line.name, changes, row, version))


def _wrong_name(line: PastedLine, row: TargetColumn | None) -> str:
    """A new column's name is looked at with the others, so that all is said at once."""
    try:
        if row is None:
            check_column_name(line.name)
    except MetadataError as problem:
        return as_sentence(problem.message)
    return ""


def _place(paste: Paste, refused: BatchProblem) -> None:
    """Put every refusal by its cell; what is about no cell of its line stands by the line."""
    for problem in refused.problems:
        said = as_sentence(problem.message)
        for place, line in enumerate(paste.lines):
            if line.name.lower() == problem.column.lower():
                paste.lines[place] = _with(line, problem.field, said)
                break
        else:
            paste.problem = " ".join(part for part in (paste.problem, _about(problem.column, said)) if part)


def _with(line: LineShown, name: str, said: str) -> LineShown:
    if not any(cell.name == name for cell in line.cells):
        label = f"{BY_NAME[name].label}: " if name in BY_NAME else ""
        return replace(line, problem=f"{line.problem} {label}{said}".strip())
    cells: Sequence[CellChange] = [replace(cell, problem=said) if cell.name == name else cell for cell in line.cells]
    return replace(line, cells=tuple(cells))


def _about(column: str, said: str) -> str:
    return f"{column}: {said}" if column else said
