"""Canonical text of a JSON document, by which values of the type json are compared."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from operator import itemgetter
from typing import Any

_TOKEN = re.compile(r'[ \t\n\r]*(?:("(?:[^"\\\x00-\x1f]|\\.)*")|([\[\]{},:])|([^ \t\n\r\[\]{},:"]+))', re.DOTALL)
_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,18}))?")
_WORDS = {True: "true", False: "false", None: "null"}
_MOST_ZEROS = 40
_SURROGATE = re.compile("[\ud800-\udfff]")


class _NotJson(ValueError):
    """Error raised for a text that is not one JSON value."""


def compared_json(text: str) -> str:
    """Return a JSON text in one form, whatever its nesting; a text that is not one JSON value unchanged.

    Members of an object are sorted by key. Members of one key keep their order: readers take the first, the last or
    all of them, so each of them counts.
    """
    try:
        return _written(json.loads(text, object_pairs_hook=_object, **_NUMBERS))
    except ValueError:
        return text
    except RecursionError:
        return _deep_json(text)


class _Written(str):
    """Part of a document in its one form."""


def _written(value: Any) -> str:
    """Return a parsed value in its one form; its objects and numbers have it already."""
    match value:
        case _Written():
            return value
        case str():
            return _string(value)
        case list():
            return f"[{','.join(map(_written, value))}]"
    return _WORDS[value]


def _object(members: list[tuple[str, Any]]) -> _Written:
    return _Written(_sorted([(_string(key), _written(value)) for key, value in members]))


def _sorted(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in sorted(members, key=itemgetter(0))) + "}"


def _string(text: str) -> str:
    plain = encode_basestring(text)
    return plain if plain.isascii() or not _SURROGATE.search(plain) else encode_basestring_ascii(text)


@lru_cache(maxsize=10_000)
def _number(text: str) -> _Written:
    """Return a number in one form, with an exponent only if it needs many zeros."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _NotJson
    sign, whole, fraction, exponent = match.groups(default="")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return _Written("0")
    power = int(exponent or "0") - len(fraction) + len(digits) - len(significant)
    return _Written(sign + _plain(significant, power))


def _plain(digits: str, power: int) -> str:
    """Return digits times a power of ten."""
    if abs(power) > _MOST_ZEROS:
        return f"{digits}e{power}"
    if power >= 0:
        return digits + "0" * power
    whole = digits.rjust(1 - power, "0")
    return f"{whole[:power]}.{whole[power:]}"


def _no_number(text: str) -> None:
    raise _NotJson


_NUMBERS: dict[str, Any] = {"parse_int": _number, "parse_float": _number, "parse_constant": _no_number}


def _deep_json(text: str) -> str:
    """Return the same form of JSON that is nested deeper than calls, built without recursion."""
    try:
        tokens = _tokens(text)
        value = _value(tokens)
    except ValueError:
        return text
    return value if next(tokens, None) is None else text


def compared_json_column(text: str | None) -> str | None:
    """Return the compared text of a value of a json column in a Python task of Spark; None for NULL.

    Spark's reader of Python's answers knows no subclass of ``str``.
    """
    return None if text is None else str(compared_json(text))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens as pairs: a structural character and an empty text, or an empty text and a scalar."""
    place, end = 0, len(text.rstrip(" \t\n\r"))
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            raise _NotJson
        place = match.end()
        string, structural, other = match.groups()
        if structural:
            yield structural, ""
        else:
            yield "", _string(json.loads(string)) if string else _scalar(other)


def _scalar(text: str) -> str:
    return text if text in _WORDS.values() else _number(text)


def _value(tokens: Iterator[tuple[str, str]]) -> str:
    """Return the next value. It is built without recursion, because json may be nested deeper than calls."""
    stack: list[list[Any]] = []  # a list begins with its bracket; an object's members are pairs
    while True:
        value = _begun(tokens, stack)
        while value is not None:
            if not stack:
                return value
            value = _added(tokens, stack, value)


def _begun(tokens: Iterator[tuple[str, str]], stack: list[list[Any]]) -> str | None:
    """Read the beginning of a value. Return it if it is complete, else None with its container on the stack."""
    structural, scalar = _next(tokens)
    if scalar:
        return scalar
    if structural not in ("[", "{"):
        return _closed_empty(structural, stack)
    stack.append([structural])
    if structural == "{":
        return _key(tokens, stack)
    return None


def _closed_empty(structural: str, stack: list[list[Any]]) -> str:
    """Return an empty array whose end was read in place of a value."""
    if structural != "]" or not stack or stack[-1] != ["["]:
        raise _NotJson
    stack.pop()
    return "[]"


def _key(tokens: Iterator[tuple[str, str]], stack: list[list[Any]]) -> str | None:
    """Read the key of the next member, and its colon; return an object that ends without one."""
    structural, key = _next(tokens)
    if structural == "}" and stack[-1] == ["{"]:
        stack.pop()
        return "{}"
    if not key.startswith('"') or _next(tokens)[0] != ":":
        raise _NotJson
    stack[-1].append([key, ""])
    return None


def _added(tokens: Iterator[tuple[str, str]], stack: list[list[Any]], value: str) -> str | None:
    """Add a value to the innermost container. Return the container if it ends, else None before the next value."""
    bracket, *members = container = stack[-1]
    if bracket == "[":
        container.append(value)
    else:
        members[-1][1] = value
    structural, _ = _next(tokens)
    if structural == ",":
        if bracket == "[":
            return None
        if _key(tokens, stack) is not None:
            raise _NotJson
        return None
    stack.pop()
    if structural == "]" and bracket == "[":
        return f"[{','.join(container[1:])}]"
    if structural == "}" and bracket == "{":
        return _sorted(members)
    raise _NotJson


def _next(tokens: Iterator[tuple[str, str]]) -> tuple[str, str]:
    token = next(tokens, None)
    if token is None:
        raise _NotJson
    return token
