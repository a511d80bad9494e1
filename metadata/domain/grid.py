"""Cells of the column grid: text, parsing, pasted blocks, order.

The column grid, pasting into it and the column's own form share it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from elevata.core.errors import MetadataError
from metadata.domain.sensitivity import parse_level
from metadata.domain.types import TypeProblem, parse

TEXT, LONG, CHOICE = "text", "long", "choice"


@dataclass(frozen=True)
class Cell:
    """Editable cell of a column.

    ``kind`` is its input control. ``clears``: an empty text clears the field; otherwise a text is required.
    """

    name: str
    label: str
    kind: str = TEXT
    clears: bool = True


NAME = Cell("name", "Name", clears=False)
CELLS = (
    Cell("type", "Type", clears=False),
    Cell("nullable", "Nullable", CHOICE, clears=False),
    Cell("role", "Role", CHOICE, clears=False),
    Cell("expression", "Expression", LONG),
    Cell("description", "Description", LONG),
    Cell("owner", "Owner"),
    Cell("tags", "Tags"),
    Cell("pii", "Personal data", CHOICE, clears=False),
    Cell("sensitivity", "Sensitivity", CHOICE),
)
BY_NAME = {cell.name: cell for cell in CELLS}
BOOLEAN = ("nullable", "pii")

BUSINESS_KEY, ATTRIBUTE, TECHNICAL = "business_key", "attribute", "technical"
YES, NO = "yes", "no"
_YES = frozenset(("yes", "y", "true", "t", "1", "x"))
_NO = frozenset(("no", "n", "false", "f", "0", "-"))
# Prefix of the position in the business key.
_KEY_WORDS = ("business key", "business_key", "key", "bk")
MAX_KEY_ORDINAL = 1000


def read_cell(name: str, text: str) -> dict[str, Any]:
    """Return the column fields that the cell's text sets.

    Raises MetadataError, naming the cell, for text that cannot be parsed.
    """
    text = text.replace("\r\n", "\n").strip()
    if not text and not BY_NAME[name].clears:
        raise MetadataError("invalid", "must say something", name)
    if name == "type":
        return {"type": _type(text)}
    if name in BOOLEAN:
        return {name: _yes_no(name, text)}
    if name == "role":
        return _role(text)
    if name == "sensitivity":
        return {name: parse_level(text)}
    if name == "tags":
        return {"tags": list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))}
    return {name: text}


def cell_text(name: str, values: Mapping[str, Any]) -> str:
    """Return the text of a cell for a column with these values, in the form that ``read_cell`` parses."""
    if name in BOOLEAN:
        return YES if values[name] else NO
    if name == "role":
        return role_text(values["role"], values["key_ordinal"])
    if name == "tags":
        return ", ".join(values["tags"])
    return str(values[name])


def role_text(role: str, key_ordinal: int | None) -> str:
    """Return the text of a role: ``attribute``, ``technical``, or ``business key 2``."""
    return f"business key {key_ordinal}" if role == BUSINESS_KEY else role


def role_choices(places: int) -> list[str]:
    """Return the texts of all roles in a dataset with this number of business key columns."""
    return [ATTRIBUTE, *(role_text(BUSINESS_KEY, place) for place in range(1, places + 1)), TECHNICAL]


def _type(text: str) -> Any:
    try:
        return parse(text)
    except TypeProblem as problem:
        raise MetadataError(problem.code, problem.message, "type") from None


def _yes_no(name: str, text: str) -> bool:
    word = text.lower()
    if word not in _YES | _NO:
        raise MetadataError("invalid", f"must be yes or no, not {text[:100]!r}", name)
    return word in _YES


def _role(text: str) -> dict[str, Any]:
    message = " ".join(text.lower().split())
    if message in (ATTRIBUTE, TECHNICAL):
        return {"role": message, "key_ordinal": None}
    for word in _KEY_WORDS:
        place = message.removeprefix(word).strip()
        if message.startswith(word) and place.isascii() and place.isdigit() and 1 <= int(place[:9]) <= MAX_KEY_ORDINAL:
            return {"role": BUSINESS_KEY, "key_ordinal": int(place)}
    raise MetadataError("invalid", f"must be attribute, technical or business key 1, 2 …, not {text[:100]!r}", "role")


# Parsing of text pasted from a spreadsheet, and its mapping to the grid of a dataset's columns.


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


# Moves of a column within the order of its dataset's columns.


T = TypeVar("T")


def moved_item(order: Sequence[T], item: T, by: int, beside: Callable[[T], bool]) -> list[T]:
    """Return ``order`` with ``item`` moved ``by`` places (negative: up) among some of its items.

    ``beside`` is true for the items that count as places. The others are skipped and stay in order. The move
    stops at either end.
    """
    group = [other for other in order if other == item or beside(other)]
    at = group.index(item)
    to = min(max(at + by, 0), len(group) - 1)
    if to == at:
        return list(order)
    neighbour = group[to]
    rest = [other for other in order if other != item]
    place = rest.index(neighbour) + (1 if to > at else 0)
    return [*rest[:place], item, *rest[place:]]
