"""Sheets of OpenDocument spreadsheets (``.ods``): their bounds, and their cells as they are stored."""

import zipfile
from collections.abc import Iterator
from typing import NamedTuple
from xml.parsers import expat

from loader.readers.records.values import local_name
from loader.readers.records.workbook_cells import (
    DATE,
    DURATION,
    ERROR,
    FILLED,
    NUMBER,
    TEXT,
    UNCALCULATED,
    Bounds,
    BoundsSoFar,
    Stored,
    StoredRows,
)
from loader.readers.records.workbook_parts import PartMissing, part_named

_CHUNK = 1 << 18
_CELLS = ("table-cell", "covered-table-cell")
_BREAKS = {"tab": "\t", "line-break": "\n"}
_NUMBERS = ("float", "percentage", "currency")


class _StoredRow(NamedTuple):
    """Filled cells of a row, and the number of rows that are like it."""

    number: int
    repeated: int
    cells: list[tuple[int, int, Stored]]  # first and last column


class OdsSheets:
    """Sheets of one document by name."""

    def __init__(self, packed: zipfile.ZipFile):
        self._packed = packed

    def bounds(self, sheet: str) -> Bounds | None:
        """Return the bounds of the filled cells, repeated ones included."""
        filled = BoundsSoFar()
        for row in self._stored(sheet):
            for first, last, _ in row.cells:
                filled.add(row.number, first)
                filled.add(row.number + row.repeated - 1, last)
        return filled.bounds()

    def rows(self, sheet: str) -> StoredRows:
        """Yield number and filled cells, by column from 1, of each row."""
        for row in self._stored(sheet):
            cells = {column: stored for first, last, stored in row.cells for column in range(first, last + 1)}
            for number in range(row.number, row.number + row.repeated):
                yield number, cells

    def _stored(self, sheet: str) -> Iterator[_StoredRow]:
        reader = _ContentReader(sheet)
        with self._packed.open(part_named(self._packed, "content.xml")) as unpacked:
            while piece := unpacked.read(_CHUNK):
                yield from reader.feed(piece)
        yield from reader.feed(b"", last=True)
        if not reader.is_there:
            raise PartMissing(f"it has no sheet {sheet}")


class _ContentReader:
    """Parser of a document that finds the rows of one sheet, fed in pieces."""

    def __init__(self, sheet: str):
        self._sheet, self.is_there = sheet, False
        self._tables = 0  # open tables, of which the outermost is the wanted sheet
        self._row, self._repeated, self._column = 1, 1, 1
        self._cells: list[tuple[int, int, Stored]] = []
        self._finished: list[_StoredRow] = []
        self._cell: tuple[dict[str, str], int] | None = None
        self._depth = 0  # elements within the cell
        self._comment = 0  # depth at which a comment begins
        self._texts: list[str] = []
        self._has_breaks = False  # tabs or line breaks, which the library leaves out
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def feed(self, piece: bytes, *, last: bool = False) -> list[_StoredRow]:
        self._finished = []
        self._parser.Parse(piece, last)
        return self._finished

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        kind = local_name(name)
        if self._cell is not None:
            self._depth += 1
            self._start_within(kind, attributes)
        elif kind == "table" and (self._tables or attributes.get("table:name") == self._sheet):
            self._tables += 1
            if self._tables == 1:
                self.is_there, self._row = True, 1
        elif not self._tables:
            return
        elif kind == "table-row":
            self._repeated, self._column = int(attributes.get("table:number-rows-repeated", "1")), 1
            self._cells = []
        elif kind in _CELLS:
            self._cell = (attributes, int(attributes.get("table:number-columns-repeated", "1")))
            self._depth, self._comment, self._texts, self._has_breaks = 0, 0, [], False

    def _start_within(self, kind: str, attributes: dict[str, str]) -> None:
        """Add the characters of an element within a cell."""
        if self._comment:
            return
        if kind == "annotation":
            self._comment = self._depth
        elif kind == "p" and self._texts:
            self._texts.append("\n")
        elif kind == "s":
            self._texts.append(" " * int(attributes.get("text:c", "1")))
        elif kind in _BREAKS:
            self._texts.append(_BREAKS[kind])
            self._has_breaks = True

    def _text(self, text: str) -> None:
        if self._cell is not None and self._depth and not self._comment:
            self._texts.append(text)

    def _end(self, name: str) -> None:
        kind = local_name(name)
        if self._cell is not None and self._depth:
            self._comment = 0 if self._comment == self._depth else self._comment
            self._depth -= 1
        elif self._cell is not None:
            attributes, repeated = self._cell
            stored = _stored(attributes, "".join(self._texts), has_breaks=self._has_breaks)
            if stored is not None:
                self._cells.append((self._column, self._column + repeated - 1, stored))
            self._column, self._cell = self._column + repeated, None
        elif not self._tables:
            return
        elif kind == "table":
            self._tables -= 1
        elif kind == "table-row":
            if self._cells:
                self._finished.append(_StoredRow(self._row, self._repeated, self._cells))
            self._row += self._repeated


def _stored(attributes: dict[str, str], text: str, *, has_breaks: bool) -> Stored | None:
    kind = attributes.get("office:value-type", "")
    if attributes.get("calcext:value-type") == "error":
        return Stored(ERROR, text.strip() or "without a name")
    if kind in _NUMBERS:
        return Stored(NUMBER, attributes.get("office:value", ""))
    if kind == "date":
        return Stored(DATE, attributes.get("office:date-value", ""))
    if kind == "time":
        return Stored(DURATION, attributes.get("office:time-value", ""))
    if kind:
        return Stored(TEXT, text) if has_breaks and "office:string-value" not in attributes else FILLED
    return Stored(UNCALCULATED) if "table:formula" in attributes else None
