"""Rows as text, the same whichever reader they come from."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any


def rows_as_text(rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows in order, each with its values in the order of their columns' names."""
    return sorted([_text(row[name]) for name in sorted(row)] for row in rows)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)
