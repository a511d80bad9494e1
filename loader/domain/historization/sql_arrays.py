"""Spark SQL of structs and arrays, of which the folds are built."""

from collections.abc import Iterable

from metadata.domain.sql import quote_text


def let(name: str, value: str, body: str) -> str:
    """Return ``body`` with ``name`` bound to ``value``, which is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def struct(**fields: str) -> str:
    return f"named_struct({', '.join(f'{quote_text(name)}, {value}' for name, value in fields.items())})"


def any_of(conditions: Iterable[str]) -> str:
    parts = list(conditions)
    return f"({' OR '.join(parts)})" if parts else "false"


def last(array: str) -> str:
    """Return the last element of an array, or NULL."""
    return f"get({array}, size({array}) - 1)"


def append(array: str, element: str) -> str:
    return f"concat({array}, array({element}))"
