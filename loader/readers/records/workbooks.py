"""Workbooks (``.xlsx``, ``.xlsm``, ``.xlsb``, ``.xls``, ``.ods``): the rows of one sheet, or of a range in it.

The library reads the values. Before, the bounds of the sheet are checked, since it allocates every cell between the
first and the last filled one; meanwhile each cell is compared with what the file stores (``workbook_cells``).
"""

import io
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Protocol
from xml.parsers import expat

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, PasswordError

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.readers.records.headers import header_names
from loader.readers.records.ods_sheets import OdsSheets
from loader.readers.records.unpacking import UNREADABLE, too_large, unreadable, whole
from loader.readers.records.values import Place, Record, Value
from loader.readers.records.workbook_cells import Bounds, CellFault, Stored, StoredRows, text_of_cell
from loader.readers.records.workbook_parts import EncryptedWorkbook, PartMissing, check_sizes, elements, has_part
from loader.readers.records.xls_sheets import XlsSheets
from loader.readers.records.xlsb_sheets import XlsbSheets
from loader.readers.records.xlsx_sheets import XlsxSheets
from metadata.domain.sources.option_kinds import column_letters, range_of
from metadata.domain.sources.reading_options import ReadingOptions

LIMIT = 64 << 20  # bytes of the file
_MANIFEST = "META-INF/manifest.xml"
MOST_CELLS = 10_000_000
_COMPOUND_FILE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # beginning of .xls, and of workbooks with a password

_BROKEN = (
    *UNREADABLE,
    zipfile.BadZipFile,
    expat.ExpatError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    LookupError,
    struct.error,
)

Cell = Value | CellFault


class Sheets(Protocol):
    """Sheets of one workbook as the file stores them."""

    def bounds(self, sheet: str) -> Bounds | None:
        """Return the bounds of the filled cells of a sheet; None if there are none."""
        ...

    def rows(self, sheet: str) -> StoredRows:
        """Yield number and filled cells, by column from 1, of each row."""
        ...


def read_workbook(
    stored: BinaryIO, shown: str, options: ReadingOptions, wanted: Sequence[str], limit: int | None = None
) -> Iterator[Record]:
    """Yield the rows of a sheet that are not empty, with the sheet's row numbers.

    Raise Refusal UNREADABLE_FILE, PASSWORD, TOO_LARGE, NO_SUCH_SHEET, EMPTY_FILE, DUPLICATE_COLUMN or RAGGED_ROW. A
    cell that cannot be read is one of the record's ``faults``.
    """
    content = whole(stored, shown, limit or LIMIT)
    try:
        sheets = _stored_sheets(content, shown)
        with CalamineWorkbook.from_filelike(io.BytesIO(content)) as workbook:
            name = _sheet_name(workbook, shown, options.sheet)
            bounds, note = sheets.bounds(name), ""
            if bounds is None:
                rows: Iterator[_Row] = iter(())
            elif bounds.cells > MOST_CELLS:
                message = f"the sheet {name} spans {bounds.cells:,} filled cells, more than {MOST_CELLS:,}"
                raise too_large(shown, message, MOST_CELLS)
            else:
                sheet = workbook.get_sheet_by_name(name)
                rows = _rows(sheet, bounds, sheets.rows(name), options.range)
                note = _note_of_merged_cells(sheet, shown, bounds, options)
            for record in _records(rows, shown, options, wanted):
                yield replace(record, note=note) if note else record
                note = ""
    except (PasswordError, EncryptedWorkbook) as error:
        raise _password_refusal(shown) from error
    except CalamineError as error:
        raise unreadable(shown, str(error)) from error
    except _BROKEN as error:
        raise unreadable(shown, f"it is no whole workbook: {error}") from error
    except BaseException as error:
        # The library is written in Rust; its panics are no Exception, and their class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise unreadable(shown, f"it is no whole workbook: {error}") from error


def _note_of_merged_cells(sheet: CalamineSheet, shown: str, bounds: Bounds, options: ReadingOptions) -> str:
    """Return a warning about cells that are merged over several rows that are read; empty if none are.

    The library knows merged cells of ``.xlsx``, ``.xlsm`` and ``.xls``.
    """
    left, top, right, bottom = range_of(options.range or "") or (1, 1, None, None)
    over_rows = []
    for start, end in sheet.merged_cell_ranges or ():
        (first, first_column), (last, last_column) = ((row + 1, column + 1) for row, column in (start, end))
        if last <= first:
            continue
        is_left_or_right = last_column < left or first_column > min(bounds.right, right or bounds.right)
        if not is_left_or_right and last > top and first < min(bounds.bottom, bottom or bounds.bottom):
            over_rows.append(f"{column_letters(first_column)}{first}:{column_letters(last_column)}{last}")
    if not over_rows:
        return ""
    return (
        f"{shown}: {counted(len(over_rows), 'area')} of cells merged over several rows "
        f"({', '.join(over_rows[:3])}): only the first row of each has the value, and the others have none. Undo the "
        "merging and fill each row, if they are to have it."
    )


def _stored_sheets(content: bytes, shown: str) -> Sheets:
    """Return the sheets of a workbook of any kind. Raise Refusal TOO_LARGE or UNREADABLE_FILE."""
    if content.startswith(_COMPOUND_FILE):
        return XlsSheets(content)
    packed = zipfile.ZipFile(io.BytesIO(content))
    check_sizes(packed, shown)
    if has_part(packed, _MANIFEST) and elements(packed, _MANIFEST, "encryption-data"):
        raise EncryptedWorkbook
    if has_part(packed, "content.xml"):
        return OdsSheets(packed)
    return XlsbSheets(packed) if has_part(packed, "xl/workbook.bin") else XlsxSheets(packed)


