"""Examples from a file: a text of it as each candidate of a question reads it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from loader.domain.sources.file_detection.dialects import Dialect, Row
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.numbers import SIGNED
from loader.domain.sources.headers import joined_names
from metadata.domain.sources.value_formats import NEGATIVE_TEXT, TimeFormat

_MOST_CELLS, _LONGEST = 4, 60
_READ = 1 << 16  # bytes in which an example of a character set is searched
_AROUND = 20  # characters on each side of one beyond ASCII


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


def of_values(question: Question, columns: Mapping[str, Sequence[str]]) -> Question:
    """Return a question about the formats of values with an example for each candidate."""
    example = _OF_VALUES.get(question.option)
    if example is None or question.examples:
        return question
    texts = [text.strip() for values in columns.values() for text in values if text.strip()]
    return replace(question, examples=tuple(example(question.candidates, texts)))


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


def _times(candidates: Sequence[str | None], texts: Sequence[str]) -> list[str]:
    formats = [TimeFormat(text) if text is not None else None for text in candidates]

    def read(text: str) -> list[str | None]:
        return [shape.read(text) if shape is not None else None for shape in formats]

    # A text that the candidates read as different days shows most.
    best = max(texts[:2000], key=lambda text: (any(read(text)), len(set(read(text)))), default="")
    answers = zip(formats, read(best), strict=True) if best else ()
    return [time_example(best, shape, text) for shape, text in answers] or [""] * len(candidates)


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
_NUMBER = re.compile(r"[+-]?\d[\d.,' \u00a0\u202f’_]*\d")


def _numbers(texts: Sequence[str]) -> list[str]:
    """Return the numbers among texts, those that may be codes last."""
    numbers = [text for text in texts if _NUMBER.fullmatch(text)]
    return numbers + [text for text in texts if SIGNED.fullmatch(text) and _NUMBER.fullmatch(_sign_first(text))]


def _sign_first(text: str) -> str:
    """Return a number like 12,50- or (12,50) with the minus before it, and other texts as they are."""
    return re.sub(NEGATIVE_TEXT, r"-\1", text)


def _decimals(candidates: Sequence[str], texts: Sequence[str]) -> list[str]:
    text = next((text for text in _numbers(texts) if "." in text or "," in text), "")
    if not text:
        return [""] * len(candidates)
    return [f"{text} is {_read_number(_sign_first(text), decimal)}" for decimal in candidates]


def _read_number(text: str, decimal: str) -> str:
    whole, _, fraction = text.rpartition(decimal) if text.count(decimal) == 1 else (text, "", "")
    digits = re.sub(r"[^\d+-]", "", whole)
    return f"{digits}.{fraction}" if fraction else digits


def _thousands(candidates: Sequence[str | None], texts: Sequence[str]) -> list[str]:
    numbers = _numbers(texts)
    examples = []
    for sign in candidates:
        text = next((text for text in numbers if sign and sign in text), "")
        examples.append(f"{text} is {_sign_first(text).replace(sign or '', '')}" if text else "")
    return examples


def _negative_numbers(candidates: Sequence[str | None], texts: Sequence[str]) -> list[str]:
    signed = {match.lastgroup: text for text in reversed(texts) if (match := SIGNED.fullmatch(text))}
    text = next((signed[way] for way in candidates if way in signed), "")
    if not text:
        return [""] * len(candidates)
    return [
        f"{signed[way]} is {_sign_first(signed[way])}" if way in signed else f"{text} is a text" for way in candidates
    ]


_OF_VALUES: dict[str, Callable[[Sequence[Any], Sequence[str]], list[str]]] = {
    "date_format": _times,
    "timestamp_format": _times,
    "decimal_separator": _decimals,
    "thousands_separator": _thousands,
    "negative_numbers": _negative_numbers,
}


def _cells(row: Row | None) -> str:
    if row is None:
        return ""
    cells = [cell.strip() for cell in row.cells]
    shown = " | ".join(_cut(cell, 20) for cell in cells[:_MOST_CELLS])
    return f"{shown} | …" if len(cells) > _MOST_CELLS else shown


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
