"""Sheets of Excel workbooks in XML (``.xlsx``, ``.xlsm``): their extents, and their cells as they are stored.

Sheets are the parts that the workbook lists, wherever they are; a cell or row without a reference follows the one
before it.
"""

import posixpath
import zipfile
from collections.abc import Mapping
from xml.parsers import expat

from loader.readers.records.values import local_name
from loader.readers.records.workbook_cells import (
    DATE,
    ERROR,
    FILLED,
    NUMBER,
    PLAIN,
    TEXT,
    UNCALCULATED,
    Bounds,
    BoundsSoFar,
    Stored,
    StoredRows,
)
from loader.readers.records.workbook_parts import (
    PartMissing,
    elements,
    has_part,
    main_folder,
    parse,
    part_named,
    related_parts,
)
from loader.readers.records.workbook_texts import RUN_ELEMENTS, TextRuns, decoded_strings, decoded_text
from metadata.domain.sources.option_kinds import column_number

_CONTENTS = ("v", "f", "is")
_DIGITS, _LONGEST_ROW_NUMBER = "0123456789", 7
_CHUNK = 1 << 18
_TRUE = ("1", "true")


class _Columns(dict[str, int | None]):
    """Numbers of columns by their letters, in any case; None for what is no column."""

    def __missing__(self, letters: str) -> int | None:
        is_column = letters.isascii() and letters.isalpha() and len(letters) <= 3
        self[letters] = column_number(letters) if is_column else None
        return self[letters]


_columns = _Columns()


class XlsxSheets:
    """Sheets of one workbook by name."""

    def __init__(self, packed: zipfile.ZipFile):
        self._packed = packed
        folder = main_folder(packed)
        workbook = part_named(packed, posixpath.join(folder, "workbook.xml"))
        targets = related_parts(packed, folder, "workbook.xml")
        self._paths: dict[str, str] = {}
        for sheet in elements(packed, workbook, "sheet"):
            ids = [value for key, value in sheet.items() if local_name(key) == "id"]
            if ids and ids[0] in targets:
                self._paths[sheet.get("name", "")] = targets[ids[0]]
        settings = elements(packed, workbook, "calcPr")
        # Set by programs that write formulas and do not calculate them; some of them store 0 as each result.
        self._is_uncalculated = any(entry.get("fullCalcOnLoad") in _TRUE for entry in settings)
        strings = posixpath.join(folder, "sharedStrings.xml")
        self._decoded = decoded_strings(packed, part_named(packed, strings)) if has_part(packed, strings) else {}

    def _part(self, sheet: str) -> str:
        if sheet not in self._paths:
            raise PartMissing(f"it has no part of the sheet {sheet}")
        return part_named(self._packed, self._paths[sheet])

    def bounds(self, sheet: str) -> Bounds | None:
        """Return the bounds of the filled cells: those with a value or a formula, not with a format only."""
        row = column = 0
        filled = BoundsSoFar()

        def element(name: str, attributes: dict[str, str]) -> None:
            nonlocal row, column
            kind = local_name(name)
            if kind == "c":
                row, column = _position(attributes, row, column)
            elif kind in _CONTENTS:
                filled.add(row, column)
            elif kind == "row":
                row, column = _row_number(attributes, row), 0

        parse(self._packed, self._part(sheet), element)
        return filled.bounds()

    def rows(self, sheet: str) -> StoredRows:
        """Yield number and filled cells, by column from 1, of each row."""
        reader = _SheetReader(self._decoded, is_uncalculated=self._is_uncalculated)
        with self._packed.open(self._part(sheet)) as unpacked:
            while piece := unpacked.read(_CHUNK):
                yield from reader.feed(piece)
        yield from reader.feed(b"", last=True)


def _row_number(attributes: dict[str, str], before: int) -> int:
    number = attributes.get("r", "")
    return int(number) if number.isascii() and number.isdecimal() else before + 1


def _position(attributes: dict[str, str], row: int, column: int) -> tuple[int, int]:
    """Return row and column of a cell that follows the one at ``row`` and ``column``."""
    reference = attributes.get("r", "")
    letters = reference.rstrip(_DIGITS)
    number = _columns[letters]
    digits = reference[len(letters) :]
    if number is None or not 1 <= len(digits) <= _LONGEST_ROW_NUMBER:
        return row, column + 1
    return int(digits), number


class _SheetReader:
    """Parser of one sheet, fed in pieces."""

    def __init__(self, decoded: Mapping[str, str], *, is_uncalculated: bool):
        self._decoded, self._is_uncalculated = decoded, is_uncalculated
        self._row = self._column = 0
        self._cells: dict[int, Stored] = {}
        self._finished: list[tuple[int, dict[int, Stored]]] = []
        self._type, self._has_formula, self._is_filled = "n", False, False
        self._value: list[str] | None = None
        self._runs = TextRuns()  # of the cell itself
        self._is_value = False
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def feed(self, piece: bytes, *, last: bool = False) -> list[tuple[int, dict[int, Stored]]]:
        self._finished = []
        self._parser.Parse(piece, last)
        return self._finished

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        kind = local_name(name)
        if kind == "c":
            self._row, self._column = _position(attributes, self._row, self._column)
            self._type, self._has_formula, self._is_filled = attributes.get("t", "n"), False, False
            self._value = None
            self._runs.clear()
        elif kind == "v":
            self._value, self._is_value = [], True
        elif kind == "row":
            self._row, self._column, self._cells = _row_number(attributes, self._row), 0, {}
        elif kind == "f":
            self._has_formula = True
        elif kind == "is":
            self._is_filled = True
        elif kind in RUN_ELEMENTS:
            self._runs.start(kind)

    def _text(self, text: str) -> None:
        if self._is_value and self._value is not None:
            self._value.append(text)
        else:
            self._runs.add(text)

    def _end(self, name: str) -> None:
        kind = local_name(name)
        if kind == "c":
            stored = self._stored()
            if stored is not None:
                self._cells[self._column] = stored
        elif kind == "v":
            self._is_value = False
        elif kind in RUN_ELEMENTS:
            self._runs.end(kind)
        elif kind == "row" and self._cells:
            self._finished.append((self._row, self._cells))

    def _stored(self) -> Stored | None:
        text = "".join(self._value).strip() if self._value is not None else None
        match self._type:
            case "e":
                return Stored(ERROR, text or "without a name")
            case "n" if text:
                is_placeholder = self._has_formula and self._is_uncalculated and text == "0"
                return Stored(UNCALCULATED if is_placeholder else NUMBER, text)
            case "d" if text:
                return Stored(DATE, text)
            case "s" if text is not None and text in self._decoded:
                return Stored(TEXT, self._decoded[text])
            case "str" | "inlineStr" if text or self._runs.texts:
                runs = self._runs.texts or ["".join(self._value or ())]
                decoded = decoded_text(runs)
                return Stored(PLAIN, "".join(runs)) if decoded is None else Stored(TEXT, decoded)
            case "str" if self._has_formula and text is not None:
                return FILLED
        if self._has_formula and not text:
            return Stored(UNCALCULATED)
        return FILLED if text is not None or self._is_filled else None
