"""Limits of marks: a value far ahead of a source's other rows does not move the mark.

Later rows would lie below such a mark and never be read. A mark of dates and times is at most the run's time and the
tolerance of the intake. For numbers the limit is learned: a load may extend the range of known values tenfold, or by
the tolerance. Without a mark, a few rows far above all others are ahead. Rows ahead are loaded and counted; the mark is
the highest value of the other rows, so the next load reads them again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from metadata.domain.sources.intake import Intake

# Kinds of watermark columns: timestamps without a zone are local, those with one are instants.
NUMBER, DAY, LOCAL, INSTANT = "number", "day", "local", "instant"
# The farthest zones differ by 26 hours; sources seldom write a wrong one of these.
DEFAULT_TOLERANCE = timedelta(days=1)
# Factor by which one load may extend the range of known numbers, which counts as at least so long.
GROWTH, LEAST_RANGE = 10, 1_000
# Share of the rows that may be far above all others without being the usual ones.
_FEW = 100

Value = Decimal | date


@dataclass(frozen=True)
class Split:
    """Division of a column's values at a limit: the highest at or below it, the rows above it, and all rows."""

    highest: Value | None
    ahead: int
    rows: int


class Measure(Protocol):
    """Queries of a source about one watermark column."""

    def lowest(self, name: str) -> Value | None:
        """Return the lowest value of a column, None without rows."""

    def split(self, name: str, limit: Value) -> Split:
        """Return the division of a column's values."""


def zone_of(name: str) -> Any:
    return datetime.strptime(name, "%z").tzinfo if name[0] in "+-" else ZoneInfo(name)


def time_limit(kind: str, at: datetime, intake: Intake, zone: str) -> Value | None:
    """Return the latest mark of a column of dates or times; None if there is none before the last date."""
    tolerance = DEFAULT_TOLERANCE if intake.tolerance is None else intake.time_of(intake.tolerance)
    try:
        moment = at.astimezone(UTC) + (tolerance or timedelta())
        if kind == INSTANT:
            return moment
        local = moment.astimezone(zone_of(zone)).replace(tzinfo=None)
    except OverflowError:
        return None
    return local.date() if kind == DAY else local


@dataclass(frozen=True)
class Held:
    """Marks of one load: the ends by column, the lowest known numbers, and rows ahead with the limit they exceed."""

    ends: Mapping[str, Value]
    lows: Mapping[str, Value]
    ahead: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class MarkLimits:
    """Limits of the marks of one load.

    ``times`` are the limits of dates and times, ``starts`` the values from which rows are read, ``lows`` the lowest
    known numbers, all by column; ``tolerance`` is that of numbers.
    """

    kinds: Mapping[str, str]
    times: Mapping[str, Value]
    starts: Mapping[str, Value]
    lows: Mapping[str, Value]
    tolerance: int | None

    def hold(self, highest: Mapping[str, Value], measure: Measure) -> Held:
        """Return the marks for the highest values of a source, without rows ahead."""
        ends, lows, ahead, limits = dict(highest), dict(self.lows), {}, {}
        for name, value in highest.items():
            if self.kinds[name] == NUMBER and name not in self.starts:
                lowest = measure.lowest(name)
                if lowest is None:
                    continue
                lows[name] = lowest
                limit = self._first_limit(name, lowest, value, measure)
            else:
                limit = self._limit(name)
            if limit is None or not _is_above(value, limit):
                continue
            split = measure.split(name, limit)
            limits[name], ahead[name] = limit, split.ahead
            del ends[name]
            if split.highest is not None:
                ends[name] = split.highest
        return Held(ends, lows, ahead, limits)

    def _limit(self, name: str) -> Value | None:
        if self.kinds[name] != NUMBER:
            return self.times.get(name)
        start = self.starts[name]
        assert isinstance(start, Decimal)
        if self.tolerance is not None:
            return start + self.tolerance
        low = self.lows.get(name)
        known = start - low if isinstance(low, Decimal) else abs(start)
        return start + GROWTH * max(known, Decimal(LEAST_RANGE))

    def _first_limit(self, name: str, lowest: Value, highest: Value, measure: Measure) -> Value | None:
        """Return a limit that only a few rows exceed, while all others are far below; None if there is none."""
        assert isinstance(lowest, Decimal)
        assert isinstance(highest, Decimal)
        limit: Value | None = None
        ahead = 0
        while highest - lowest > max(GROWTH * LEAST_RANGE, self.tolerance or 0):
            trial = lowest + int(highest - lowest) // (GROWTH + 1)
            split = measure.split(name, trial)
            is_few = split.ahead - ahead <= max(1, (split.rows - ahead) // _FEW) and split.rows - split.ahead > 1
            if not is_few or not isinstance(split.highest, Decimal):
                break
            limit, highest, ahead = trial, split.highest, split.ahead
        return limit


def _is_above(value: Value, limit: Value) -> bool:
    """Return True if a value of a column is above the column's limit."""
    if isinstance(value, Decimal):
        assert isinstance(limit, Decimal)
        return value > limit
    assert not isinstance(limit, Decimal)
    return value > limit
