"""Versions of a key for the history explorer: changes and gaps.

Pure: it works on the answer of a read, whose values are text, as the warehouse casts them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Any

from architecture.domain.tables import OPEN, TableSpec
from loader.domain.queries.query_results import Cell, cell
from metadata.domain.sensitivity import MASK_CHANGED, is_mask

_WHOLE_NUMBER = re.compile(r"-*[0-9]+")


@dataclass(frozen=True)
class Field:
    """Value of a version; ``before`` is that of its predecessor, and ``changed`` is true if they differ."""

    name: str
    value: str | None
    before: str | None = None
    changed: bool = False
    is_key: bool = False

    @property
    def shown(self) -> Cell:
        return cell(self.value)


@dataclass(frozen=True)
class Version:
    """Version of a key. ``began`` is new, changed or reappeared; ``gap`` is the time of the key's absence before.

    ``interval`` is the stored start and end; ``started`` and ``ended`` are None in a history dated by numbers. An open
    version has no end, even if a high date is stored.
    """

    number: int
    started: datetime | None
    ended: datetime | None
    interval: tuple[str, str | None]
    state: str
    began: str
    opened_by: str
    closed_by: str
    fields: tuple[Field, ...]
    gap: timedelta | None = None
    gap_from: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.interval[1] is None

    @property
    def changes(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.changed)

    @property
    def kept(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.changed)


def versions(answer: Mapping[str, Any], table: TableSpec) -> list[Version]:
    """Return the versions of an answer, oldest first."""
    purpose = {column.name: column.purpose for column in table.columns}
    name_of = {column.purpose: column.name for column in table.columns}
    shown = [name for name in answer["columns"] if _is_value(purpose.get(name))]
    result: list[Version] = []
    previous: dict[str, str | None] | None = None
    for number, row in enumerate(answer["rows"], start=1):
        values = dict(zip(answer["columns"], row, strict=True))
        predecessor = result[-1] if result else None
        interval = values.get(name_of["started_at"]) or "", _end(values, name_of)
        started = instant(interval[0])
        follows = predecessor is not None and _meet(predecessor, interval[0])
        gap_from = predecessor.ended if predecessor and not follows else None
        result.append(
            Version(
                number=number,
                started=started,
                ended=instant(interval[1]),
                interval=interval,
                state=values.get(name_of["state"]) or "",
                began="new" if predecessor is None else "changed" if follows else "reappeared",
                opened_by=values.get(name_of["run_id"]) or "",
                closed_by=values.get(name_of["closed_by"]) or "",
                fields=tuple(_fields(shown, values, previous, purpose)),
                gap=started - gap_from if gap_from and started else None,
                gap_from=gap_from,
            )
        )
        previous = values
    return result


def _end(values: Mapping[str, str | None], name_of: Mapping[str, str]) -> str | None:
    """Return the stored end; None for an open version, which may have a high date."""
    end = values.get(name_of["ended_at"])
    ended = instant(end)
    is_open = values.get(name_of["segment"]) == OPEN or (ended is not None and ended.year == MAXYEAR)
    return None if is_open else end


def _meet(earlier: Version, start: str) -> bool:
    """Return True if there is no gap. An inclusive end is a millisecond before the next start."""
    started = instant(start)
    if earlier.ended is None or started is None:
        return earlier.interval[1] == start
    return timedelta() <= started - earlier.ended <= timedelta(milliseconds=1)


def _is_value(purpose: str | None) -> bool:
    """Return True for a column with values to show: described, a foreign key, or only in the table."""
    return purpose in (None, "business_key", "attribute", "foreign_key")


def _fields(
    shown: Iterable[str], values: Mapping[str, Any], previous: Mapping[str, Any] | None, purpose: Mapping[str, str]
) -> Iterable[Field]:
    for name in shown:
        before = previous.get(name) if previous is not None else None
        yield Field(
            name,
            values[name],
            before,
            changed=previous is not None and _differs(before, values[name]),
            is_key=purpose.get(name) == "business_key",
        )


def change_map(rows: Sequence[Version]) -> list[tuple[str, list[bool]]]:
    """Return the columns that changed, most often first, with True for each version in which they did."""
    names = dict.fromkeys(field.name for version in rows for field in version.changes)
    changed = [(name, [any(field.name == name for field in version.changes) for version in rows]) for name in names]
    return sorted(changed, key=lambda item: -sum(item[1]))


def _differs(before: str | None, now: str | None) -> bool:
    """Return True if a value differs from that of the version before. A mask shows if its value changed."""
    return now == MASK_CHANGED if is_mask(now) else before != now


def instant(text: str | None) -> datetime | None:
    """Return the instant in Spark's text, in UTC; None for an empty text, and for a number."""
    if not text or _WHOLE_NUMBER.fullmatch(text):
        return None
    parsed = datetime.fromisoformat(text)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
