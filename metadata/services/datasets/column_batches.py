"""Batch edits of a dataset's columns, and paste preview."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from elevata.audit.services.change_log import claim, writing
from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from elevata.core.words import counted
from metadata.domain.grid import BY_NAME, PastedLine, cell_text, lay_out, read_block, read_cell
from metadata.domain.naming import check_column_name
from metadata.domain.quoted_names import ASK
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.columns import described_in_order, values_of
from metadata.services.datasets.inputs import same_named
from metadata.services.datasets.targets import add_column, change_column, check_keys
from metadata.services.models import following
from metadata.services.rows.checks import check_dataset_columns
from metadata.services.rows.quoted_names import refuse_quoted_name
from metadata.services.rows.row_changes import clear_the_way


@dataclass(frozen=True)
class ColumnEdit:
    """Edit of a column. If ``column`` is None, a new column with this ``name``, whose type is in ``changes``.

    ``expected_version`` is the version the user edited; None for a new column. ``quoted_name`` accepts a new name that
    most engines need quotes for.
    """

    name: str
    changes: Mapping[str, Any]
    column: TargetColumn | None = None
    expected_version: int | None = None
    quoted_name: bool = True


@dataclass(frozen=True)
class CellProblem:
    """Error of a cell. ``field`` is empty if it concerns the whole column."""

    column: str
    field: str
    code: str
    message: str


class BatchProblem(MetadataError):
    """Error with all refused cells; no change was written.

    ``stale``: another user changed a column meanwhile.
    """

    def __init__(self, dataset: TargetDataset, problems: Sequence[CellProblem]) -> None:
        many = len(problems)
        super().__init__("bad_cells", f"{counted(many, 'cell')} cannot be taken; nothing was changed", "", str(dataset))
        self.problems = tuple(problems)
        self.stale = any(problem.code == "stale_version" for problem in problems)


def edit_target_columns(
    *, dataset: TargetDataset, edits: Sequence[ColumnEdit], reason: str = "", check: bool = False
) -> list[TargetColumn]:
    """Change and add columns and return them. Raise BatchProblem with all problems.

    With ``check``, the transaction is rolled back: problems are found without writing.
    """
    with writing(reason):
        batch = _Batch(dataset)
        with following([dataset]):
            rows = batch.run(edits)
            if batch.problems:
                raise BatchProblem(dataset, batch.problems)
        if check:
            transaction.set_rollback(True)
    return rows


class _Batch:
    """Batch edit that collects the problems of all edits instead of stopping at the first."""

    def __init__(self, dataset: TargetDataset) -> None:
        self.dataset = TargetDataset.objects.select_related("schema").select_for_update(of=("self",)).get(pk=dataset.pk)
        self.problems: list[CellProblem] = []

    def run(self, edits: Sequence[ColumnEdit]) -> list[TargetColumn]:
        claimed = [self._noted(edit.name, lambda edit=edit: self._claim(edit)) for edit in edits]
        # Two columns may swap positions in the business key, so all positions are cleared first.
        self._noted(
            "",
            lambda: clear_the_way(
                [
                    (row, row.name, edit.changes.get("key_ordinal", row.key_ordinal))
                    for edit, row in zip(edits, claimed, strict=True)
                    if row is not None
                ]
            ),
        )
        rows = [
            self._noted(edit.name, lambda edit=edit, row=row: self._write(edit, row))
            for edit, row in zip(edits, claimed, strict=True)
            if edit.column is None or row is not None
        ]
        if not self.problems:
            self._noted("", lambda: check_dataset_columns(self.dataset))
            self._noted("", lambda: check_keys(self.dataset, {name for edit in edits for name in edit.changes}))
        return [row for row in rows if row is not None]

    def _claim(self, edit: ColumnEdit) -> TargetColumn | None:
        if edit.column is None:
            return None
        if edit.column.dataset_id != self.dataset.pk or not edit.column.active:
            raise MetadataError("invalid", f"is no column in use of {self.dataset}", "", edit.name)
        row = claim(edit.column, edit.expected_version or 0)
        row.dataset = self.dataset
        return row

    def _write(self, edit: ColumnEdit, row: TargetColumn | None) -> TargetColumn:
        changes = dict(edit.changes)
        if row is not None:
            change_column(row, changes)
            return row
        if "type" not in changes:
            raise MetadataError("missing_field", "a new column needs a type", "type", edit.name)
        inputs = None if changes.get("expression") else same_named(self.dataset, edit.name)
        new = add_column(self.dataset, edit.name, changes.pop("type"), changes, inputs=inputs)
        refuse_quoted_name(new, accepted=edit.quoted_name)
        return new

    def _noted(self, name: str, work: Any) -> Any:
        try:
            return work()
        except StaleVersion as problem:
            message = "was changed by another user"
            self.problems.append(CellProblem(name, "", problem.code, message))
        except MetadataError as problem:
            self.problems.append(self._placed(name, problem))
        return None

    def _placed(self, name: str, problem: MetadataError) -> CellProblem:
        """Return a problem of the dataset as a problem of the column that it names."""
        prefix = f"{self.dataset}."
        column = name or (problem.where.removeprefix(prefix) if problem.where.startswith(prefix) else "")
        field = "role" if problem.field == "key_ordinal" else problem.field
        return CellProblem(column, field, problem.code, problem.message)


# Preview of a paste from a spreadsheet into a dataset's columns, cell by cell.


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
