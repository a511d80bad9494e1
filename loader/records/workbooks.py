"""Excel workbooks (``.xlsx``): the rows of one sheet, or of a range in it.

A workbook is a zip archive of XML files. The reader unpacks them into memory and allocates every cell between the first
and the last one, so the sizes of the parts and the extents of the sheets are checked first. Sheets are the parts that
the workbook lists, wherever they are; a cell or row without a reference follows the one before it.
"""

import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, BinaryIO
from xml.parsers import expat

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook

from loader.domain.refusals import Refusal
from loader.records.content import UNREADABLE, too_large, unreadable, whole
from loader.records.headers import header_names
from loader.records.values import Place, Record, Value, local_name
from metadata.domain.sources.option_kinds import column_number, range_of
from metadata.domain.sources.reading_options import ReadingOptions

LIMIT = 64 << 20  # bytes of the file
LARGEST_CONTENT = 512 << 20  # bytes of all its parts, unpacked
LARGEST_RATIO = 250  # unpacked to packed size of a part
_RATIO_FROM = 16 << 20  # bytes; the ratio of smaller parts is not checked
MOST_CELLS = 10_000_000
_CHUNK = 1 << 20
_WORKBOOK, _RELATIONS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_CELL = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")


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
                _read_part(packed, part)
            for name in _sheet_names(packed):
                _check_extent(packed, name, shown)
    except (*UNREADABLE, zipfile.BadZipFile, expat.ExpatError, NotImplementedError, RuntimeError) as error:
        raise unreadable(shown, f"it is no whole workbook: {error}") from error


def _read_part(packed: zipfile.ZipFile, part: zipfile.ZipInfo) -> None:
    """Unpack a part without keeping it, so that a false size or checksum is found."""
    with packed.open(part) as unpacked:
        while unpacked.read(_CHUNK):
            pass


def _sheet_names(packed: zipfile.ZipFile) -> list[str]:
    """Return the names of the parts that the workbook lists as sheets."""
    parts = {name.lower(): name for name in packed.namelist()}
    if _WORKBOOK not in parts or _RELATIONS not in parts:
        return []
    ids: set[str] = set()
    targets: dict[str, str] = {}

    def sheet(name: str, attributes: dict[str, str]) -> None:
        if local_name(name) == "sheet":
            ids.update(value for key, value in attributes.items() if local_name(key) == "id")

    def relation(name: str, attributes: dict[str, str]) -> None:
        if local_name(name) == "Relationship" and "Target" in attributes:
            targets[attributes.get("Id", "")] = attributes["Target"]

    _parse(packed, parts[_WORKBOOK], sheet)
    _parse(packed, parts[_RELATIONS], relation)
    listed = [targets[sheet_id].lower() for sheet_id in ids & set(targets)]
    # A path is relative to the workbook's folder; the reader also takes one from the archive's root.
    paths = {posixpath.normpath(posixpath.join(folder, path)).lstrip("/") for path in listed for folder in ("/xl", "/")}
    return [parts[path] for path in sorted(paths) if path in parts]


def _check_extent(packed: zipfile.ZipFile, name: str, shown: str) -> None:
    """Raise Refusal TOO_LARGE for a sheet that spans more cells than ``MOST_CELLS``."""
    row = column = 0
    low, high = [1 << 20, 1 << 14], [0, 0]

    def cell(element: str, attributes: dict[str, str]) -> None:
        nonlocal row, column
        kind = local_name(element)
        if kind == "row":
            number = attributes.get("r", "")
            row, column = int(number) if number.isdecimal() else row + 1, 0
        elif kind == "c":
            reference = _CELL.fullmatch(attributes.get("r", ""))
            column = column_number(reference[1]) if reference else column + 1
            row = int(reference[2]) if reference else row
            low[:] = min(low[0], row), min(low[1], column)
            high[:] = max(high[0], row), max(high[1], column)

    _parse(packed, name, cell)
    cells = max(0, high[0] - low[0] + 1) * max(0, high[1] - low[1] + 1)
    if cells > MOST_CELLS:
        raise too_large(shown, f"{name} spans {cells:,} cells, more than {MOST_CELLS:,}", MOST_CELLS)


def _parse(packed: zipfile.ZipFile, name: str, element: Callable[[str, dict[str, str]], None]) -> None:
    """Call ``element`` with the name and attributes of each element of a part. Raise ExpatError for broken XML."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = element
    with packed.open(name) as unpacked:
        parser.ParseFile(unpacked)


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
