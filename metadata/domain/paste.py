"""Parsing of text pasted from a spreadsheet, and its mapping to the grid of a dataset's columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from elevata.core.errors import MetadataError
from metadata.domain.grid import CELLS, NAME

MAX_CHARACTERS = 500_000
MAX_LINES = 2_000
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(?=\t|\n|\Z)')
_PLAIN = re.compile(r"[^\t\n]*")
_ORDER = (NAME, *CELLS)
_CALLED = {word.lower(): cell.name for cell in _ORDER for word in (cell.name, cell.label)}


@dataclass(frozen=True)
class PastedLine:
    """Line of pasted text: ``row`` is the position of its column, None for a new column called ``name``.

    ``number`` is the line's number in the text, from 1, headings included.
    """

    number: int
    name: str
    row: int | None
    cells: dict[str, str]


class PasteProblem(MetadataError):
    """Error for pasted text that does not fit into the grid."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__("bad_paste", f"line {line}: {message}" if line else message, "text")


def read_block(text: str) -> list[list[str]]:
    """Return the lines of cells in text from a spreadsheet's clipboard.

    Tabs separate cells, line ends separate lines. A quoted cell may contain both, and quotes doubled. A quote
    that is not closed before the cell ends is an ordinary character.
    """
    if len(text) > MAX_CHARACTERS:
        raise PasteProblem(f"is longer than {MAX_CHARACTERS:,} characters")
    text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    lines: list[list[str]] = [[]]
    at = 0
    while True:
        quoted = _QUOTED.match(text, at)
        match = quoted or next(_PLAIN.finditer(text, at))
        lines[-1].append(quoted[1].replace('""', '"') if quoted else match[0])
        at = match.end()
        if at == len(text):
            return lines
        if text[at] == "\n":
            lines.append([])
        at += 1


def lay_out(block: Sequence[Sequence[str]], *, names: Sequence[str], row: int, cell: str) -> list[PastedLine]:
    """Return the lines of a pasted block, mapped to a grid of columns from the focused cell on.

    ``names`` are the grid's columns, ``row`` and ``cell`` the focused cell.

    If the first line has headings, they select the cells. If the block includes column names (it starts in
    the name cell, or has its heading), each line goes to the column of its name, and an unknown name is a new
    column. Raises PasteProblem for text that does not fit.
    """
    headings = [heading for text in block[0] if (heading := _CALLED.get(text.strip().lower()))]
    named = len(block[0]) > 1 and len(headings) == len(block[0])
    cells = headings if named else _from(cell)
    if len(set(cells)) != len(cells):
        raise PasteProblem("a heading stands there twice", 1)
    lines = [(number, list(line)) for number, line in enumerate(block, start=1)][1 if named else 0 :]
    lines = [(number, line) for number, line in lines if any(text.strip() for text in line)]
    if not lines:
        raise PasteProblem("there is nothing to paste")
    if len(lines) > MAX_LINES:
        raise PasteProblem(f"has more than {MAX_LINES:,} lines")
    for number, line in lines:
        if any(text.strip() for text in line[len(cells) :]):
            raise PasteProblem(f"has more cells than the grid has columns to the right ({len(cells)})", number)
    filled = [(number, dict(zip(cells, line, strict=False))) for number, line in lines]
    return _by_name(filled, names) if NAME.name in cells else _by_place(filled, names, row)


def _from(cell: str) -> list[str]:
    order = [entry.name for entry in _ORDER]
    if cell not in order:
        raise PasteProblem(f"there is no cell {cell!r} to begin in")
    return order[order.index(cell) :]


def _by_place(filled: list[tuple[int, dict[str, str]]], names: Sequence[str], row: int) -> list[PastedLine]:
    missing = row + len(filled) - len(names)
    if missing > 0:
        message = f"{missing} line{'s' if missing > 1 else ''} more than there are columns from here down"
        raise PasteProblem(f"{message}; to add columns, paste their names, too", filled[len(filled) - missing][0])
    return [PastedLine(number, names[row + at], row + at, cells) for at, (number, cells) in enumerate(filled)]


def _by_name(filled: list[tuple[int, dict[str, str]]], names: Sequence[str]) -> list[PastedLine]:
    known = {name.lower(): place for place, name in enumerate(names)}
    lines: list[PastedLine] = []
    seen: set[str] = set()
    for number, cells in filled:
        name = cells.pop(NAME.name).strip()
        if not name:
            raise PasteProblem("says no column's name", number)
        if name.lower() in seen:
            raise PasteProblem(f"column {name!r} stands there twice", number)
        seen.add(name.lower())
        lines.append(PastedLine(number, name, known.get(name.lower()), cells))
    return lines
