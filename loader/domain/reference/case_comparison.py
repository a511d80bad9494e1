"""Comparison of a history with the one that a case expects: by type, in any order, and only of the named fields.

Decimals are compared by number, times as instants, NaN equals NaN and -0.0 equals 0.0; a field that a row lacks is
NULL. Every row must be expected exactly once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.domain.reference.values import DoesNotFit, as_json, canonical, typed
from metadata.domain.history.history_policy import (
    BATCH_FILES,
    LOAD_TIME,
    HistoryPolicy,
)
from metadata.domain.types import BIGINT, BOOLEAN, INTEGER, STRING, TIMESTAMP, DataType

_SHOWN = 5
_INTERVAL = ("valid_from", "valid_to")
_RUNS = ("opened_by", "closed_by")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Comparison of the rows of one case: columns by their type, the interval by that of the time column."""

    columns: Mapping[str, DataType]
    policy: HistoryPolicy

    def differences(self, expected: Iterable[Row], actual: Iterable[Row]) -> list[str]:
        """Return missing and unexpected rows as messages; none if all rows match."""
        wanted, present = list(expected), list(actual)
        texts = [self._texts(row) for row in present]
        pairs = self._pairs([self._texts(row) for row in wanted], texts)
        missing = [row for place, row in enumerate(wanted) if place not in pairs]
        matched = set(pairs.values())
        names = list(dict.fromkeys(name for row in wanted for name in row)) or list(present[0] if present else ())
        extra = [{name: row.get(name) for name in names} for place, row in enumerate(present) if place not in matched]
        parts = []
        if len(wanted) != len(present):
            parts.append(f"{len(wanted)} versions were expected, {len(present)} are there")
        return parts + self._list("expected", missing) + self._list("not expected", extra)

    def same(self, left: Iterable[Row], right: Iterable[Row]) -> bool:
        """Return True if two tables are equal in every field."""
        return sorted(map(repr, map(self._sorted_texts, left))) == sorted(map(repr, map(self._sorted_texts, right)))

    def ordered(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows sorted by content, so that equal tables have equal output."""
        return sorted(rows, key=lambda row: repr(self._sorted_texts(row)))

    def _sorted_texts(self, row: Row) -> list[tuple[str, str | None]]:
        return sorted((name, text) for name, text in self._texts(row).items() if text is not None)

    def _texts(self, row: Row) -> dict[str, str | None]:
        return {name: self._text(name, value) for name, value in row.items()}

    def _text(self, name: str, value: Any) -> str | None:
        """Return the canonical text of a value, by which two values of a field are equal."""
        if name == "valid_to" and self._is_open_end(value):
            return None
        if isinstance(value, str | int | float | dict | list):
            # Values from JSON, and texts and numbers from an engine, are converted to the column's type.
            try:
                value = typed(value, self._type(name, value))
            except DoesNotFit:
                return f"does not fit: {value!r}"
        return canonical(value)

    def _type(self, name: str, value: Any) -> DataType:
        if name in _INTERVAL:
            own = self.policy.time != LOAD_TIME and self.policy.input != BATCH_FILES
            dated = self.columns.get(self.policy.time) if own else None
            # A date may be written as its midnight, so dates are compared as timestamps.
            return dated if dated is not None and dated.name in (INTEGER, BIGINT) else DataType(TIMESTAMP)
        if name in self.columns:
            return self.columns[name]
        return DataType(BOOLEAN if isinstance(value, bool) else STRING)

    def _is_open_end(self, value: Any) -> bool:
        """Return True if an end is open: null in cases, even if the policy stores a high date."""
        if value is None or self.policy.open_end is None:
            return value is None
        end = typed(self.policy.open_end, DataType(TIMESTAMP))
        return canonical(typed(value, DataType(TIMESTAMP)) if isinstance(value, str) else value) == canonical(end)

    def _pairs(
        self, wanted: Sequence[Mapping[str, str | None]], actual: Sequence[Mapping[str, str | None]]
    ) -> dict[int, int]:
        """Return as many pairs as possible of an expected row and an actual row with its values.

        Rows may have different fields: an actual row may match several expected ones, some of which match other rows,
        too.
        """
        fits = [
            [place for place, row in enumerate(actual) if all(row.get(name) == text for name, text in texts.items())]
            for texts in wanted
        ]
        owner: dict[int, int] = {}
        for start in sorted(range(len(wanted)), key=lambda place: len(fits[place])):
            _augment(start, fits, owner)
        return {row: place for place, row in owner.items()}

    def _list(self, label: str, rows: Sequence[Row]) -> list[str]:
        shown = [self._shown(row) for row in rows[:_SHOWN]]
        if len(rows) > _SHOWN:
            shown.append(f"and {len(rows) - _SHOWN} more")
        return [f"{label}: {' · '.join(shown)}"] if rows else []

    def _shown(self, row: Row) -> str:
        fields = [f"{name}={as_json(value)}" for name, value in row.items() if name not in (*_INTERVAL, *_RUNS)]
        interval = [as_json(row.get(name)) for name in _INTERVAL]
        return f"{{{', '.join(fields)}}} from {interval[0]} to {interval[1] or 'open'}"


def _augment(start: int, fits: list[list[int]], owner: dict[int, int]) -> bool:
    """Assign a row to ``start``, and reassign rows of others if necessary (breadth-first search)."""
    came_from: dict[int, int] = {}
    queue = [start]
    for row in queue:
        for place in fits[row]:
            if place in came_from:
                continue
            came_from[place] = row
            if place not in owner:
                _reassign(place, start, came_from, owner)
                return True
            queue.append(owner[place])
    return False


def _reassign(place: int, start: int, came_from: dict[int, int], owner: dict[int, int]) -> None:
    places = {row: at for at, row in owner.items()}
    while True:
        row = came_from[place]
        owner[place] = row
        if row == start:
            return
        place = places[row]
