"""Examples from a file: a text of it as each candidate of a question reads it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from loader.domain.sources.file_detection.cells import EMPTY, NUMBER, kind_of
from loader.domain.sources.file_detection.dialects import Dialect, Row
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.numbers import SIGNED
from loader.domain.sources.headers import joined_names
from metadata.domain.sources.value_formats import NumberFormat, TimeFormat

_MOST_CELLS, _LONGEST = 4, 60
_READ = 1 << 16  # bytes in which an example of a character set is searched
_AROUND = 20  # characters on each side of one beyond ASCII
_MOST_TEXTS = 100  # of a column, among which examples of dates are searched
_OTHER = {".": ",", ",": "."}
_Texts = Sequence[str]


@dataclass(frozen=True)
class TextView:
    """Text whose structure is in question: its bytes and lines, and its records after the skipped lines.

    ``last`` are the last records, of the end of the file if the others are not all.
    """

    content: bytes
    lines: Sequence[str]
    dialect: Dialect
    rows: Sequence[Row]
    last: Sequence[Row]


def of_structure(question: Question, view: TextView) -> Question:
    """Return a question about character set, dialect or lines with an example for each candidate."""
    if question.option == "encoding":
        return replace(question, examples=_encodings(question.candidates, view.content))
    example = _OF_STRUCTURE.get(question.option)
    if example is None:
        return question
    return replace(question, examples=tuple(_cut(example(candidate, view)) for candidate in question.candidates))


def of_values(question: Question, columns: Mapping[str, Sequence[str]], options: Mapping[str, Any]) -> Question:
    """Return a question about the formats of values with an example for each candidate.

    ``options`` are the detected ones, by which numbers are read.
    """
    example = _OF_VALUES.get(question.option)
    if example is None or question.examples:
        return question
    texts = [[text.strip() for text in values if text.strip()] for values in columns.values()]
    return replace(question, examples=tuple(example(question.candidates, texts, options)))


def _encodings(candidates: Sequence[str], content: bytes) -> tuple[str, ...]:
    """Return the first line that the candidates read differently; if there is none, the first beyond ASCII."""
    decoded = [content[:_READ].decode(name, "replace").removeprefix("\ufeff") for name in candidates]
    texts = [re.split("\r\n|\r|\n", text) for text in decoded]
    lines = [line for line in zip(*texts, strict=False) if not all(text.isascii() for text in line)]
    best = next((line for line in lines if len(set(line)) > 1), lines[0] if lines else ("",) * len(candidates))
    return tuple(_around(text) for text in best)


def _around(text: str) -> str:
    """Return the part of a line around its first character beyond ASCII."""
    place = next((place for place, letter in enumerate(text) if not letter.isascii()), 0)
    return text[max(place - _AROUND, 0) : place + _AROUND].strip()


def _delimiter(delimiter: str, view: TextView) -> str:
    return _cells(_first(replace(view.dialect, delimiter=delimiter), view.lines))


def _quote(quote: str, view: TextView) -> str:
    lines = [line for line in view.lines if '"' in line][:1]
    return _cells(_first(replace(view.dialect, quote=quote, escape=quote, keeps_quotes=False), lines))


def _quotes_inside(_: str, view: TextView) -> str:
    inside = re.compile(r'[^\s,;|\t"][^,;|\t"]*"[^,;|\t]*')
    return next((match[0].strip() for line in view.lines if (match := inside.search(line))), "")


def _first(dialect: Dialect, lines: Sequence[str]) -> Row | None:
    return next((row for row in dialect.rows(list(lines[:50])) if not row.is_empty), None)


def _header(_: bool, view: TextView) -> str:
    return _cells(view.rows[0]) if view.rows else ""


def _header_lines(count: int, view: TextView) -> str:
    rows = [row.cells for row in view.rows[:count]]
    return ", ".join([name for name in joined_names(rows) if name][:_MOST_CELLS]) if rows else ""


def _footer_lines(count: int, view: TextView) -> str:
    filled = [row for row in view.last if not row.is_empty]
    return _cells(filled[-1]) if filled else ""


_OF_STRUCTURE: dict[str, Callable[[Any, TextView], str]] = {
    "delimiter": _delimiter,
    "quote": _quote,
    "quotes_inside": _quotes_inside,
    "header": _header,
    "header_lines": _header_lines,
    "footer_lines": _footer_lines,
}


def _times(candidates: Sequence[str | None], columns: Sequence[_Texts], _: Mapping[str, Any]) -> list[str]:
    formats = [TimeFormat(text) if text is not None else None for text in candidates]
    texts = [text for values in columns for text in islice(_present(values), _MOST_TEXTS)]
    if not texts:
        return [""] * len(candidates)
    readings = [(text, [shape.read(text) if shape is not None else None for shape in formats]) for text in texts]
    # A text that the candidates read as different days shows most.
    best = max(readings, key=lambda reading: (any(reading[1]), len(set(reading[1]))))
    examples = []
    for place, shape in enumerate(formats):
        if shape is None:
            # Only the candidates after it read values that may be no dates.
            fitting = (each for each in readings if any(each[1][place:]) and not any(each[1][:place]))
        else:
            fitting = (each for each in (best, *readings) if each[1][place])
        text, moments = next(fitting, best)
        examples.append(time_example(text, shape, moments[place]))
    return examples


def _present(texts: _Texts) -> Iterator[str]:
    return (text for text in texts if kind_of(text) != EMPTY)


def time_example(text: str, shape: TimeFormat | None, standard: str | None) -> str:
    """Return the reading of a text as part of a sentence; ``standard`` is its standard text, None if there is none."""
    if standard is None:
        # Without a format, digits are a number, and anything else is a text.
        kind = "a number" if shape is None and text.isdigit() else "a text"
        return f"{text} is {kind}"
    moment = datetime.fromisoformat(standard)
    return f"{text} is {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def _numbers(columns: Sequence[_Texts]) -> Iterator[str]:
    """Yield the numbers of columns, those that may be codes last."""
    codes = []
    for text in chain.from_iterable(columns):
        if kind_of(text) != NUMBER:
            continue
        if SIGNED.fullmatch(text):
            codes.append(text)
        else:
            yield text
    yield from codes


def _read(text: str, decimal: str, thousands: str) -> str | None:
    """Return the standard text of a number, of a negative one in its own way; None for another text."""
    signed = SIGNED.fullmatch(text)
    return NumberFormat(decimal, thousands, signed.lastgroup or "" if signed else "").read(text)


def _example(text: str, number: str | None) -> str:
    return f"{text} is {number or 'a text'}"


def _decimals(candidates: Sequence[str], columns: Sequence[_Texts], options: Mapping[str, Any]) -> list[str]:
    group = options.get("thousands_separator", "")
    # The sign that is not before the decimals groups digits if no other one does.
    groups = [group if group not in ("", decimal) else _OTHER[decimal] for decimal in candidates]
    for text in _numbers(columns):
        if "." in text or "," in text:
            numbers = [_read(text, *separators) for separators in zip(candidates, groups, strict=True)]
            if any(numbers):
                return [_example(text, number) for number in numbers]
    return [""] * len(candidates)


def _thousands(candidates: Sequence[str | None], columns: Sequence[_Texts], options: Mapping[str, Any]) -> list[str]:
    decimal = options.get("decimal_separator", ".")
    return [
        _grouped(sign, _OTHER[decimal] if sign == decimal else decimal, columns) if sign else "" for sign in candidates
    ]


def _grouped(thousands: str, decimal: str, columns: Sequence[_Texts]) -> str:
    """Return the first number with a sign between groups of digits as an example; empty without one."""
    signs = NumberFormat(decimal, thousands).separators
    texts = (text for text in _numbers(columns) if any(sign in text for sign in signs))
    numbers = ((text, _read(text, decimal, thousands)) for text in texts)
    return next((_example(text, number) for text, number in numbers if number), "")


def _negative_numbers(
    candidates: Sequence[str | None], columns: Sequence[_Texts], options: Mapping[str, Any]
) -> list[str]:
    decimal, thousands = options.get("decimal_separator", "."), options.get("thousands_separator", "")
    signed: dict[str | None, tuple[str, str]] = {}
    for text in chain.from_iterable(columns):
        match = SIGNED.fullmatch(text)
        if match and match.lastgroup not in signed and (number := _read(text, decimal, thousands)):
            signed[match.lastgroup] = text, number
    text = next((signed[way][0] for way in candidates if way in signed), "")
    if not text:
        return [""] * len(candidates)
    return [_example(*signed[way]) if way in signed else _example(text, None) for way in candidates]


def _null_strings(candidates: Sequence[str | None], _: Sequence[_Texts], __: Mapping[str, Any]) -> list[str]:
    word = next(word for word in candidates if word is not None).strip()
    return [
        f"{candidate.strip()} is NULL" if candidate is not None else f"{word} is a text" for candidate in candidates
    ]


_OF_VALUES: dict[str, Callable[[Sequence[Any], Sequence[_Texts], Mapping[str, Any]], list[str]]] = {
    "date_format": _times,
    "timestamp_format": _times,
    "decimal_separator": _decimals,
    "thousands_separator": _thousands,
    "negative_numbers": _negative_numbers,
    "null_string": _null_strings,
}


def _cells(row: Row | None) -> str:
    if row is None:
        return ""
    cells = [cell.strip() for cell in row.cells]
    shown = " | ".join(_cut(cell, 20) for cell in cells[:_MOST_CELLS])
    return f"{shown} | …" if len(cells) > _MOST_CELLS else shown


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
