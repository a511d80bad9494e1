"""Small workbooks of the other formats: ``.xls`` and ``.xlsb`` record by record, ``.ods`` as XML.

A cell is a text, a number, a truth value, a ``date``, an ``Error``, a ``Formula`` or None.
"""

import datetime as dt
import io
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from xml.sax.saxutils import escape, quoteattr

Rows = Sequence[Sequence[Any]]
CODES = {"#NULL!": 0x00, "#DIV/0!": 0x07, "#VALUE!": 0x0F, "#REF!": 0x17, "#NAME?": 0x1D, "#NUM!": 0x24, "#N/A": 0x2A}


@dataclass(frozen=True)
class Error:
    """Error value, of a formula or not."""

    name: str
    of_formula: bool = False


@dataclass(frozen=True)
class Formula:
    """Formula whose result is stored, or is still to be calculated."""

    result: float = 0.0
    is_calculated: bool = True


def days_of(day: dt.date) -> float:
    return float((day - dt.date(1899, 12, 30)).days)


def cells_of(rows: Rows) -> Iterator[tuple[int, int, Any]]:
    """Yield row and column from 0, and value, of each cell."""
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            if value is not None:
                yield row, column, value


# .xls


def xls(
    rows: Rows,
    *records: tuple[int, bytes],
    is_protected: bool = False,
    formats: Mapping[int, str] = MappingProxyType({}),
    version: int = 0x600,
    code_page: int = 1200,
) -> bytes:
    """Return an Excel workbook with the sheet ``Data``: the rows, then the records (kind, content).

    ``formats`` are declared by number. Cell style 0 has no format, style 1 is a date, the others have these formats.
    """
    declared = [
        _record(0x41E, struct.pack("<HHB", number, len(code), 0) + code.encode()) for number, code in formats.items()
    ]
    styles = [_record(0xE0, struct.pack("<HH16x", 0, number)) for number in (0, 14, *formats)]
    protection = [_record(0x2F, struct.pack("<HHH", 1, 1, 1))] if is_protected else []
    before = [_beginning(version, 0x05), *protection, _record(0x42, struct.pack("<H", code_page)), *declared, *styles]
    name = b"Data" if version < 0x600 else b"\0Data"
    size = len(b"".join(before)) + 4 + 7 + len(name) + 4
    listed = _record(0x85, struct.pack("<IHB", size, 0, 4) + name)
    cells = [*(_xls_cell(*cell) for cell in cells_of(rows)), *(_record(*each) for each in records)]
    sheet = [_beginning(version, 0x10), *cells, _record(0x0A)]
    stream = "Workbook" if version == 0x600 else "Book"
    return compound_file(stream, b"".join([*before, listed, _record(0x0A), *sheet]))


def _beginning(version: int, content: int) -> bytes:
    return _record(0x809, struct.pack("<HHHII", version, content, 0, 0, 0) + b"\0\0")


def _record(kind: int, content: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(content)) + content


def _xls_cell(row: int, column: int, value: Any) -> bytes:
    place = struct.pack("<HHH", row, column, 1 if isinstance(value, dt.date) else 0)
    match value:
        case bool():
            return _record(0x205, place + bytes([value, 0]))
        case int():
            return _record(0x27E, place + struct.pack("<i", value << 2 | 2))
        case float():
            return _record(0x203, place + struct.pack("<d", value))
        case dt.date():
            return _record(0x203, place + struct.pack("<d", days_of(value)))
        case Error(name, True):
            result = bytes([2, 0, CODES[name], 0, 0, 0, 0xFF, 0xFF])
            return _record(0x06, place + result + struct.pack("<HIH", 0, 0, 0))
        case Error(name):
            return _record(0x205, place + bytes([CODES[name], 1]))
        case Formula(result, is_calculated):
            flags = 0 if is_calculated else 3
            return _record(0x06, place + struct.pack("<dHIH", result, flags, 0, 0))
    return _record(0x204, place + struct.pack("<HB", len(value), 1) + value.encode("utf-16-le"))


def compound_file(name: str, stream: bytes) -> bytes:
    """Return a compound file with one stream."""
    stream = stream.ljust(4096, b"\0")
    sectors = -(-len(stream) // 512)
    free, end, table = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, end, 0, end, 0) + struct.pack("<109I", 0, *[free] * 108)
    chain = [table, end, *range(3, 2 + sectors), end]
    root = _directory_entry("Root Entry", 5, 1, end, 0)
    entry = _directory_entry(name, 2, free, 2, len(stream))
    directory = (root + entry).ljust(512, b"\0")
    return header + struct.pack("<128I", *chain, *[free] * (128 - len(chain))) + directory + stream.ljust(sectors * 512)


def _directory_entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
    encoded = (name + "\0").encode("utf-16-le")
    free = 0xFFFFFFFF
    links = struct.pack("<HBBIII", len(encoded), kind, 1, free, free, child)
    return encoded.ljust(64, b"\0") + links + bytes(36) + struct.pack("<III", start, size, 0)


# .xlsb


