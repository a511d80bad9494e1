"""Band of the row counts that a dataset's last runs had."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from metadata.domain.quality.check_kinds import DEFAULT_DEVIATIONS, DEFAULT_RUNS

# Number of runs before a band is learned.
LEAST_RUNS = 5
# Factor by which the median absolute deviation estimates the standard deviation of normally distributed numbers.
_NORMAL = 1.4826
# Least deviation, as a share of the median: runs that never differed do not make the next small change a failure.
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Band:
    """Limits of a number, which are included."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Return True if the value lies in the band."""
        return self.low <= value <= self.high


def learned_band(counts: Sequence[float], deviations: float) -> Band | None:
    """Return the band around the median of former counts; None for fewer than ``LEAST_RUNS``.

    It reaches ``deviations`` times the median absolute deviation, which single outliers do not widen, to both sides.
    """
    if len(counts) < LEAST_RUNS:
        return None
    middle = median(counts)
    spread = _NORMAL * median(abs(count - middle) for count in counts)
    reach = deviations * max(spread, _LEAST_SHARE * middle, 1.0)
    return Band(max(0.0, middle - reach), middle + reach)


def bands_before(
    values: Sequence[float | None], *, runs: int = DEFAULT_RUNS, deviations: float = float(DEFAULT_DEVIATIONS)
) -> tuple[Band | None, ...]:
    """Return for each value the band that up to ``runs`` values before it had; the oldest value comes first."""
    known: list[float] = []
    bands = []
    for value in values:
        bands.append(learned_band(known[-runs:], deviations))
        if value is not None:
            known.append(value)
    return tuple(bands)
