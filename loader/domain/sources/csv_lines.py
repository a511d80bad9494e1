"""Lines of CSV texts, and the arguments by which Python's reader takes them apart."""

import csv
from typing import Any

# A field this long means a quote that is never closed. Reading on would fill the memory.
LONGEST_FIELD = 16_000_000  # characters
csv.field_size_limit(LONGEST_FIELD)  # of all readers; the limit of the csv module itself is 128 kB


def is_blank(line: str) -> bool:
    """Return True for a line without any character but blanks; such lines at the end of a file do not count."""
    return not line.strip(" \r\n")


def reader_arguments(delimiter: str, quote: str, escape: str) -> dict[str, Any]:
    """Return the arguments of ``csv.reader``; an empty quote or escape means none."""
    arguments: dict[str, Any] = {"delimiter": delimiter}
    if not quote:
        return arguments | {"quoting": csv.QUOTE_NONE}
    if escape == quote:
        return arguments | {"quotechar": quote}
    return arguments | {"quotechar": quote, "escapechar": escape or None, "doublequote": False}
