"""Excel workbooks (``.xlsx``): the rows of one sheet, or of a range in it.

A workbook is a zip archive of XML files. The reader unpacks them into memory and allocates every cell between the first
and the last one, so the sizes of the parts and the extents of the sheets are checked first.
"""

import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook

from loader.domain.refusals import Refusal
from loader.records.content import UNREADABLE, too_large, unreadable, whole
from loader.records.values import Place, Record, Value, header_names
from metadata.domain.source_formats import ReadingOptions, range_of

LIMIT = 64 << 20  # bytes of the file
LARGEST_CONTENT = 512 << 20  # bytes of all its parts, unpacked
LARGEST_RATIO = 250  # unpacked to packed size of a part
_RATIO_FROM = 16 << 20  # bytes; the ratio of smaller parts is not checked
MOST_CELLS = 10_000_000
_CHUNK = 1 << 20
# Reference of a cell in a sheet's XML, like r="B3".
_CELL = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]{1,3})([0-9]{1,7})["']""")
_OVERLAP = 64  # bytes; longer than a reference


def read_workbook(stored: BinaryIO, shown: str, options: ReadingOptions, wanted: Sequence[str]) -> Iterator[Record]:
    """Yield the rows of a sheet that are not empty, with the sheet's row numbers.

    Raise Refusal UNREADABLE_FILE, TOO_LARGE, NO_SUCH_SHEET, EMPTY_FILE, DUPLICATE_COLUMN or RAGGED_ROW.
    """
    content = whole(stored, shown, LIMIT)
    _check_sizes(content, shown)
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(content)) as workbook:
            rows = _rows(_sheet(workbook, shown, options.sheet), options.range)
            yield from _records(rows, shown, options, wanted)
    except CalamineError as error:
        raise unreadable(shown, str(error)) from error


def _check_sizes(content: bytes, shown: str) -> None:
    """Raise Refusal TOO_LARGE for a workbook that would need too much memory, UNREADABLE_FILE for one that is broken.

    Every part is unpacked in pieces, since declared sizes and checksums may be false.
    """
    total = 0
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for part in packed.infolist():
                total += part.file_size
                if total > LARGEST_CONTENT:
                    raise too_large(shown, f"its parts are more than {LARGEST_CONTENT >> 20} MB", LARGEST_CONTENT)
                if part.file_size > max(_RATIO_FROM, LARGEST_RATIO * part.compress_size):
                    message = f"{part.filename} is packed to less than 1/{LARGEST_RATIO} of its size"
                    raise too_large(shown, message, LARGEST_RATIO)
                _check_part(packed, part, shown)
    except (*UNREADABLE, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise unreadable(shown, f"it is no whole workbook: {error}") from error


def _check_part(packed: zipfile.ZipFile, part: zipfile.ZipInfo, shown: str) -> None:
    is_sheet = part.filename.lower().startswith("xl/worksheets/")
    low, high, rest = [1 << 14, 1 << 20], [0, 0], b""
    with packed.open(part) as unpacked:
        while piece := unpacked.read(_CHUNK):
            if not is_sheet:
                continue
            for letters, digits in set(_CELL.findall(rest + piece)):
                place = (_column_number(letters.decode()), int(digits))
                low = [min(pair) for pair in zip(low, place, strict=True)]
                high = [max(pair) for pair in zip(high, place, strict=True)]
            rest = piece[-_OVERLAP:]
    cells = max(0, high[0] - low[0] + 1) * max(0, high[1] - low[1] + 1)
    if cells > MOST_CELLS:
        raise too_large(shown, f"{part.filename} spans {cells:,} cells, more than {MOST_CELLS:,}", MOST_CELLS)


def _column_number(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def _sheet(workbook: CalamineWorkbook, shown: str, name: str | None) -> CalamineSheet:
    names = workbook.sheet_names
    if name is not None and name not in names:
        raise Refusal(
            "NO_SUCH_SHEET",
            f"{shown} has no sheet {name}",
            file=shown,
            samples=tuple(names[:5]),
            hint=f"Correct the option sheet. The workbook has {', '.join(names[:5])}.",
        )
    return workbook.get_sheet_by_name(name) if name else workbook.get_sheet_by_index(0)


def _rows(sheet: CalamineSheet, cell_range: str | None) -> Iterator[tuple[int, list[Value]]]:
    """Yield number and values of each row that is not empty, within the range or all used cells."""
    if sheet.start is None:
        return
    left, top, right, bottom = range_of(cell_range) if cell_range else (sheet.start[1] + 1, 1, None, None)
    offset = sheet.start[1]
    for number, row in enumerate(sheet.iter_rows(), start=1):
        if number < top or (bottom is not None and number > bottom):
            continue
        cells = [""] * offset + row if cell_range else row
        values = [_text(cell) for cell in (cells[left - 1 : right] if cell_range else cells)]
        if any(value is not None for value in values):
            yield number, values


def _records(
    rows: Iterator[tuple[int, list[Value]]], shown: str, options: ReadingOptions, wanted: Sequence[str]
) -> Iterator[Record]:
    names: tuple[str, ...] = ()
    if options.header:
        row, header = next(rows, (1, []))
        while header and header[-1] is None:
            header.pop()
        names = header_names(shown, [name or "" for name in header], row)
    for number, values in rows:
        names = names or tuple(wanted) or tuple(f"column_{place}" for place in range(1, len(values) + 1))
        if any(value is not None for value in values[len(names) :]):
            raise Place(shown, number, "row").refusal(
                "RAGGED_ROW",
                f"a cell beyond the {len(names)} columns",
                "Every column needs a name. The options sheet and range say which cells are read.",
                sample=", ".join(value or "" for value in values),
            )
        yield Record(number, {name: values[place] if place < len(values) else None for place, name in enumerate(names)})


def _text(cell: Any) -> Value:
    """Return a cell as text: numbers with Excel's fifteen digits, dates and times in ISO 8601; None if empty."""
    match cell:
        case "" | None:
            return None
        case bool():
            return "true" if cell else "false"
        case float() | int():
            return f"{cell:.0f}" if cell == int(cell) and abs(cell) < 1e15 else f"{cell:.15g}"
        case datetime():
            return cell.date().isoformat() if cell.time() == time() else cell.isoformat(sep=" ")
        case date() | time():
            return cell.isoformat()
        case timedelta():
            return (datetime.min + cell).time().isoformat() if timedelta() <= cell < timedelta(days=1) else str(cell)
    return str(cell)
