"""Positions of values in a JSON text, for errors with line and column."""

import json
import re

from elevata.core.strict_fields import Path

_BLANK = re.compile(r"[ \t\n\r]*")


def offset_of(text: str, path: Path) -> int:
    """Return the offset of the value at ``path`` in a JSON text; if it is missing, that of its parent."""
    decoder, at = json.JSONDecoder(), _after_blanks(text, 0)
    for part in path:
        position = _member(text, at, part, decoder)
        if position is None:
            break
        at = position
    return at


def _after_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _member(text: str, at: int, part: str | int, decoder: json.JSONDecoder) -> int | None:
    is_object, index = text[at] == "{", 0
    if text[at] not in "{[":
        return None
    at = _after_blanks(text, at + 1)
    while text[at] not in "}]":
        name: str | int = index
        if is_object:
            name, at = decoder.raw_decode(text, at)
            at = _after_blanks(text, _after_blanks(text, at) + 1)
        if name == part:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _after_blanks(text, at)
        if text[at] == ",":
            at, index = _after_blanks(text, at + 1), index + 1
    return None
