"""CSV files for spreadsheets (RFC 4180): quoted values, NULL without quotation marks, no formulas."""

import re
from collections.abc import Iterable, Iterator, Sequence

# Prefixes by which spreadsheets recognise formulas, full-width forms included.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    """Return the rows as CSV for a spreadsheet: every value in quotation marks, NULL without any.

    A text that a spreadsheet would interpret as a formula begins with an apostrophe; numbers are unchanged.
    """
    return "".join(safe_csv_lines((columns, *rows)))


def safe_csv_lines(rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    """Yield each row as a line of ``csv_text``."""
    return (csv_line(map(_no_formula, row)) for row in rows)


def _no_formula(value: str | None) -> str | None:
    if value is None or not value.lstrip(" ").startswith(_FORMULA) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def unguarded(value: str) -> str:
    """Return a cell of ``csv_text`` without the apostrophe before what a spreadsheet would take as a formula."""
    text = value.removeprefix("'")
    return text if _no_formula(text) != text else value


def csv_line(values: Iterable[str | None]) -> str:
    """Return one line of CSV."""
    return ",".join(map(_quote, values)) + "\r\n"


def _quote(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'
