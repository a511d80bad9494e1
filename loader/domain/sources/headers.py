"""Names of columns in headers of CSV and workbooks."""

import re
from collections.abc import Sequence

# Line breaks, tabs and what else is a control character in a name, with the blanks around it.
_GAP = re.compile("[ \t-\r\x1c-\x1f\x85\u2028\u2029]+")


def column_names(fields: Sequence[str], *, numbered: bool = False) -> tuple[str, ...]:
    """Return the names of a header's fields without surrounding blanks; one without a name has its position.

    A line break in a name is a blank. ``numbered``: a repeated name gets a number by its position.
    """
    names = tuple(_GAP.sub(_blank, field.strip()) or f"(column {place})" for place, field in enumerate(fields, start=1))
    return _numbered(names) if numbered else names


def _blank(gap: re.Match[str]) -> str:
    """Return a blank for a gap with a control character, and a gap of blanks as it is."""
    return " " if gap[0].strip(" ") else gap[0]


def joined_names(lines: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of a header of several lines, their parts joined by a blank.

    A part also belongs to the columns to its right that have none in its line, if these and its own have one below:
    ``Sales,,Returns,`` over ``North,South,North,South`` gives ``Sales North``, ``Sales South`` and so on. A line drawn
    below names, like ``----,-----``, is no part of them.
    """
    lines = [line for line in lines if not is_drawn(line)] or lines
    width = max(map(len, lines))
    parts = [[*(field.strip() for field in line), *[""] * (width - len(line))] for line in lines]
    for number, line in enumerate(parts[:-1]):
        has_name_below = [any(below[place] for below in parts[number + 1 :]) for place in range(width)]
        spanning = ""
        for place in range(width):
            if line[place]:
                spanning = line[place] if has_name_below[place] else ""
            elif has_name_below[place]:
                line[place] = spanning
    return tuple(" ".join(filter(None, column)) for column in zip(*parts, strict=True))


def is_drawn(fields: Sequence[str]) -> bool:
    """Return True for fields that draw a line, as SQL clients do below the names of columns.

    Single signs like ``-,-`` are units or missing values.
    """
    is_line = not "".join("".join(fields).split()).strip("-=_+:")
    return is_line and any(pair in field for field in fields for pair in ("--", "==", "__"))


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; one that is there before, in any case, gets the first number from 2 that is free."""
    taken, result = {name.lower() for name in names}, list[str]()
    numbers: dict[str, int] = {}
    for name in names:
        numbered, number = name, numbers.get(name.lower(), 0)
        while number and numbered.lower() in taken:
            number += 1
            numbered = f"{name}_{number}"
        taken.add(numbered.lower())
        numbers[name.lower()] = max(number, 1)
        result.append(numbered)
    return tuple(result)
