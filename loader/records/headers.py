"""Names of columns in the header of a delivery."""

import re
from collections.abc import Sequence

from loader.domain.refusals import Refusal

# Line breaks, tabs and what else is a control character in a name.
_BREAK = re.compile("[ \t]*[\t-\r\x1c-\x1f\x85\u2028\u2029]+[ \t]*")


def header_names(shown: str, fields: Sequence[str], row: int = 1, *, numbered: bool = False) -> tuple[str, ...]:
    """Return a header's names without surrounding blanks; a column without a name is named by its position.

    A line break in a name is a blank. ``numbered``: a repeated name gets a number by its position.
    Raise Refusal EMPTY_FILE, UNREADABLE_HEADER or DUPLICATE_COLUMN.
    """
    if not fields:
        raise Refusal(
            "EMPTY_FILE",
            f"{shown} is empty: it has not even a header",
            file=shown,
            hint="A delivery without rows still names its columns in its first line.",
        )
    for place, field in enumerate(fields, start=1):
        if "\0" in field:
            raise Refusal(
                "UNREADABLE_HEADER",
                f"{shown}: the name of column {place} in the header has a NUL byte",
                file=shown,
                row=row,
                hint="The file may be UTF-16 or no text: say its encoding in the source's options, or deliver another.",
            )
    names = tuple(
        _BREAK.sub(" ", field.strip()) or f"(column {place})" for place, field in enumerate(fields, start=1)
    )
    if numbered:
        return _numbered(names)
    repeated = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    if repeated:
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{shown}: the header names {', '.join(repeated[:5])} more than once",
            file=shown,
            row=row,
            column=repeated[0],
            count=len(repeated),
            samples=repeated[:5],
            hint="Every column needs a name of its own: ask for another delivery, let the option repeated_names of "
            "CSV number them, or say that the file has no header.",
        )
    return names


def joined_names(lines: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of a header of several lines, their parts joined by a blank.

    A part also belongs to the columns to its right that have none in its line, if these and its own have one below:
    ``Sales,,Returns,`` over ``North,South,North,South`` gives ``Sales North``, ``Sales South`` and so on.
    """
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


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names; one that is there before, in any case, gets the first number from 2 that is free."""
    taken, result = {name.lower() for name in names}, list[str]()
    seen: set[str] = set()
    for name in names:
        numbered, number = name, 1
        if name.lower() in seen:
            while numbered.lower() in taken:
                number += 1
                numbered = f"{name}_{number}"
            taken.add(numbered.lower())
        seen.add(name.lower())
        result.append(numbered)
    return tuple(result)
