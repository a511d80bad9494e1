"""Last operation of each key, by the rule of the view ``operations``.

I and U: the newest run opened the version, without or with one that it follows. D: the key ended. N: the newest run
delivered the key as it was. X: the newest run did not deliver an open key.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

Key = tuple[Any, ...]
Operation = tuple[str, Any]


def last_operations(
    versions: Mapping[Key, Sequence[tuple[Any, Any]]], newest: Any, delivered: Collection[Key]
) -> dict[Key, Operation]:
    """Return operation and effective date of each key.

    ``versions`` are the half-open intervals of live versions by key, in order; the end of an open one is None.
    ``newest`` is the time of the newest run, which dates what it changed and what it did not deliver.
    """
    return {key: _last(intervals, newest, key in delivered) for key, intervals in versions.items()}


def _last(intervals: Sequence[tuple[Any, Any]], newest: Any, is_delivered: bool) -> Operation:
    start, end = intervals[-1]
    if end is not None:
        return "D", end
    if start == newest:
        return "U" if len(intervals) > 1 and intervals[-2][1] == start else "I", start
    return ("N", start) if is_delivered else ("X", newest)
