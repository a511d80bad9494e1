"""Strict canonical JSON: equal values have equal bytes on every machine, so that the bytes can be hashed.

The text is UTF-8, with keys in the order of their code points and without white space between tokens. Strings are not
normalised: two Unicode forms of a letter are different values. Only types with exactly one canonical text are
accepted: ``None``, ``bool``, ``int``, ``str``, ``list``, ``tuple`` (written as a list) and ``dict`` with ``str`` keys.
All other types, also subclasses of these, are refused with their path. Callers convert decimals, times and floats to
text.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

_LEAVES = frozenset({str, int, bool, type(None)})
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def canonical_json(value: object) -> bytes:
    """Return the canonical bytes of a value.

    Raises TypeError with the path of an unsupported type, and ValueError for text that UTF-8 cannot encode (a lone
    surrogate).
    """
    if not _is_canonical(value):
        _raise_for(value, "$")
    text = _ENCODER.encode(value)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        bad = text[max(error.start - 20, 0) : error.end].encode("ascii", "backslashreplace").decode()
        raise ValueError(f"text that UTF-8 can't hold has no canonical JSON: …{bad}") from error


def sha256_hex(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON as 64 lower-case hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _is_canonical(value: object) -> bool:
    """Return True if a value is canonical. It tracks no paths, so it is fast for states of thousands of datasets."""
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind in _LEAVES:
            continue
        if kind is dict:
            if any(type(key) is not str for key in item):
                return False
            pending.extend(item.values())
        elif kind is list or kind is tuple:
            pending.extend(item)
        else:
            return False
    return True


def _raise_for(value: Any, path: str) -> None:
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"{path}: the key {key!r} is {_name(type(key))}, keys must be str")
            _raise_for(item, f"{path}.{key}")
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            _raise_for(item, f"{path}[{index}]")
    elif kind not in _LEAVES:
        raise TypeError(f"{path}: {_name(kind)} has no canonical JSON; give it as str, int, bool, None, list or dict")


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
