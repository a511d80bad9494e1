"""Picture of a check's last results: a bar for each, with its height by share of failed rows or by value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from loader.contract.check_outcomes import OUTCOMES

WIDTH, HEIGHT, STEP = 120.0, 24.0, 4.0
_LEAST = 1.5


class DrawnResult(Protocol):
    """Result as stored (``loader.models.CheckResult``)."""

    outcome: str
    failed: int | None
    total: int | None
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Bar:
    """Bar of one result; ``y`` is its upper end."""

    x: float
    y: float
    height: float
    outcome: str


@dataclass(frozen=True)
class Picture:
    """Bars in the order of time. ``band`` is the area of the newest limits, as y and height; None without limits."""

    bars: tuple[Bar, ...]
    band: tuple[float, float] | None = None
    label: str = ""
    width: float = WIDTH
    height: float = HEIGHT


def draw(results: Sequence[DrawnResult]) -> Picture:
    """Return the picture of results, the oldest first."""
    values = [result.value for result in results if result.value is not None]
    if values:
        low, high = _limits(results)
        top = max([*values, *([high] if high is not None else [])])
        bottom = min([0.0, *values, *([low] if low is not None else [])])
        shares = [None if r.value is None else (r.value - bottom) / ((top - bottom) or 1.0) for r in results]
        band = _band(low, high, bottom, top)
    else:
        shares, band = [_failed_share(result) for result in results], None
    first = WIDTH - STEP * len(results)
    bars = tuple(
        _bar(first + STEP * place, result.outcome, share)
        for place, (result, share) in enumerate(zip(results, shares, strict=True))
    )
    return Picture(bars, band, _label(results))


def _limits(results: Sequence[DrawnResult]) -> tuple[float | None, float | None]:
    newest = results[-1]
    return newest.low, newest.high


def _band(low: float | None, high: float | None, bottom: float, top: float) -> tuple[float, float] | None:
    if low is None and high is None:
        return None
    size = (top - bottom) or 1.0
    upper = 0.0 if high is None else HEIGHT * (1 - (high - bottom) / size)
    lower = HEIGHT if low is None else HEIGHT * (1 - (low - bottom) / size)
    return upper, max(lower - upper, 0.0)


def _failed_share(result: DrawnResult) -> float | None:
    """Return the share of failed rows; few of many are drawn higher than their share, so that they show."""
    if not result.failed:
        return 0.0
    share: float = (result.failed / (result.total or result.failed)) ** 0.5
    return min(1.0, share)


def _bar(x: float, outcome: str, share: float | None) -> Bar:
    height = HEIGHT if share is None else max(_LEAST, share * HEIGHT)
    return Bar(x, HEIGHT - height, height, outcome)


def _label(results: Sequence[DrawnResult]) -> str:
    """Return the picture in words, for readers who do not see it."""
    numbers = {name: sum(result.outcome == name for result in results) for name in OUTCOMES}
    parts = [f"{number} {OUTCOMES[name].lower()}" for name, number in numbers.items() if number]
    return f"Last {len(results)} results: {', '.join(parts)}" if parts else "No results"
