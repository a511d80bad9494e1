"""Comparison of a history with the expected one: by type, in any order, and only of the named fields.

Decimals compare by number, times as instants, NaN equals NaN and -0.0 equals 0.0; a field that is
missing from a row is NULL. Every row must be expected exactly once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loader.domain.reference.values import DoesNotFit, as_json, canonical, typed
from metadata.domain.history_policy import BATCH_FILES, LOAD_TIME, HistoryPolicy
from metadata.domain.types import BIGINT, BOOLEAN, INTEGER, STRING, TIMESTAMP, DataType

_SHOWN = 5
_INTERVAL = ("valid_from", "valid_to")
_RUNS = ("opened_by", "closed_by")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """Comparison of the rows of one case: each column by its type, the interval by the time column's."""

    columns: Mapping[str, DataType]
    policy: HistoryPolicy

    def differences(self, expected: Iterable[Row], actual: Iterable[Row]) -> list[str]:
        """Return missing and unexpected rows as messages; none if all rows match."""
        wanted, found = list(expected), list(actual)
        texts = [self._texts(row) for row in found]
        pairs = self._pairs([self._texts(row) for row in wanted], texts)
        missing = [row for place, row in enumerate(wanted) if place not in pairs]
        taken = set(pairs.values())
        names = list(dict.fromkeys(name for row in wanted for name in row)) or list(found[0] if found else ())
        left = [{name: row.get(name) for name in names} for place, row in enumerate(found) if place not in taken]
        said = []
        if len(wanted) != len(found):
            said.append(f"{len(wanted)} versions were expected, {len(found)} are there")
        return said + self._listed("expected", missing) + self._listed("not expected", left)

    def same(self, one: Iterable[Row], other: Iterable[Row]) -> bool:
        """Return whether two tables are equal in every field."""
        return sorted(map(repr, map(self._sorted, one))) == sorted(map(repr, map(self._sorted, other)))

    def ordered(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows sorted by content, so that the same table always prints alike."""
        return sorted(rows, key=lambda row: repr(self._sorted(row)))

    def _sorted(self, row: Row) -> list[tuple[str, str | None]]:
        return sorted((name, text) for name, text in self._texts(row).items() if text is not None)

    def _texts(self, row: Row) -> dict[str, str | None]:
        return {name: self._text(name, value) for name, value in row.items()}

    def _text(self, name: str, value: Any) -> str | None:
        """Return the canonical text of a value, by which two values of a field are equal."""
        if name == "valid_to" and self._is_open_end(value):
            return None
        if isinstance(value, str | int | float | dict | list):
            # A value from JSON, or a text or number from an engine, is read as its column's type.
            try:
                value = typed(value, self._type(name, value))
            except DoesNotFit:
                return f"does not fit: {value!r}"
        return canonical(value)

    def _type(self, name: str, value: Any) -> DataType:
        if name in _INTERVAL:
            own = self.policy.time != LOAD_TIME and self.policy.input != BATCH_FILES
            dated = self.columns.get(self.policy.time) if own else None
            # A date may be written as its midnight and is read as that.
            return dated if dated is not None and dated.name in (INTEGER, BIGINT) else DataType(TIMESTAMP)
        if name in self.columns:
            return self.columns[name]
        return DataType(BOOLEAN if isinstance(value, bool) else STRING)

    def _is_open_end(self, value: Any) -> bool:
        """Return whether an end is open: null in cases, also where the policy stores a high date."""
        if value is None or self.policy.open_end is None:
            return value is None
        end = typed(self.policy.open_end, DataType(TIMESTAMP))
        return canonical(typed(value, DataType(TIMESTAMP)) if isinstance(value, str) else value) == canonical(end)

    def _pairs(self, wanted: list[dict], found: list[dict]) -> dict[int, int]:
        """Return pairs of an expected row and a row of its own that has its values, as many as can be.

        Rows may name different fields, so one that fits several must not take what another needs.
        """
        fits = [
            [place for place, row in enumerate(found) if all(row.get(name) == text for name, text in one.items())]
            for one in wanted
        ]
        owner: dict[int, int] = {}
        for start in sorted(range(len(wanted)), key=lambda place: len(fits[place])):
            _augment(start, fits, owner)
        return {one: place for place, one in owner.items()}

    def _listed(self, said: str, rows: list[Row]) -> list[str]:
        shown = [self._shown(row) for row in rows[:_SHOWN]]
        if len(rows) > _SHOWN:
            shown.append(f"and {len(rows) - _SHOWN} more")
        return [f"{said}: {' · '.join(shown)}"] if rows else []

    def _shown(self, row: Row) -> str:
        fields = [f"{name}={as_json(value)}" for name, value in row.items() if name not in (*_INTERVAL, *_RUNS)]
        interval = [as_json(row.get(name)) for name in _INTERVAL]
        return f"{{{', '.join(fields)}}} from {interval[0]} to {interval[1] or 'open'}"


def _augment(start: int, fits: list[list[int]], owner: dict[int, int]) -> bool:
    """Give ``start`` a row and reassign others if need be (breadth first; no row is given twice)."""
    came_from: dict[int, int] = {}
    queue = [start]
    for one in queue:
        for place in fits[one]:
            if place in came_from:
                continue
            came_from[place] = one
            if place not in owner:
                _hand_over(place, start, came_from, owner)
                return True
            queue.append(owner[place])
    return False


def _hand_over(place: int, start: int, came_from: dict[int, int], owner: dict[int, int]) -> None:
    held = {one: at for at, one in owner.items()}
    while True:
        one = came_from[place]
        owner[place] = one
        if one == start:
            return
        place = held[one]
