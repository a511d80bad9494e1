"""Time line of a key: its versions and gaps to scale."""

from dataclasses import dataclass
from datetime import datetime

from loader.domain.versions import Version

NARROWEST = 5.0
LABEL_FROM = 13.0


@dataclass(frozen=True)
class Span:
    """Section of the time line, in per cent of its width. ``version`` is None for a gap."""

    x: float
    width: float
    kind: str
    label: str
    title: str
    version: Version | None = None

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class Tick:
    x: float
    label: str
    anchor: str


@dataclass(frozen=True)
class TimeLine:
    spans: tuple[Span, ...]
    ticks: tuple[Tick, ...]


def time_line(dated_versions: list[Version], now: datetime) -> TimeLine:
    """Return versions and gaps to scale, with a minimum width so that each can be seen and clicked."""
    sections: list[tuple[datetime, datetime, Version | None]] = []
    for version in dated_versions:
        if version.started is None:
            continue
        if version.gap_from is not None:
            sections.append((version.gap_from, version.started, None))
        sections.append((version.started, version.ended or max(now, version.started), version))
    widths = _widths([(end - start).total_seconds() for start, end, _ in sections])
    spans: list[Span] = []
    ticks: list[Tick] = []
    x = 0.0
    for (start, end, shown), width in zip(sections, widths, strict=True):
        spans.append(_span(x, width, start, end, shown))
        if width >= LABEL_FROM or not ticks:
            ticks.append(Tick(x, f"{start:%Y-%m-%d}", "start"))
        x = round(x + width, 3)
    if sections:
        last = sections[-1]
        is_open = last[2] is not None and last[2].is_open
        ticks.append(Tick(100, "now" if is_open else f"{last[1]:%Y-%m-%d}", "end"))
    return TimeLine(tuple(spans), tuple(ticks))


def _widths(lengths: list[float]) -> list[float]:
    """Return shares of 100 in proportion, each at least NARROWEST, or equal shares if there are too many."""
    if not lengths:
        return []
    floor = min(NARROWEST, 100 / len(lengths))
    narrow: set[int] = set()
    while True:
        rest = sum(length for index, length in enumerate(lengths) if index not in narrow)
        room = 100 - floor * len(narrow)
        too_narrow = {
            index
            for index, length in enumerate(lengths)
            if index not in narrow and (rest <= 0 or length / rest * room < floor)
        }
        if not too_narrow:
            break
        narrow |= too_narrow
    if len(narrow) == len(lengths):
        return [100 / len(lengths)] * len(lengths)
    return [floor if index in narrow else round(length / rest * room, 3) for index, length in enumerate(lengths)]


def _span(x: float, width: float, start: datetime, end: datetime, version: Version | None) -> Span:
    interval = f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    if version is None:
        return Span(x, width, "gap", "absent" if width >= LABEL_FROM else "", f"Absent, {interval}")
    kind = "open" if version.is_open else "deleted" if version.state == "deleted" else "closed"
    label = f"v{version.number}"
    if version.is_open:
        interval = f"since {start:%Y-%m-%d %H:%M} UTC, still open"
    return Span(x, width, kind, label, f"Version {version.number}, {interval}", version)
