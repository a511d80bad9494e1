"""Cells of workbooks as text: what the file stores, exactly, or the reason why a cell cannot be read.

The library that reads workbooks gives an error and a formula without a result as an empty cell, and dates rounded to
milliseconds. So each cell is compared with what its file stores (``Stored``).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from math import isinf
from operator import itemgetter
from typing import Any, NamedTuple

from loader.readers.records.values import Value

# Kinds of stored cells. PLAIN are texts and truth values as the library gives them; ``text`` may be empty then.
NUMBER, DATE, DURATION, ERROR, TEXT, PLAIN = "number", "date", "duration", "error", "text", ""
UNCALCULATED = "uncalculated"  # a formula without a result
UNREAD_DATE, NO_DATE = "unread date", "no date"  # numbers that the library may read as the other of the two


class Stored(NamedTuple):
    """Content of a cell as its file stores it: a number in its digits, an error's name, a date in ISO 8601."""

    kind: str
    text: str = ""


class Bounds(NamedTuple):
    """First and last row and column with a filled cell, from 1."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def cells(self) -> int:
        return (self.bottom - self.top + 1) * (self.right - self.left + 1)


class BoundsSoFar:
    """Bounds of the cells that were added."""

    def __init__(self) -> None:
        self._top = self._left = 1 << 30
        self._bottom = self._right = 0

    def add(self, row: int, column: int) -> None:
        if row > self._bottom:
            self._bottom = row
        if row < self._top:
            self._top = row
        if column > self._right:
            self._right = column
        if column < self._left:
            self._left = column

    def bounds(self) -> Bounds | None:
        """Return the bounds; None if no cell was added."""
        return Bounds(self._top, self._left, self._bottom, self._right) if self._bottom else None


StoredRows = Iterator[tuple[int, dict[int, Stored]]]
FILLED = Stored(PLAIN)


class SheetsOfCells(ABC):
    """Sheets of a workbook that stores cells one after another; a subclass reads them."""

    def __init__(self) -> None:
        self._unordered: set[str] = set()

    @abstractmethod
    def _cells(self, sheet: str) -> Iterator[tuple[int, int, Stored]]:
        """Yield row, column and content of each filled cell of a sheet."""

    def bounds(self, sheet: str) -> Bounds | None:
        """Return the bounds of the filled cells."""
        filled, before = BoundsSoFar(), 0
        for row, column, _ in self._cells(sheet):
            filled.add(row, column)
            if row < before:
                self._unordered.add(sheet)
            before = row
        return filled.bounds()

    def rows(self, sheet: str) -> StoredRows:
        """Yield number and filled cells, by column from 1, of each row, in the order of their numbers."""
        cells = self._cells(sheet)
        # Cells are sorted in memory only where the pass for the bounds has found it necessary.
        return _rows_of(iter(sorted(cells, key=itemgetter(0))) if sheet in self._unordered else cells)


def _rows_of(cells: Iterator[tuple[int, int, Stored]]) -> StoredRows:
    """Yield number and cells of each row from (row, column, cell) in the order of rows."""
    number, row = 0, dict[int, Stored]()
    for at, column, stored in cells:
        if at != number and row:
            yield number, row
            row = {}
        number = at
        row[column] = stored
    if row:
        yield number, row


@dataclass(frozen=True)
class CellFault:
    """Reason why a cell cannot be read. ``text``: the cell's content."""

    text: str
    problem: str
    hint: str


_RECALCULATE = "Open the workbook in a spreadsheet program and save it, so that it stores the results of its formulas."
_CORRECT_ERROR = (
    "Correct the cell. If the error stands for no value, set the option null_string to it; the option "
    "ignored_columns leaves out a column that is not needed."
)
_AS_TEXT = "Deliver such numbers as text: a number in a workbook has fifteen certain digits."
_NOT_WHOLE = "Save the workbook in a spreadsheet program and deliver it again."
_AS_XLSX = "Save the workbook as .xlsx in a spreadsheet program and deliver that file."
_CORRECT_DATE = "Correct the cell, or deliver the date as text."

_HALF = "has half of a surrogate pair, which no program can store"
_WHOLE_TEXT = "Deliver whole characters: the writer has cut a text within one."

_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_DIGIT = re.compile(r"[0-9]")
_EXACT = 1 << 53  # Whole numbers of this size and larger are not certain in a float.
_SHOWN_DIGITS, _FLOAT_DIGITS = 15, 17
_NOISE_FROM = 3  # digits that a float differs from a shorter number by arithmetic only
_DAY = 86_400_000_000  # microseconds
_MILLISECOND, _NEAR = 1_000, 10  # microseconds
_MISSING_DAY = 60  # number of 29 February 1900, which spreadsheet programs count
_EPOCHS = (datetime(1899, 12, 30), datetime(1904, 1, 1))
_SMALL_EPOCH = datetime(1899, 12, 31)  # of the days before the missing one


def text_of_cell(value: Any, stored: Stored | None) -> Value | CellFault:
    """Return a cell as text, None if it is empty. ``value`` is what the library read, ``stored`` what the file has."""
    if stored is None and (value is None or value == ""):
        return None
    if stored is None or stored.kind == PLAIN:
        match value:
            case bool():
                return "true" if value else "false"
            case str() if "\0" in value:  # No text has NUL: the library read UTF-16 in another encoding.
                text = value.replace("\0", "")
                return CellFault(text, "has a text in UTF-16 that was read in another encoding", _AS_XLSX)
            case str() | None if not value and stored is not None and stored.text.strip():
                return CellFault(stored.text, "has a text that is not read", _NOT_WHOLE)
            case str() | None if stored is not None or not value:
                return value or None
        return CellFault(str(value), "has a value that the file does not store in this cell", _NOT_WHOLE)
    return _of_stored(value, stored)


