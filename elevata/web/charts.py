"""Charts of numbers over time, which ``static/js/chart/chart.js`` draws.

Callers create the points and series, and ``templates/parts/chart.html`` renders the chart, its summary and its table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.defaultfilters import filesizeformat

from elevata.core.words import counted

# Anomalies that a summary names.
_NAMED = 3


@dataclass(frozen=True)
class Point:
    """Point in time of a chart. ``label`` names it in the table, and ``url`` is the address of its page."""

    at: datetime
    label: str = ""
    url: str = ""


@dataclass(frozen=True)
class Series:
    """Numbers of a chart, one for each point; None for a point without one. ``tone`` is a colour of ``app.css``."""

    name: str
    values: tuple[float | None, ...]
    tone: str = "accent"


@dataclass(frozen=True)
class Row:
    """Row of a chart's table: the texts of the numbers, and the band that the first of them is compared with."""

    point: Point
    texts: tuple[str, ...]
    band: str
    is_anomaly: bool


@dataclass(frozen=True)
class Chart:
    """Series over the same points, the oldest first.

    ``unit`` is a key of ``UNITS``. ``bands`` has the expected limits of the first series at each point; None stands
    for no limit. ``anomalies`` are the places of points that are marked. ``zone`` is the time zone of the axis, by
    default the user's; days are those of UTC.
    """

    key: str
    title: str
    points: tuple[Point, ...]
    series: tuple[Series, ...]
    unit: str = ""
    note: str = ""
    bands: tuple[tuple[float | None, float | None] | None, ...] = ()
    anomalies: frozenset[int] = frozenset()
    zone: str = ""

    def __post_init__(self) -> None:
        lengths = {len(series.values) for series in self.series}
        if self.bands:
            lengths.add(len(self.bands))
        if lengths != {len(self.points)}:
            raise ValueError(f"{self.title}: every series needs one value for each of {len(self.points)} points")

    @property
    def data_id(self) -> str:
        """Return the id of the element with the chart's data."""
        return f"chart-{self.key}"

    @property
    def summary(self) -> str:
        """Return the chart in words: its period, the newest and extreme numbers of each series, its anomalies."""
        if not self.points:
            return "No numbers yet."
        first, last = (f"{point.at:%Y-%m-%d %H:%M}" for point in (self.points[0], self.points[-1]))
        period = f"{counted(len(self.points), 'point')}, {first} to {last}"
        parts = [f"{period} UTC.", *(text for series in self.series if (text := self._in_words(series)))]
        if self.anomalies:
            named = [self.points[place] for place in sorted(self.anomalies)[-_NAMED:]]
            names = ", ".join(point.label or f"{point.at:%Y-%m-%d %H:%M}" for point in named)
            count = len(self.anomalies)
            parts.append(f"{count} anomal{'y' if count == 1 else 'ies'}: {'' if count <= _NAMED else '… '}{names}.")
        return " ".join(parts)

    def _in_words(self, series: Series) -> str:
        values = [value for value in series.values if value is not None]
        if not values:
            return ""
        newest, low, high = (self.text(value) for value in (values[-1], min(values), max(values)))
        return f"{series.name}: newest {newest}, lowest {low}, highest {high}."

    @property
    def rows(self) -> list[Row]:
        """Return the rows of the table, the newest first."""
        bands = self.bands or (None,) * len(self.points)
        rows = [
            Row(
                point,
                tuple(self.text(series.values[place]) for series in self.series),
                self._limits(bands[place]),
                place in self.anomalies,
            )
            for place, point in enumerate(self.points)
        ]
        return rows[::-1]

    def _limits(self, band: tuple[float | None, float | None] | None) -> str:
        if band is None:
            return ""
        return "–".join("" if limit is None else self.text(limit) for limit in band)

    def text(self, value: float | None) -> str:
        """Return a number with its unit; empty for None."""
        return "" if value is None else UNITS[self.unit](value)

    def as_json(self) -> dict[str, Any]:
        """Return the input of ``static/js/chart``."""
        document: dict[str, Any] = {
            "times": [int(point.at.timestamp()) for point in self.points],
            "labels": [point.label for point in self.points],
            "series": [{"name": s.name, "tone": s.tone, "values": list(s.values)} for s in self.series],
            "unit": self.unit,
            "zone": self.zone,
            "anomalies": sorted(self.anomalies),
        }
        if any(self.bands):
            low, high = zip(*((None, None) if band is None else band for band in self.bands), strict=True)
            document["band"] = {"low": list(low), "high": list(high)}
        return document


def _plain(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:,.2f}"


UNITS: dict[str, Callable[[float], str]] = {
    "": _plain,
    "s": lambda value: f"{_plain(round(value, 1))} s",
    "h": lambda value: f"{_plain(round(value, 1))} h",
    "%": lambda value: f"{_plain(round(value, 2))} %",
    "bytes": lambda value: filesizeformat(value).replace("\xa0", " "),
}


def has_values(charts: Sequence[Chart]) -> list[Chart]:
    """Return the charts that have a number."""
    return [chart for chart in charts if any(value is not None for s in chart.series for value in s.values)]
