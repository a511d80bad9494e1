"""Helpers for the Spark SQL of the folds."""

from collections.abc import Callable, Iterable

Maker = Callable[[str], str]


def let(name: str, value: str, body: str) -> str:
    """Return ``body`` with ``name`` bound to ``value``, which is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def text(value: str) -> str:
    """Return a string literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def struct(**fields: str) -> str:
    return f"named_struct({', '.join(f'{text(name)}, {value}' for name, value in fields.items())})"


def any_of(conditions: Iterable[str]) -> str:
    found = list(conditions)
    return f"({' OR '.join(found)})" if found else "false"


def last(array: str) -> str:
    """Return the last element of an array, or NULL."""
    return f"get({array}, size({array}) - 1)"


def append(array: str, element: str) -> str:
    return f"concat({array}, array({element}))"