def _of_stored(value: Any, stored: Stored) -> Value | CellFault:
    text = stored.text
    match stored.kind:
        case "number":
            return _of_number(value, text)
        case "no date":
            return number_text(float(text), text)
        case "unread date" if isinstance(value, date | time | timedelta):
            return _of_number(value, text)
        case "unread date":
            return CellFault(text, f"has {text} in the format of a date, which is read as a number", _AS_XLSX)
        case "text" if _HALF_OF_A_PAIR.search(text):
            return CellFault(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), _HALF, _WHOLE_TEXT)
        case "text":
            return text or None
        case "date":
            return text.replace("T", " ", 1).removesuffix(" 00:00:00")
        case "duration":
            return _of_iso_duration(text)
        case "error":
            return CellFault(text, f"has the error {text}", _CORRECT_ERROR)
    return CellFault(text, "has a formula without a stored result", _RECALCULATE)


def _of_number(value: Any, digits: str) -> Value | CellFault:
    match value:
        case bool() | str() | None:
            return CellFault(digits, f"has the number {digits}, which is not read as a number", _NOT_WHOLE)
        case float() | int() if float(digits) < value or float(digits) > value:
            return CellFault(digits, f"has the number {digits}, which is read as {value}", _NOT_WHOLE)
        case float() | int():
            return number_text(float(value), digits)
        case timedelta():
            return duration_text(_microseconds(float(digits)))
    return _of_moment(value, float(digits), digits)


def number_text(value: float, digits: str) -> str | CellFault:
    """Return a number's text: as stored, if a float does not hold all of its ``digits``.

    A float whose digits from the thirteenth on come from arithmetic only (0.1 + 0.2) is the shorter number, as
    spreadsheet programs show it.
    """
    if isinf(value):
        return digits
    if len(digits) <= _SHOWN_DIGITS:
        return f"{value:.0f}" if value.is_integer() and abs(value) < _EXACT else f"{value:.15g}"
    significant = _significant(digits)
    if _WHOLE_NUMBER.fullmatch(digits) and significant > _SHOWN_DIGITS:
        return digits
    if significant > _FLOAT_DIGITS:
        return digits
    if value.is_integer():
        if abs(value) < _EXACT:
            return f"{value:.0f}"
        if _significant(repr(value)) > _SHOWN_DIGITS:
            return CellFault(digits, f"has {digits}, a number of more digits than it can hold exactly", _AS_TEXT)
        return f"{value:.15g}"
    shown = f"{value:.15g}"
    is_noise = _significant(shown) <= _SHOWN_DIGITS - _NOISE_FROM
    return shown if is_noise or float(shown) == value else repr(value)


def _significant(number: str) -> int:
    """Return the number of significant digits of a number's text."""
    mantissa = re.split("[eE]", number)[0]
    whole = "".join(_DIGIT.findall(mantissa)).lstrip("0")
    return len(whole.rstrip("0"))


def _of_moment(value: date | datetime | time, number: float, digits: str) -> Value | CellFault:
    """Return date and time of a number of days, of which ``value`` is the rounded reading."""
    if number < 0:
        return CellFault(digits, f"has {digits} as a date, which no spreadsheet program shows", _CORRECT_DATE)
    moment = _microseconds(number)
    if isinstance(value, time):
        return (datetime.min + timedelta(microseconds=moment % _DAY)).time().isoformat()
    read = value if isinstance(value, datetime) else datetime.combine(value, time())
    for epoch in _EPOCHS if number >= _MISSING_DAY + 1 else (_SMALL_EPOCH, _EPOCHS[1]):
        exact = epoch + timedelta(microseconds=moment)
        if abs(exact - read) < timedelta(seconds=1):
            return exact.date().isoformat() if exact.time() == time() else exact.isoformat(sep=" ")
    return CellFault(digits, f"has day {digits}, 29 February 1900, a date that does not exist", _CORRECT_DATE)


def _microseconds(days: float) -> int:
    """Return days in microseconds; in milliseconds if the difference is within the accuracy of a float."""
    exact = round(days * _DAY)
    near = round(exact / _MILLISECOND) * _MILLISECOND
    return near if abs(near - exact) <= _NEAR else exact


def duration_text(microseconds: int) -> str:
    """Return a duration as hours, minutes and seconds."""
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    sign, rest = "-" if microseconds < 0 else "", f".{fraction:06d}" if fraction else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{rest}"


_ISO_DURATION = re.compile(r"(-?)P(?:([0-9]+)D)?T?(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:[.,]([0-9]+))?S)?")


def _of_iso_duration(text: str) -> str | CellFault:
    match = _ISO_DURATION.fullmatch(text)
    if match is None:
        return CellFault(text, f"has {text}, which is no duration in days, hours, minutes and seconds", _CORRECT_DATE)
    days, hours, minutes, seconds = (int(match[place] or 0) for place in range(2, 6))
    fraction = int((match[6] or "").ljust(6, "0")[:6])
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return duration_text((total * 1_000_000 + fraction) * (-1 if match[1] else 1))
