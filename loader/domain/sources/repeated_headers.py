"""Records of CSV that are the header again, as in files that were joined with their headers."""

from collections.abc import Sequence

from metadata.domain.text_formats import BLANKS

REPEATED_HEADER = "REPEATED_HEADER"
JOINED_HINT = "Files may have been joined with their headers: deliver each by itself, or one header only."
BYTE_ORDER_MARK = "\ufeff"
# One name may well be a value of its column.
_FEWEST_NAMES = 2


def may_be_repeated(names: Sequence[str]) -> bool:
    """Return True if a record with these values can only be a header."""
    return len(names) >= _FEWEST_NAMES


def repeats_header(record: Sequence[str], names: Sequence[str]) -> bool:
    """Return True if a record is the header again, with blanks or a byte order mark around its names."""
    return may_be_repeated(names) and [value.lstrip(BYTE_ORDER_MARK).strip(BLANKS) for value in record] == list(names)