def xlsb(rows: Rows) -> bytes:
    """Return a binary workbook with the sheet ``Data``."""
    content = io.BytesIO()
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{relation}" Target="worksheets/sheet1.bin"/></Relationships>'
    )
    listed = struct.pack("<II", 0, 1) + _wide("rId1") + _wide("Data")
    formats = struct.pack("<I", 2), *(struct.pack("<HH12x", 0, number) for number in (0, 14))
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("[Content_Types].xml", "<Types/>")
        packed.writestr("_rels/.rels", "<Relationships/>")
        packed.writestr("xl/_rels/workbook.bin.rels", relations)
        packed.writestr("xl/workbook.bin", _bin(131) + _bin(143) + _bin(156, listed) + _bin(144) + _bin(132))
        packed.writestr("xl/styles.bin", _bin(617, formats[0]) + b"".join(_bin(47, each) for each in formats[1:]))
        packed.writestr("xl/worksheets/sheet1.bin", _xlsb_sheet(rows))
    return content.getvalue()


def _xlsb_sheet(rows: Rows) -> bytes:
    width = max((len(row) for row in rows), default=1)
    parts = [_bin(129), _bin(148, struct.pack("<IIII", 0, max(0, len(rows) - 1), 0, width - 1)), _bin(145)]
    before = -1
    for row, column, value in cells_of(rows):
        if row != before:
            parts.append(_bin(0, struct.pack("<I", row).ljust(25, b"\0")))
            before = row
        parts.append(_xlsb_cell(column, value))
    return b"".join([*parts, _bin(146), _bin(130)])


def _bin(kind: int, content: bytes = b"") -> bytes:
    kinds = bytes([kind]) if kind < 128 else bytes([kind & 0x7F | 0x80, kind >> 7])
    size, sizes = len(content), b""
    while size > 127:
        sizes, size = sizes + bytes([size & 0x7F | 0x80]), size >> 7
    return kinds + sizes + bytes([size]) + content


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def _xlsb_cell(column: int, value: Any) -> bytes:
    place = struct.pack("<II", column, 1 if isinstance(value, dt.date) else 0)
    no_formula = struct.pack("<II", 0, 0)
    match value:
        case bool():
            return _bin(4, place + bytes([value]))
        case int():
            return _bin(2, place + struct.pack("<i", value << 2 | 2))
        case float():
            return _bin(5, place + struct.pack("<d", value))
        case dt.datetime():
            return _bin(2, place + struct.pack("<i", int(days_of(value.date())) << 2 | 2))
        case dt.date():
            return _bin(5, place + struct.pack("<d", days_of(value)))
        case Error(name, True):
            return _bin(11, place + bytes([CODES[name]]) + struct.pack("<H", 0) + no_formula)
        case Error(name):
            return _bin(3, place + bytes([CODES[name]]))
        case Formula(result, is_calculated):
            return _bin(9, place + struct.pack("<dH", result, 0 if is_calculated else 2) + no_formula)
    return _bin(6, place + _wide(value))


# .ods

_SPACES = "".join(
    f' xmlns:{prefix}="{space}"'
    for prefix, space in {
        "office": "urn:oasis:names:tc:opendocument:xmlns:office:1.0",
        "table": "urn:oasis:names:tc:opendocument:xmlns:table:1.0",
        "text": "urn:oasis:names:tc:opendocument:xmlns:text:1.0",
        "calcext": "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0",
    }.items()
)
_MEDIA_TYPE = "application/vnd.oasis.opendocument.spreadsheet"


def ods(rows: Rows, *, after: str = "", is_protected: bool = False) -> bytes:
    """Return an OpenDocument spreadsheet with the sheet ``Data``; ``after`` are further rows as XML."""
    content = io.BytesIO()
    body = "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
    document = (
        f"<office:document-content{_SPACES}><office:body><office:spreadsheet>"
        f'<table:table table:name="Data">{body}{after}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    encryption = "<encryption-data/>" if is_protected else ""
    manifest = f'<manifest><file-entry full-path="content.xml">{encryption}</file-entry></manifest>'
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("mimetype", _MEDIA_TYPE)
        packed.writestr("META-INF/manifest.xml", manifest)
        packed.writestr("content.xml", document)
    return content.getvalue()


def _ods_cell(value: Any) -> str:
    match value:
        case None:
            return "<table:table-cell/>"
        case bool():
            attributes = f'office:value-type="boolean" office:boolean-value="{str(value).lower()}"'
        case int() | float():
            attributes = f'office:value-type="float" office:value="{value!r}"'
        case dt.timedelta():
            minutes = int(value.total_seconds()) // 60
            attributes = f'office:value-type="time" office:time-value="PT{minutes // 60}H{minutes % 60:02d}M00S"'
        case dt.date():
            attributes = f'office:value-type="date" office:date-value="{value.isoformat()}"'
        case Error(name):
            attributes = 'office:value-type="string" office:string-value="" calcext:value-type="error"'
            return f"<table:table-cell {attributes}><text:p>{name}</text:p></table:table-cell>"
        case Formula(result, is_calculated):
            attributes = f"table:formula={quoteattr('of:=[.A1]*2')}"
            if is_calculated:
                attributes += f' office:value-type="float" office:value="{result!r}"'
        case _:
            text = f"<text:p>{escape(value)}</text:p>"
            return f'<table:table-cell office:value-type="string">{text}</table:table-cell>'
    return f"<table:table-cell {attributes}/>"
