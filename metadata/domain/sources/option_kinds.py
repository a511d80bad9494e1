"""Kinds of values that reading options have: a description, and the condition that a value has to fulfil."""

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from metadata.domain.sources.rest_addresses import headers_of, parameters_of
from metadata.domain.sources.value_formats import (
    BRACKETS,
    DECIMAL_SEPARATORS,
    SPACED,
    THOUSANDS_SEPARATORS,
    TRAILING,
    TimeFormat,
    words_of,
)


@dataclass(frozen=True)
class Kind:
    """Kind of an option's value: its description, and the condition that a value has to fulfil.

    ``choices`` are the possible values, if these are words. ``may_be_secret``: errors do not repeat the value.
    """

    description: str
    fits: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    may_be_secret: bool = False


def one_of(*words: str) -> Kind:
    """Return the kind of an option that is one of these words."""
    return Kind(f"{', '.join(words[:-1])} or {words[-1]}", lambda value: value in words, words)


def _is_character(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 1 and value not in ("\n", "\r", "\0")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_OFFSET = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")


def _is_zone(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return bool(_OFFSET.fullmatch(value) or ZoneInfo(value))
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False


def _is_encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(codecs.lookup(value))
    except (LookupError, ValueError):
        return False


_POSITIONS = re.compile(r"(\s*+[^:]+):\s*([1-9]\d{0,4})\s*-\s*([1-9]\d{0,4})")
_RANGE = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})(?::([A-Z]{1,3})([1-9]\d{0,6}))?")


def range_of(text: Any) -> tuple[int, int, int | None, int | None] | None:
    """Return (first column, first row, last column, last row), from 1, of cells like A3:F200; None for other text.

    The last ones are None for a single cell like B2.
    """
    match = _RANGE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    left, top = column_number(match[1]), int(match[2])
    if match[3] is None:
        return left, top, None, None
    right, bottom = column_number(match[3]), int(match[4])
    return (left, top, right, bottom) if left <= right and top <= bottom else None


def column_number(letters: str) -> int:
    """Return the number, from 1, of a spreadsheet's column like AB."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def column_letters(number: int) -> str:
    """Return the letters of a spreadsheet's column, counted from 1."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def columns_of(text: Any) -> tuple[tuple[str, int, int], ...]:
    """Return name, first and last position of each column of a text like ``id:1-8, name:9-30``; empty for other text.

    Positions count from 1, names differ, and columns do not overlap.
    """
    if not isinstance(text, str):
        return ()
    matches = [_POSITIONS.fullmatch(part.strip()) for part in text.split(",")]
    columns = [(match[1].strip(), int(match[2]), int(match[3])) for match in matches if match]
    in_order = sorted(columns, key=lambda column: column[1])
    overlap = any(after <= end for (_, _, end), (_, after, _) in zip(in_order, in_order[1:], strict=False))
    names = {name for name, _, _ in columns}
    is_valid = all(matches) and len(names) == len(columns) and all(start <= end for _, start, end in columns)
    return tuple(columns) if is_valid and not overlap else ()


def names_of(text: Any) -> tuple[str, ...]:
    """Return the names in a text like ``changed_at, number``; empty for other values or a repeated name."""
    names = tuple(part.strip() for part in text.split(",")) if isinstance(text, str) else ()
    return names if all(names) and len(set(names)) == len(names) else ()


