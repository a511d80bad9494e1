"""Cache of parsed JSON columns per process.

Reports, drift and undo read the states of all datasets, of which few change between two reads.
"""

from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet

Value = TypeVar("Value")
# Up to this number of missing rows are read by primary key; otherwise all rows are read.
_MAX_BY_KEY = 500


class Parsed(Generic[Value]):
    """Cache of a JSON column, parsed by ``read``. ``stamp`` is the column with the time of a row's last write.

    Every write gives a row a new stamp, and a stamp that was rolled back never recurs. The newest ``most`` values
    are cached. They are shared, so callers must not change them.
    """

    def __init__(self, read: Callable[[Any], Value], *, column: str, stamp: str, most: int = 20_000) -> None:
        self._read, self._fields, self._most = read, ("pk", stamp, column), most
        self._cache: dict[tuple[int, datetime], Value] = {}
        self._lock = Lock()

    def by_pk(self, rows: QuerySet) -> dict[int, Value]:
        """Return the values of these rows, in order, with one query, and a second one for rows not in the cache."""
        stamps = list(rows.values_list(*self._fields[:2]))
        values = {pk: self._cache.get((pk, stamp)) for pk, stamp in stamps}
        missing = [pk for pk, value in values.items() if value is None]
        if missing:
            # A row that was written between the two queries has its new value; a deleted row is left out.
            values |= self._fetch(rows.filter(pk__in=missing) if len(missing) <= _MAX_BY_KEY else rows)
        return {pk: value for pk, value in values.items() if value is not None}

    def _fetch(self, rows: QuerySet) -> dict[int, Value]:
        fresh = {(pk, stamp): self._read(json) for pk, stamp, json in rows.values_list(*self._fields)}
        with self._lock:
            self._cache |= fresh
            for oldest in list(self._cache)[: max(0, len(self._cache) - self._most)]:
                del self._cache[oldest]
        return {pk: value for (pk, _), value in fresh.items()}
