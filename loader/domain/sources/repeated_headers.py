"""Records of CSV that are the header again, as in files that were joined with their headers."""

from collections.abc import Sequence

from metadata.domain.text_formats import BLANKS

REPEATED_HEADER = "REPEATED_HEADER"
JOINED_HINT = (
    "Files may have been joined with their headers: deliver each by itself, or one header only. If the record is a "
    "row, set the option repeated_headers to keep."
)
BYTE_ORDER_MARK = "\ufeff"
# One name may well be a value of its column.
_FEWEST_NAMES = 2


def header_texts(fields: Sequence[str], null_string: str | None = None) -> tuple[str, ...]:
    """Return the fields of a header without blanks and a byte order mark around them; the text of NULL is empty."""
    texts = (field.lstrip(BYTE_ORDER_MARK).strip(BLANKS) for field in fields)
    return tuple("" if text == null_string else text for text in texts)


def may_be_repeated(header: Sequence[str]) -> bool:
    """Return True if a record with these texts can only be a header."""
    return len(list(filter(None, header))) >= _FEWEST_NAMES


def repeats_header(record: Sequence[str | None], header: Sequence[str]) -> bool:
    """Return True if a record has the texts of the header's last record (``header_texts``)."""
    return may_be_repeated(header) and header_texts([value or "" for value in record]) == tuple(header)
