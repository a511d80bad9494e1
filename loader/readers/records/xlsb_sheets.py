"""Sheets of binary Excel workbooks (``.xlsb``, MS-XLSB): their bounds, and their cells as they are stored."""

import struct
import zipfile
from collections.abc import Iterator

from loader.readers.records.binary_cells import error_cell, number_cell, rk_number, shows_dates
from loader.readers.records.workbook_cells import FILLED, UNREAD_DATE, SheetsOfCells, Stored
from loader.readers.records.workbook_parts import PartMissing, has_part, part_named, related_parts

_SHEET, _SHEET_DATA, _SHEET_DATA_END, _ROW = 0x9C, 0x91, 0x92, 0x00
_OTHERS = (0x04, 0x06, 0x07, 0x08, 0x0A)  # truth values and texts, of formulas or not
_FORMAT, _STYLE, _CELL_STYLES, _CELL_STYLES_END = 0x2C, 0x2F, 0x269, 0x26A
_DATE_FORMATS = (*range(14, 23), *range(45, 48))  # numbers of formats that each workbook has
_NO_TEXT = 0xFFFFFFFF
_WAITS = 0x02  # of the flags of a formula: it is calculated when the workbook is opened


class XlsbSheets(SheetsOfCells):
    """Sheets of one workbook by name."""

    def __init__(self, packed: zipfile.ZipFile):
        super().__init__()
        self._packed = packed
        targets = related_parts(packed, "xl", "workbook.bin")
        self._paths: dict[str, str] = {}
        for kind, content in self._records(part_named(packed, "xl/workbook.bin")):
            if kind == _SHEET:
                relation, after = _wide_text(content, 8)
                name, _ = _wide_text(content, after)
                self._paths[name] = targets.get(relation, "")
        self._date_styles = self._styles_of_dates()

    def _styles_of_dates(self) -> frozenset[int]:
        """Return the numbers of the cell styles with a format of dates or times."""
        if not has_part(self._packed, "xl/styles.bin"):
            return frozenset()
        formats, styles, is_cells = set(_DATE_FORMATS), [], False
        for kind, content in self._records(part_named(self._packed, "xl/styles.bin")):
            if kind == _FORMAT and shows_dates(_wide_text(content, 2)[0]):
                formats.add(struct.unpack_from("<H", content)[0])
            elif kind in (_CELL_STYLES, _CELL_STYLES_END):
                is_cells = kind == _CELL_STYLES
            elif kind == _STYLE and is_cells:
                styles.append(struct.unpack_from("<H", content, 2)[0])
        return frozenset(number for number, format_number in enumerate(styles) if format_number in formats)

    def _cells(self, sheet: str) -> Iterator[tuple[int, int, Stored]]:
        if not self._paths.get(sheet):
            raise PartMissing(f"it has no part of the sheet {sheet}")
        row, is_data = 0, False
        for kind, content in self._records(part_named(self._packed, self._paths[sheet])):
            if kind == _SHEET_DATA:
                is_data = True
            elif kind == _SHEET_DATA_END:
                return
            elif is_data and kind == _ROW:
                row = struct.unpack_from("<I", content)[0] + 1
            elif is_data and (stored := _stored(kind, content)) is not None:
                if _is_whole_rk(kind, content) and _style(content) in self._date_styles:
                    stored = stored._replace(kind=UNREAD_DATE)
                yield row, struct.unpack_from("<I", content)[0] + 1, stored

    def _records(self, part: str) -> Iterator[tuple[int, bytes]]:
        """Yield kind and content of each record of a part."""
        with self._packed.open(part) as unpacked:
            content = unpacked.read()
        at = 0
        while at < len(content):
            kind, at = _number(content, at, 2)
            size, at = _number(content, at, 4)
            if at + size > len(content):
                raise PartMissing(f"{part} ends within a record")
            yield kind, content[at : at + size]
            at += size


def _is_whole_rk(kind: int, content: bytes) -> bool:
    """Return True for a whole number, whose format the library ignores in this form."""
    return kind == 0x02 and content[8] & 3 == 2


def _style(content: bytes) -> int:
    return int.from_bytes(content[4:7], "little")


def _number(content: bytes, at: int, longest: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the position after it."""
    number = 0
    for place in range(longest):
        byte = content[at + place]
        number |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return number, at + place + 1
    return number, at + longest


def _wide_text(content: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", content, at)
    if length == _NO_TEXT:
        return "", at + 4
    end = at + 4 + 2 * length
    return content[at + 4 : end].decode("utf-16-le"), end


def _stored(kind: int, content: bytes) -> Stored | None:
    match kind:
        case 0x02:  # BrtCellRk
            return number_cell(rk_number(content[8:12]))
        case 0x05:  # BrtCellReal
            return number_cell(struct.unpack_from("<d", content, 8)[0])
        case 0x09:  # BrtFmlaNum
            (flags,) = struct.unpack_from("<H", content, 16)
            return number_cell(struct.unpack_from("<d", content, 8)[0], is_calculated=not flags & _WAITS)
        case 0x03 | 0x0B:  # BrtCellError, BrtFmlaError
            return error_cell(content[8])
    return FILLED if kind in _OTHERS else None
