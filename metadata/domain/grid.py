"""Cells of the column grid: text, parsing, order.

The column grid, pasting into it and the column's own form share it.
"""

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
