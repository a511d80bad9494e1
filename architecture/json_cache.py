"""Rows' JSON as values, read once in a process for as long as a row was not written again.

Reports, drift and ways back read what was applied and seen of all datasets; of thousands, hardly any row
has moved since the last time.
"""

from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet

Value = TypeVar("Value")
# More than these are read with all the others, not by their keys.
_BY_KEY = 500


class Parsed(Generic[Value]):
    """Parsed JSON of ``column``, made by ``read``; ``stamp`` is the time of a row's last write.

    A row that was written again has another stamp; one whose transaction was taken back never comes again
    with the same. The newest ``most`` values are kept. They are shared, so nobody may change them.
    """

    def __init__(self, read: Callable[[Any], Value], *, column: str, stamp: str, most: int = 20_000) -> None:
        self._read, self._fields, self._most = read, ("pk", stamp, column), most
        self._kept: dict[tuple[int, datetime], Value] = {}
        self._lock = Lock()

    def by_pk(self, rows: QuerySet) -> dict[int, Value]:
        """The values of these rows, in their order: in one query, and one more for what is not known yet."""
        stamps = list(rows.values_list(*self._fields[:2]))
        found = {pk: self._kept.get((pk, stamp)) for pk, stamp in stamps}
        missing = [pk for pk, value in found.items() if value is None]
        if missing:
            # A row that was written between the two queries counts as it is now; one that went is left out.
            found |= self._fetched(rows.filter(pk__in=missing) if len(missing) <= _BY_KEY else rows)
        return {pk: value for pk, value in found.items() if value is not None}

    def _fetched(self, rows: QuerySet) -> dict[int, Value]:
        fresh = {(pk, stamp): self._read(json) for pk, stamp, json in rows.values_list(*self._fields)}
        with self._lock:
            self._kept |= fresh
            for oldest in list(self._kept)[: max(0, len(self._kept) - self._most)]:
                del self._kept[oldest]
        return {pk: value for (pk, _), value in fresh.items()}