# An empty text switches the character off.
CHARACTER = Kind("one character", _is_character)
DELIMITER = Kind("one character, not empty", lambda value: _is_character(value) and value != "")
TEXT = Kind("text", _is_text)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
PATH = Kind("names with dots between, like result.items", lambda value: _is_text(value) and all(value.split(".")))
RANGE = Kind("cells like A3:F200, or the first cell like B2", lambda value: range_of(value) is not None)
POSITIONS = Kind("columns with positions like id:1-8, name:9-30", lambda value: bool(columns_of(value)))
ZONE = Kind("a time zone like Europe/Berlin or +02:00", _is_zone)
ENCODING = Kind("a character set like UTF-8, ISO-8859-1 or windows-1252", _is_encoding)
NUMBER = Kind("a whole number from 0", lambda value: type(value) is int and value >= 0)
PARAMETERS = Kind(
    "parameters like status=open&sort=id", lambda value: parameters_of(value) is not None, may_be_secret=True
)
HEADERS = Kind(
    "headers, one a line, like X-Version: 2", lambda value: headers_of(value) is not None, may_be_secret=True
)
COUNT = Kind("a whole number from 1", lambda value: type(value) is int and value >= 1)
COLUMNS = Kind("names of columns with commas between", lambda value: bool(names_of(value)))
DECIMAL = Kind("a point or a comma", lambda value: value in tuple(DECIMAL_SEPARATORS))
THOUSANDS = Kind("a point, comma, apostrophe, blank or underscore", lambda value: value in tuple(THOUSANDS_SEPARATORS))
NEGATIVE = one_of(TRAILING, BRACKETS, SPACED)
YEAR = Kind("a year from 1 to 9900", lambda value: type(value) is int and 1 <= value <= 9900)
WORDS = Kind("words with commas between", lambda value: bool(words_of(value)))
REFUSE_CHANGED, KEEP_LOADED, READ_AGAIN = "refuse", "keep", "reload"
CHANGED_FILES = one_of(REFUSE_CHANGED, KEEP_LOADED, READ_AGAIN)
CASE = one_of("lower", "upper")
# Rows that are kept of those of one key.
LATEST, FIRST = "latest", "first"
PAGINGS = ("none", "page", "offset", "cursor", "next_url", "link")
# Evidence that the pages of an endpoint are all.
PROVEN, TRUSTED = "proven", "trusted"
# Options of Kafka topics.
PLAIN, DEBEZIUM = "json", "debezium"
LSN, TIME, OFFSET = "lsn", "time", "offset"
REFUSE, EARLIEST, SKIP, KEEP = "refuse", "earliest", "skip", "keep"
# Names that a header has more than once.
NUMBERED = "number"
# Option for rows that do not fit the contract, and its value to keep them apart instead of refusing their delivery.
FAULTY_ROWS, QUARANTINE = "faulty_rows", "quarantine"
MILLISECONDS, MICROSECONDS, NANOSECONDS = _TIME_UNITS = ("milliseconds", "microseconds", "nanoseconds")


@dataclass(frozen=True)
class TimeUnits:
    """Units of numbers since 1970: of single columns, and of all others."""

    others: str = MICROSECONDS
    of_columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: Any) -> "TimeUnits | None":
        """Return the units in a text like ``milliseconds, seen_at=nanoseconds``; None for other text."""
        if not isinstance(text, str):
            return None
        others, of_columns = [], {}
        for part in text.split(","):
            name, sign, unit = part.rpartition("=")
            name, unit = name.strip(), unit.strip()
            if unit not in _TIME_UNITS or bool(sign) != bool(name) or name in of_columns:
                return None
            if sign:
                of_columns[name] = unit
            else:
                others.append(unit)
        return cls(others[0] if others else MICROSECONDS, of_columns) if len(others) <= 1 else None

    def unit_of(self, column: str) -> str:
        return self.of_columns.get(column, self.others)


TIME_UNITS = Kind(
    "milliseconds, microseconds or nanoseconds, or units of columns like seen_at=milliseconds",
    lambda value: TimeUnits.of(value) is not None,
)
HEX, BASE64 = "hex", "base64"


def _is_placeholder(value: Any) -> bool:
    if not _is_text(value):
        return False
    return not value.startswith("hex:") or bool(re.fullmatch("hex:([0-9a-fA-F]{2})+", value))


PLACEHOLDER = Kind("text, or hex: with the digits of bytes", _is_placeholder)
UNAVAILABLE = "__debezium_unavailable_value"
DATE_FORMAT = Kind(
    "a format like %d.%m.%Y", lambda value: _is_text(value) and TimeFormat(value).problem(with_time=False) is None
)
TIME_FORMAT = Kind(
    "a format like %d.%m.%Y %H:%M", lambda value: _is_text(value) and TimeFormat(value).problem(with_time=True) is None
)
