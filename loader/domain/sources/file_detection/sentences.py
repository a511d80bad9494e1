"""Sentences about how a file is read."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from loader.domain.sources.file_detection.model import Detected
from metadata.domain.sources.formats import CSV, label_of
from metadata.domain.sources.option_kinds import names_of
from metadata.domain.sources.value_formats import BRACKETS, SPACED, TRAILING

_SIGNS = {
    "\t": "tab", " ": "blank", "\u00a0": "no-break space", "\u202f": "narrow no-break space", ",": "comma",
    ";": "semicolon", "|": "vertical bar", ".": "point", "'": "apostrophe", "’": "apostrophe", ":": "colon",
}  # fmt: skip
_DATES = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%-m": "M", "%-d": "D", "%b": "Mon", "%B": "Month", "%H": "HH",
    "%-H": "H", "%I": "hh", "%-I": "h", "%M": "MM", "%S": "SS", "%f": "fractions", "%p": "AM/PM", "%z": "+00:00",
}  # fmt: skip
NEGATIVE_EXAMPLES = {TRAILING: "5-", BRACKETS: "(5)", SPACED: "- 5"}
_EXAMPLE = {
    "%Y": "2026", "%y": "26", "%m": "12", "%d": "31", "%-m": "12", "%-d": "31", "%b": "Dec", "%B": "December",
    "%H": "18", "%-H": "18", "%I": "06", "%-I": "6", "%M": "30", "%S": "05", "%f": "250", "%p": "PM", "%z": "+01:00",
}  # fmt: skip


def description(detected: Detected) -> str:
    """Return how a file is read, like ``Read as CSV in windows-1252, fields separated by semicolons.``."""
    sentences = reading_sentences(detected.format, detected.options)
    if detected.pattern:
        sentences.append(f"The name has a date: files like {detected.pattern}.")
    return " ".join(sentences)


def reading_sentences(format_name: str, options: Mapping[str, Any]) -> list[str]:
    """Return sentences about reading options: format, header, lines and columns left out, and formats of values."""
    sentences = [f"Read as {_format(format_name, options)}."]
    if options.get("header") is False:
        sentences.append("The first line is a record: columns are numbered.")
    elif (lines := options.get("header_lines", 1)) > 1:
        sentences.append(f"The header has {lines} lines.")
    if "repeated_names" in options:
        sentences.append("Repeated names are numbered.")
    if left_out := _left_out(options):
        sentences.append(f"Left out: {'; '.join(left_out)}.")
    if values := _values(options):
        sentences.append(f"Values: {', '.join(values)}.")
    return sentences


def notes_of_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the note about a CSV file of one column that may have several; nothing for other names."""
    if len(names) == 1 and any(sign in names[0] for sign in ";\t|,"):
        return ("The file has one column only, and its name has a sign in it that may be the delimiter.",)
    return ()


def _format(format_name: str, options: Mapping[str, Any]) -> str:
    if format_name != CSV:
        return label_of(format_name)
    delimiter, quote = options.get("delimiter", ","), options.get("quote", '"')
    text = f"CSV in {options.get('encoding', 'UTF-8')}, fields separated by {_plural(delimiter)}"
    if quote != '"':
        text += f", quoted by {sign_name(quote)}" if quote else ", not quoted"
    return text


def _left_out(options: Mapping[str, Any]) -> list[str]:
    parts = []
    if skipped := options.get("skip_lines"):
        parts.append(f"{counted_lines(skipped)} before the header")
    if after := options.get("footer_lines"):
        parts.append(f"{counted_lines(after)} after the records")
    return parts + [_column(name) for name in names_of(options.get("ignored_columns"))]


def _column(name: str) -> str:
    nameless = re.fullmatch(r"\((column \d+)\)", name)
    return f"{nameless[1]}, which has no name" if nameless else f"column {name}"


def _values(options: Mapping[str, Any]) -> list[str]:
    parts = []
    decimal, thousands = options.get("decimal_separator", "."), options.get("thousands_separator") or ""
    if thousands or decimal != ".":
        parts.append(f"numbers like 1{thousands}234{decimal}56")
    for name, kind in (("date_format", "dates"), ("timestamp_format", "times")):
        if text := options.get(name):
            parts.append(f"{kind} like {_replaced(text, _EXAMPLE)}")
    if first := options.get("first_year"):
        parts.append(f"years of two digits from {first} on")
    if negative := options.get("negative_numbers"):
        parts.append(f"negative numbers like {NEGATIVE_EXAMPLES[negative]}")
    if "true_words" in options:
        parts.append(f"{options['true_words']} for true, {options.get('false_words', '')} for false")
    if null := options.get("null_string"):
        parts.append(f"{null.strip()} for no value")
    return parts


def counted_lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def sign_name(sign: str) -> str:
    """Return the name of a sign like a semicolon, or the sign itself."""
    return _SIGNS.get(sign, sign)


def _plural(sign: str) -> str:
    return f"{_SIGNS[sign]}s" if sign in _SIGNS else sign


def shown_format(text: str) -> str:
    """Return a format of dates as readers know it: ``DD.MM.YYYY`` for ``%d.%m.%Y``."""
    return _replaced(text, _DATES)


def _replaced(text: str, texts: Mapping[str, str]) -> str:
    for directive in sorted(texts, key=len, reverse=True):
        text = text.replace(directive, texts[directive])
    return text
