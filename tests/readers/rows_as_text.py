"""Rows as text, independent of the reader."""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any


def rows_as_text(rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows in order, each with its values in the order of their columns' names."""
    return sorted([_text(row[name]) for name in sorted(row)] for row in rows)


def _utc(value: datetime) -> datetime:
    """Return an instant in UTC; an instant without a zone is local time."""
    if value.tzinfo is not None:
        return value.astimezone(UTC)
    # Python's own conversion fails near the year 10000.
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        seconds=time.mktime(value.timetuple()), microseconds=value.microsecond
    )


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return _utc(value).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)
