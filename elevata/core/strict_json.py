"""Strict JSON reader that refuses texts which programs read differently."""

import json
import re
from collections.abc import Callable
from typing import Any

# Much more than any value needs; some JSON readers refuse longer numbers.
MOST_DIGITS = 1000
# Escapes of halves of surrogate pairs, in a text without escaped backslashes.
HIGH_HALF, LOW_HALF = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
LONE_HALF = f"{HIGH_HALF}(?!{LOW_HALF})|(?<!{HIGH_HALF}){LOW_HALF}"
_LONE_HALF, _HALF = re.compile(LONE_HALF), re.compile(r"\\u[dD][89a-fA-F]")


class BadJson(ValueError):
    """Error of a text that is not strict JSON. ``line`` and ``column`` are 0 if unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def loads(text: str, *, parse_int: Callable[[str], Any] = int, parse_float: Callable[[str], Any] = float) -> Any:
    """Return the value of a JSON text. Raise BadJson.

    Refused are repeated names in an object, NaN and infinity, integers of more than ``MOST_DIGITS`` digits, halves of
    surrogate pairs, and too deep nesting.
    """
    check_surrogates(text)
    try:
        return decoder(parse_int=parse_int, parse_float=parse_float).decode(text)
    except json.JSONDecodeError as error:
        raise BadJson(f"{error.msg} (column {error.colno})", error.lineno, error.colno) from None
    except RecursionError:
        raise BadJson("nested too deeply") from None


def check_surrogates(text: str) -> None:
    """Raise BadJson for an escape of half a surrogate pair: no other program can store such a text."""
    if _HALF.search(text) and (lone := _LONE_HALF.search(text.replace("\\\\", "__"))):
        line, column = text.count("\n", 0, lone.start()) + 1, lone.start() - text.rfind("\n", 0, lone.start())
        raise BadJson(f"{lone[0]} is half of a surrogate pair (column {column})", line, column)


def decoder(*, parse_int: Callable[[str], Any] = int, parse_float: Callable[[str], Any] = float) -> json.JSONDecoder:
    """Return the decoder of ``loads``, for values within a text; it raises BadJson, JSONDecodeError, RecursionError."""
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_constant=_constant,
        parse_int=lambda digits: _integer(digits, parse_int),
        parse_float=parse_float,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise BadJson(f"the field {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return fields


def _constant(name: str) -> Any:
    raise BadJson(f"{name} is no value")


def _integer(digits: str, parse: Callable[[str], Any]) -> Any:
    if len(digits) > MOST_DIGITS:
        raise BadJson(f"a number has more than {MOST_DIGITS} digits ({digits[:20]}…)")
    return parse(digits)
