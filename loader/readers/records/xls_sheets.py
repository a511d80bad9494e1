"""Sheets of old Excel workbooks (``.xls``, MS-XLS): their bounds, and their cells as they are stored.

Such a file is a compound file (``compound_files``), whose stream ``Workbook`` has records.
"""

import codecs
import struct
from collections.abc import Iterator

from loader.readers.records.binary_cells import error_cell, number_cell, rk_number
from loader.readers.records.compound_files import workbook_stream
from loader.readers.records.workbook_cells import FILLED, SheetsOfCells, Stored
from loader.readers.records.workbook_parts import EncryptedWorkbook, PartMissing

_BOF, _EOF, _SHEET, _PASSWORD, _CODE_PAGE = 0x809, 0x0A, 0x85, 0x2F, 0x42
_CELLS = (0x06, 0x203, 0x205, 0x27E, 0xBD, 0xFD, 0x204, 0xD6)
_WAITS = 0x01  # of the flags of a formula: it is calculated when the workbook is opened
_VERSION_8 = 0x600


class XlsSheets(SheetsOfCells):
    """Sheets of one workbook by name. Raise EncryptedWorkbook or PartMissing."""

    def __init__(self, content: bytes):
        self._stream = workbook_stream(content)
        self._starts: dict[str, int] = {}
        version, encoding = 0, "cp1252"
        for kind, record in self._records(0):
            if kind == _BOF and not version:
                (version,) = struct.unpack_from("<H", record)
            elif kind == _PASSWORD and record[:2] != b"\0\0":
                raise EncryptedWorkbook
            elif kind == _CODE_PAGE:
                encoding = _encoding(struct.unpack_from("<H", record)[0])
            elif kind == _SHEET:
                self._starts[_sheet_name(record, version, encoding)] = struct.unpack_from("<I", record)[0]
            elif kind == _EOF:
                return

    def _cells(self, sheet: str) -> Iterator[tuple[int, int, Stored]]:
        if sheet not in self._starts:
            raise PartMissing(f"it has no part of the sheet {sheet}")
        depth = 0  # Charts within a sheet have a beginning and an end of their own.
        for kind, record in self._records(self._starts[sheet]):
            if kind == _BOF:
                depth += 1
            elif kind == _EOF:
                depth -= 1
                if not depth:
                    return
            elif depth == 1:
                yield from _stored(kind, record)
        raise PartMissing(f"the sheet {sheet} does not end")

    def _records(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Yield kind and content of each record from a position on."""
        while at + 4 <= len(self._stream):
            kind, size = struct.unpack_from("<HH", self._stream, at)
            yield kind, self._stream[at + 4 : at + 4 + size]
            at += 4 + size


def _encoding(code_page: int) -> str:
    name = {10000: "mac_roman", 32768: "mac_roman", 32769: "cp1252"}.get(code_page, f"cp{code_page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _sheet_name(record: bytes, version: int, encoding: str) -> str:
    length = record[6]
    if version < _VERSION_8:
        return record[7 : 7 + length].decode(encoding, errors="replace")
    is_wide = record[7] & 1
    name = record[8 : 8 + length * (2 if is_wide else 1)]
    return name.decode("utf-16-le" if is_wide else "latin-1")


def _stored(kind: int, record: bytes) -> Iterator[tuple[int, int, Stored]]:
    """Yield row, column and content of each cell of a record."""
    if kind not in _CELLS:
        return
    row, column = (number + 1 for number in struct.unpack_from("<HH", record))
    match kind:
        case 0x203:  # Number
            yield row, column, number_cell(struct.unpack_from("<d", record, 6)[0])
        case 0x27E:  # RK
            yield row, column, number_cell(rk_number(record[6:10]))
        case 0xBD:  # MulRk
            for place in range((len(record) - 6) // 6):
                yield row, column + place, number_cell(rk_number(record[6 + 6 * place : 10 + 6 * place]))
        case 0x205:  # BoolErr
            yield row, column, error_cell(record[6]) if record[7] else FILLED
        case 0x06:  # Formula
            yield row, column, _formula(record)
        case 0xFD | 0x204 | 0xD6:  # LabelSst, Label, RString
            yield row, column, FILLED


def _formula(record: bytes) -> Stored:
    if record[12:14] != b"\xff\xff":
        (flags,) = struct.unpack_from("<H", record, 14)
        return number_cell(struct.unpack_from("<d", record, 6)[0], is_calculated=not flags & _WAITS)
    return error_cell(record[8]) if record[6] == 2 else FILLED
