"""Line ends of fixed-width files, and text that no column has."""

from collections.abc import Sequence

from loader.contract.refusals import Refusal
from metadata.domain.sources.reading_options import ReadingOptions

# Bytes that end a line in EBCDIC, and the characters that Python decodes them to: line feed and next line.
EBCDIC_LINE_ENDS = {"\x25": "\n", "\x15": "\x85"}


def check_encoding(shown: str, options: ReadingOptions) -> None:
    """Raise Refusal BAD_OPTION for an encoding of two bytes or more per character: lines are split at bytes."""
    if options.is_wide:
        raise Refusal(
            "BAD_OPTION",
            f"{shown}: lines of fixed width cannot be read in {options.encoding}",
            hint="Deliver them in UTF-8 or in a character set of one byte per character.",
        )


def ebcdic_line_end(beginning: bytes) -> str:
    """Return the byte that ends the lines of an EBCDIC file, as an ASCII character: the first one that occurs."""
    places = {end: beginning.find(end.encode("ascii")) for end in EBCDIC_LINE_ENDS}
    ends = {place: end for end, place in places.items() if place >= 0}
    return ends[min(ends)] if ends else "\x25"


def problem_of(line: str, positions: Sequence[tuple[str, int, int]]) -> str:
    """Return why a line does not fit columns of (name, first, last position)."""
    last = max(end for _, _, end in positions)
    if len(line) < last:
        return f"the line has {len(line)} characters and ends before its last column does, at {last}"
    if any(end in line for end in EBCDIC_LINE_ENDS.values()):
        return "the line has another line end within"
    return f"the line has text after its last column, which ends at {last}: {line[last : last + 40].strip()!r}"


HINT = (
    "Deliver lines that end with the last column, each with a line end. Name text that follows as a column and leave "
    "it out with the option ignored_columns; set short_lines if blanks at the end of lines are left out."
)
