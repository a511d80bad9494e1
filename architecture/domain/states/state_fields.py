"""Fields of state files: what each may hold, and how it is read.

Each reader takes a value as JSON has it and raises ValueError, saying what it must be.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from metadata.domain.state import ATTRIBUTE, BUSINESS_KEY, TECHNICAL
from metadata.domain.types import TypeProblem, parse

ROLES = (BUSINESS_KEY, ATTRIBUTE, TECHNICAL)
MATERIALIZATIONS = ("table", "view")

_TABLE_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
# Policies are never so deep; the next reader of JSON may have a limit of its own.
_DEEPEST = 100

Reader = Callable[[Any], Any]


def kind_of(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(
            f"must be text that can be seen, not {kind_of(value) if not isinstance(value, str) else 'blank'}"
        )
    if not value.isprintable() and any(ord(character) < 32 for character in value):
        raise ValueError("holds a control character")
    return _whole_characters(value)


def _whole_characters(text: str) -> str:
    """JSON can escape half a surrogate pair; no file, log or hash can hold it."""
    if not text.isascii() and any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ValueError("holds half a character (an escape \\ud800 to \\udfff without its other half)")
    return text


def _table_name(value: Any) -> str:
    if not _TABLE_NAME.fullmatch(_text(value)):
        raise ValueError(f"{value!r} must hold only A-Z, a-z, 0-9 and _: other table names cannot be published")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of texts, not {kind_of(value)}")
    return tuple(_text(item) for item in value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {kind_of(value)}")
    return value


def _sql(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"must be text or null, not {kind_of(value)}")
    return _whole_characters(value) if value else None


def _one_of(*choices: str) -> Reader:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    return read


def _policy(value: Any) -> dict | str | None:
    """A policy is compared here, not carried out, so what it may say is not checked. An empty one is none."""
    if value is not None and not isinstance(value, dict | str):
        raise ValueError(f"must be an object, text or null, not {kind_of(value)}")
    _refuse_inexact(value)
    return value or None


def _refuse_inexact(value: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise ValueError("is nested too deeply")
    if isinstance(value, float):
        raise ValueError(f"{value!r}: write it as text or as a whole number, a fraction has more than one spelling")
    if isinstance(value, str):
        _whole_characters(value)
    items = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        _refuse_inexact(item, depth + 1)


@lru_cache(maxsize=4096)
def _normal_type(text: str) -> str:
    return str(parse(text))


def _type(value: Any) -> str:
    try:
        return _normal_type(_text(value))
    except TypeProblem as problem:
        raise ValueError(problem.message) from None


STATE: Mapping[str, Reader] = {"format": lambda value: value, "datasets": lambda value: value}
DATASET: Mapping[str, Reader] = {
    "key": _text,
    "schema": _table_name,
    "name": _table_name,
    "former_names": _texts,
    "active": _truth,
    "materialization": _one_of(*MATERIALIZATIONS),
    "historize": _truth,
    "columns": lambda value: value,
}
OPTIONAL_DATASET: Mapping[str, Reader] = {
    "filter": _sql,
    "inputs": lambda value: () if value is None else _texts(value),
    "load_policy": _policy,
    "history_policy": _policy,
}
COLUMN: Mapping[str, Reader] = {
    "key": _text,
    "name": _text,
    "former_names": _texts,
    "type": _type,
    "nullable": _truth,
    "role": _one_of(*ROLES),
    "active": _truth,
    "expression": _sql,
    "inputs": _texts,
}