def _password_refusal(shown: str) -> Refusal:
    return Refusal(
        "PASSWORD",
        f"{shown} is protected with a password, so it cannot be read",
        file=shown,
        hint="Save the workbook without a password and deliver it again.",
    )


def _sheet_name(workbook: CalamineWorkbook, shown: str, name: str | None) -> str:
    names = workbook.sheet_names
    if not names:
        raise unreadable(shown, "the workbook has no sheet")
    if name is not None and name not in names:
        raise Refusal(
            "NO_SUCH_SHEET",
            f"{shown} has no sheet {name}",
            file=shown,
            samples=tuple(names[:5]),
            hint=f"Correct the option sheet. The workbook has {', '.join(names[:5])}.",
        )
    return name or names[0]


class _Steps:
    """Stored rows that are asked for in ascending order."""

    def __init__(self, rows: StoredRows):
        self._rows = rows
        self._next = next(rows, None)

    def row(self, number: int) -> dict[int, Stored]:
        """Return the filled cells of a row. Raise PartMissing for rows out of their order."""
        if self._next is None or self._next[0] > number:
            return {}
        at, cells = self._next
        if at < number:
            raise PartMissing(f"row {at} stands after row {number - 1}")
        self._next = next(self._rows, None)
        return cells


@dataclass(frozen=True)
class _Row:
    """Row of a sheet: its number, the number of its first column, and its cells."""

    number: int
    left: int
    cells: list[Cell]

    @property
    def is_empty(self) -> bool:
        return all(cell is None for cell in self.cells)

    def place(self, position: int) -> str:
        """Return the reference of a cell, like ``B7``."""
        return f"{column_letters(self.left + position)}{self.number}"


def _rows(sheet: CalamineSheet, bounds: Bounds, stored_rows: StoredRows, cell_range: str | None) -> Iterator[_Row]:
    """Yield each row that is not empty, within the range or all filled cells."""
    steps = _Steps(stored_rows)
    read = sheet.iter_rows()
    first = sheet.start[1] if sheet.start is not None else 0
    area = range_of(cell_range) if cell_range else None
    left, top, right, bottom = area or (bounds.left, 1, None, None)
    for number in range(1, bounds.bottom + 1):
        values, stored = next(read, []), steps.row(number)
        if number < top or (bottom is not None and number > bottom):
            continue
        row = _Row(number, left, _cells(values, stored, first, left, min(bounds.right, right or bounds.right)))
        if not row.is_empty:
            yield row


def _cells(values: list[Any], stored: dict[int, Stored], first: int, left: int, right: int) -> list[Cell]:
    """Return the cells of a row from column ``left`` to ``right``; ``values`` begin after ``first`` columns."""
    end = first + len(values)
    return [
        text_of_cell(values[column - first - 1] if first < column <= end else None, stored.get(column))
        for column in range(left, right + 1)
    ]


def _records(rows: Iterator[_Row], shown: str, options: ReadingOptions, wanted: Sequence[str]) -> Iterator[Record]:
    names: tuple[str, ...] = ()
    if options.header:
        names = _header(next(rows, None), shown)
    for row in rows:
        names = names or tuple(wanted) or tuple(f"column_{place}" for place in range(1, len(row.cells) + 1))
        if any(cell is not None for cell in row.cells[len(names) :]):
            raise Place(shown, row.number, "row").refusal(
                "RAGGED_ROW",
                f"a cell beyond the {len(names)} columns",
                "Every column needs a name. The options sheet and range say which cells are read.",
                sample=", ".join(_text(cell) or "" for cell in row.cells),
            )
        cells = dict(zip(names, row.cells, strict=False))
        yield Record(
            row.number,
            {name: _text(cells.get(name)) for name in names},
            _faults(row, cells, shown, options.null_string) if CellFault in map(type, row.cells) else {},
        )


def _header(row: _Row | None, shown: str) -> tuple[str, ...]:
    """Return the names in the first row. Raise Refusal EMPTY_FILE, UNREADABLE_CELL or DUPLICATE_COLUMN."""
    cells = row.cells if row is not None else []
    while cells and cells[-1] is None:
        cells.pop()
    for position, cell in enumerate(cells):
        if row is not None and isinstance(cell, CellFault):
            raise _cell_refusal(shown, row, position, "", cell)
    return header_names(shown, [_text(cell) or "" for cell in cells], row.number if row is not None else 1)


def _text(cell: Cell) -> Value:
    return cell.text if isinstance(cell, CellFault) else cell


def _faults(row: _Row, cells: dict[str, Cell], shown: str, null_text: str | None) -> dict[str, Refusal]:
    """Return the refusal of each cell that cannot be read, unless its text stands for NULL."""
    return {
        name: _cell_refusal(shown, row, position, name, cell)
        for position, (name, cell) in enumerate(cells.items())
        if isinstance(cell, CellFault) and (cell.text != null_text or not null_text)
    }


def _cell_refusal(shown: str, row: _Row, position: int, column: str, fault: CellFault) -> Refusal:
    named = f" ({column})" if column else ""
    return Refusal(
        "UNREADABLE_CELL",
        f"{shown}, cell {row.place(position)}{named}: it {fault.problem}",
        file=shown,
        row=row.number,
        column=column,
        samples=(fault.text[:80],) if fault.text else (),
        hint=fault.hint,
    )
