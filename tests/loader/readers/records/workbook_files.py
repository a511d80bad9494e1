"""Small Excel workbooks, written part by part."""

import datetime as dt
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

Rows = Sequence[Sequence[Any]] | Mapping[int, Sequence[Any]]

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPES = (
    f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/></Types>'
)
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><cellXfs count="2"><xf numFmtId="0"/>'
    '<xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>'
)


def workbook(sheets: Mapping[str, Rows], **parts: bytes) -> bytes:
    """Return a workbook of these sheets, by name; rows are numbered from 1 or given by number."""
    content = io.BytesIO()
    names = list(sheets)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("[Content_Types].xml", _TYPES)
        packed.writestr("_rels/.rels", _relations({"rId1": ("officeDocument", "xl/workbook.xml")}))
        listed = "".join(
            f'<sheet name="{escape(name)}" sheetId="{place}" r:id="rId{place}"/>' for place, name in enumerate(names, 1)
        )
        head = f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
        packed.writestr("xl/workbook.xml", f"{head}<sheets>{listed}</sheets></workbook>")
        relations = {f"rId{place}": ("worksheet", f"worksheets/sheet{place}.xml") for place, _ in enumerate(names, 1)}
        packed.writestr("xl/_rels/workbook.xml.rels", _relations(relations | {"rId99": ("styles", "styles.xml")}))
        packed.writestr("xl/styles.xml", _STYLES)
        for place, name in enumerate(names, 1):
            packed.writestr(f"xl/worksheets/sheet{place}.xml", _sheet(sheets[name]))
        for name, part in parts.items():
            packed.writestr(f"xl/{name}.xml", part)
    return content.getvalue()


def _relations(relations: Mapping[str, tuple[str, str]]) -> str:
    listed = "".join(
        f'<Relationship Id="{key}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for key, (kind, target) in relations.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{listed}</Relationships>'


def _sheet(rows: Rows) -> str:
    numbered = rows.items() if isinstance(rows, Mapping) else enumerate(rows, 1)
    body = "".join(f'<row r="{number}">{_cells(number, row)}</row>' for number, row in numbered)
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData></worksheet>'


def _cells(number: int, row: Sequence[Any]) -> str:
    return "".join(_cell(f"{_letters(place)}{number}", value) for place, value in enumerate(row, 1))


def _letters(number: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _cell(place: str, value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        case int() | float():
            return f'<c r="{place}"><v>{value!r}</v></c>'
        case dt.datetime():
            days = (value - dt.datetime(1899, 12, 30)).total_seconds() / 86400
            return f'<c r="{place}" s="1"><v>{days!r}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
