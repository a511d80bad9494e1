"""Signs of text that was read in another encoding than it was written in."""

import re
from collections.abc import Iterable, Sequence

from elevata.core.words import counted
from loader.domain.sources.repeated_headers import BYTE_ORDER_MARK

# Control characters that no text needs; windows-1252 has letters and signs at these bytes.
_C1 = re.compile("[\x80-\x9f]")


def has_c1_controls(text: str) -> bool:
    """Return True for a text with a control character from U+0080 to U+009F."""
    return _C1.search(text) is not None


def notes_of_texts(columns: Sequence[Iterable[str | None]], *, of_lines: bool) -> tuple[str, ...]:
    """Return the notes about rows with such characters, and in formats ``of_lines`` about those of joined files."""
    marks = sum((value or "").startswith(BYTE_ORDER_MARK) for value in columns[0]) if of_lines and columns else 0
    controls = sum(any(map(has_c1_controls, filter(None, row))) for row in zip(*columns, strict=True))
    warnings = ((joined_files_warning, marks), (c1_warning, controls))
    return tuple(warning(counted(count, "row")) for warning, count in warnings if count)


def c1_warning(counted_rows: str) -> str:
    """Return the warning about such characters; ``counted_rows`` is their number in words."""
    return (
        f"{counted_rows} with control characters from U+0080 to U+009F, loaded as they are: this is nearly always "
        "windows-1252 that was read in another encoding. Set the option encoding to windows-1252, or let the text be "
        "corrected where it was converted."
    )


def joined_files_warning(counted_rows: str) -> str:
    """Return the warning about rows that begin with a byte order mark; ``counted_rows`` is their number in words."""
    return (
        f"{counted_rows} with a byte order mark (U+FEFF) at the beginning, which is loaded as an invisible character "
        "of the first value: several files were probably joined into one. Deliver each file by itself."
    )


def encoding_hint(encoding: str) -> str:
    """Return what to do about bytes that are invalid in a source's encoding."""
    return f"Set the option encoding of the source to the file's encoding, or deliver the file in {encoding}."
