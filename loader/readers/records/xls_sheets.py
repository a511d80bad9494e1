"""Sheets of old Excel workbooks (``.xls``, MS-XLS): their bounds, and their cells as they are stored.

Such a file is a compound file (``compound_files``), whose stream ``Workbook`` has records.
"""

import codecs
import struct
from collections.abc import Iterator
from typing import NamedTuple

from loader.readers.records.binary_cells import error_cell, number_cell, rk_number, shows_dates
from loader.readers.records.compound_files import workbook_stream
from loader.readers.records.workbook_cells import FILLED, NO_DATE, NUMBER, TEXT, UNREAD_DATE, SheetsOfCells, Stored
from loader.readers.records.workbook_parts import EncryptedWorkbook, PartMissing

_BOF, _EOF, _SHEET, _PASSWORD, _CODE_PAGE = 0x809, 0x0A, 0x85, 0x2F, 0x42
_FORMAT, _STYLE, _RESULT_TEXT = 0x41E, 0xE0, 0x207
_CONTINUE = b"\x3c\x00"
_FORMULAS = (0x06, 0x206, 0x406)  # The last two are of older versions; some programs write them.
_CELLS = (*_FORMULAS, 0x203, 0x205, 0x27E, 0xBD, 0xFD, 0x204, 0xD6)
_WAITS = 0x01  # of the flags of a formula: it is calculated when the workbook is opened
_VERSION_8 = 0x600
_FREE_FORMATS = 164  # The library ignores what a workbook declares for formats of smaller numbers.


class _Record(NamedTuple):
    """Record of a stream, and the contents of the records that continue it."""

    kind: int
    content: bytes
    continued: tuple[bytes, ...]


class XlsSheets(SheetsOfCells):
    """Sheets of one workbook by name. Raise EncryptedWorkbook or PartMissing."""

    def __init__(self, content: bytes):
        super().__init__()
        self._stream = workbook_stream(content)
        self._starts: dict[str, int] = {}
        self._version, self._encoding = 0, "cp1252"
        formats: dict[int, bool] = {}
        styles: list[int] = []
        for kind, record, _ in self._records(0):
            if kind == _BOF and not self._version:
                (self._version,) = struct.unpack_from("<H", record)
            elif kind == _PASSWORD and record[:2] != b"\0\0":
                raise EncryptedWorkbook
            elif kind == _CODE_PAGE:
                self._encoding = _encoding(struct.unpack_from("<H", record)[0])
            elif kind == _FORMAT:
                formats[struct.unpack_from("<H", record)[0]] = shows_dates(self._format(record))
            elif kind == _STYLE:
                styles.append(struct.unpack_from("<H", record, 2)[0])
            elif kind == _SHEET:
                self._starts[self._sheet_name(record)] = struct.unpack_from("<I", record)[0]
            elif kind == _EOF:
                break
        # Cell styles with a declared format that the library ignores, and whether it shows dates.
        self._shows_dates = {
            style: formats[number]
            for style, number in enumerate(styles)
            if number in formats and number < _FREE_FORMATS
        }

    def _format(self, record: bytes) -> str:
        if self._version < _VERSION_8:
            return record[3:].decode(self._encoding, errors="replace")
        return _decoded(record[5:], is_wide=record[4] & 1)

    def _sheet_name(self, record: bytes) -> str:
        length = record[6]
        if self._version < _VERSION_8:
            return record[7 : 7 + length].decode(self._encoding, errors="replace")
        is_wide = record[7] & 1
        return _decoded(record[8 : 8 + length * (2 if is_wide else 1)], is_wide=is_wide)

    def _cells(self, sheet: str) -> Iterator[tuple[int, int, Stored]]:
        if sheet not in self._starts:
            raise PartMissing(f"it has no part of the sheet {sheet}")
        depth = 0  # Charts within a sheet have a beginning and an end of their own.
        formula = (0, 0)  # place of the formula before
        for kind, record, continued in self._records(self._starts[sheet]):
            if kind == _BOF:
                depth += 1
            elif kind == _EOF:
                depth -= 1
                if not depth:
                    return
            elif depth == 1 and kind == _RESULT_TEXT and continued:
                # The library ends the text of a formula where its first record ends.
                yield *formula, Stored(TEXT, self._result_text(record, continued))
            elif depth == 1 and kind in _CELLS:
                formula = _place(record)
                yield from self._stored(kind, record)
        raise PartMissing(f"the sheet {sheet} does not end")

    def _stored(self, kind: int, record: bytes) -> Iterator[tuple[int, int, Stored]]:
        """Yield row, column and content of each cell of a record."""
        row, column = _place(record)
        if kind == 0xBD:  # MulRk
            for place in range((len(record) - 6) // 6):
                number = number_cell(rk_number(record[6 + 6 * place : 10 + 6 * place]))
                yield row, column + place, self._by_format(record, 4 + 6 * place, number)
        else:
            yield row, column, self._by_format(record, 4, _one_cell(kind, record))

    def _by_format(self, record: bytes, at: int, cell: Stored) -> Stored:
        """Return the cell as its format shows it. ``at``: position of its style."""
        if cell.kind == NUMBER and self._shows_dates:
            is_date = self._shows_dates.get(struct.unpack_from("<H", record, at)[0])
            if is_date is not None:
                return cell._replace(kind=UNREAD_DATE if is_date else NO_DATE)
        return cell

    def _result_text(self, record: bytes, continued: tuple[bytes, ...]) -> str:
        """Return the text of a formula: its length, then, since version 8, flags before the characters of each part."""
        if self._version < _VERSION_8:
            return b"".join([record[2:], *continued]).decode(self._encoding, errors="replace")
        parts = (record[2:], *continued)
        return "".join(_decoded(part[1:], is_wide=part[0] & 1) for part in parts if part)

    def _records(self, at: int) -> Iterator[_Record]:
        """Yield the records from a position on."""
        while at + 4 <= len(self._stream):
            kind, content, at = self._record(at)
            continued: list[bytes] = []
            while self._stream[at : at + 2] == _CONTINUE:
                _, part, at = self._record(at)
                continued.append(part)
            yield _Record(kind, content, tuple(continued))

    def _record(self, at: int) -> tuple[int, bytes, int]:
        kind, size = struct.unpack_from("<HH", self._stream, at)
        return kind, self._stream[at + 4 : at + 4 + size], at + 4 + size


def _encoding(code_page: int) -> str:
    name = {10000: "mac_roman", 32768: "mac_roman", 32769: "cp1252"}.get(code_page, f"cp{code_page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _decoded(characters: bytes, *, is_wide: int) -> str:
    return characters.decode("utf-16-le" if is_wide else "latin-1")


def _place(record: bytes) -> tuple[int, int]:
    """Return row and column from 1."""
    row, column = struct.unpack_from("<HH", record)
    return row + 1, column + 1


def _one_cell(kind: int, record: bytes) -> Stored:
    match kind:
        case 0x203:  # Number
            return number_cell(struct.unpack_from("<d", record, 6)[0])
        case 0x27E:  # RK
            return number_cell(rk_number(record[6:10]))
        case 0x205:  # BoolErr
            return error_cell(record[6]) if record[7] else FILLED
    return _formula(record) if kind in _FORMULAS else FILLED  # LabelSst, Label, RString


def _formula(record: bytes) -> Stored:
    if record[12:14] != b"\xff\xff":
        (flags,) = struct.unpack_from("<H", record, 14)
        return number_cell(struct.unpack_from("<d", record, 6)[0], is_calculated=not flags & _WAITS)
    return error_cell(record[8]) if record[6] == 2 else FILLED
