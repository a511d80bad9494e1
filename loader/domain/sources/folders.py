"""Values in the names of folders, like ``country=DE/day=2024-01-31``, as Hive, Spark and Arrow write them.

Names and values have special characters in the notation of URLs.
"""

from collections.abc import Iterable
from urllib.parse import unquote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def values_in(name: str) -> dict[str, str | None]:
    """Return the values in the folders of a file by its path below the source's location; the deepest folder wins."""
    return {unquote(column): value_of(value) for column, value in _pairs(name)}


def value_of(text: str) -> str | None:
    """Return the value that a folder's name contains as ``text``."""
    return None if text == _NULL else unquote(text)


def texts_of(column: str, names: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the spellings of a column's name in folders, and the texts of its values there."""
    pairs = [(key, value) for name in names for key, value in _pairs(name) if unquote(key) == column]
    return {key for key, _ in pairs}, {value for _, value in pairs}


def shared_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of which the folders of all files have a value."""
    first, *others = map(values_in, names)
    return tuple(column for column in first if all(column in values for values in others))


def without_values(folder: str) -> str:
    """Return the folder above those with values: ``sales`` for ``sales/country=DE``."""
    parts = folder.split("/")
    while parts and "=" in parts[-1].strip("="):
        parts.pop()
    return "/".join(parts)


def _pairs(name: str) -> list[tuple[str, str]]:
    folders = (folder.partition("=") for folder in name.split("/")[:-1])
    return [(column, value) for column, sign, value in folders if sign and column]
