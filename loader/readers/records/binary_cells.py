"""Values that the binary workbook formats (``.xls``, ``.xlsb``) store in the same way."""

import re
import struct

from loader.readers.records.workbook_cells import ERROR, NUMBER, UNCALCULATED, Stored

_NO_CODES = re.compile(r'"[^"]*"|\[(?!h+\]|m+\]|s+\])[^\]]*\]|[\\_*].', re.IGNORECASE)
_ERRORS = {
    0x00: "#NULL!",
    0x07: "#DIV/0!",
    0x0F: "#VALUE!",
    0x17: "#REF!",
    0x1D: "#NAME?",
    0x24: "#NUM!",
    0x2A: "#N/A",
    0x2B: "#GETTING_DATA",
}


def error_cell(code: int) -> Stored:
    """Return the cell of an error code."""
    return Stored(ERROR, _ERRORS.get(code, f"number {code}"))


def number_cell(value: float, *, is_calculated: bool = True) -> Stored:
    """Return the cell of a number; a formula that waits for its calculation stores 0."""
    return Stored(NUMBER, repr(value)) if is_calculated or value else Stored(UNCALCULATED)


def rk_number(packed: bytes) -> float:
    """Return the number of four bytes: a whole number or the upper half of a float, divided by 100 or not."""
    (bits,) = struct.unpack("<I", packed)
    if bits & 2:
        (value,) = struct.unpack("<i", packed)
        number = float(value >> 2)
    else:
        (number,) = struct.unpack("<d", b"\0\0\0\0" + struct.pack("<I", bits & 0xFFFFFFFC))
    return number / 100 if bits & 1 else number


def shows_dates(number_format: str) -> bool:
    """Return True for a format with days, months, years, hours or seconds outside of quotes, colours and escapes."""
    return bool(re.search("[dmyhs]", _NO_CODES.sub("", number_format.partition(";")[0]).lower()))
