"""Keeping of deliveries in raw tables: the latest alone, all of them, or all in a partition for each day of loading.

A retention limits the deliveries that are kept, by their age in days, by their number, or by both: a delivery is
removed if either limit says so, and the newest delivery never is. Feeds, of which each file or message is loaded once,
add to raw in any mode; the retention needs one of the two others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from elevata.core.errors import MetadataError

LATEST, ALL, BY_DAY = "latest", "all", "by_day"
MODES = (LATEST, ALL, BY_DAY)
MODE, DAYS, DELIVERIES = FIELDS = ("keep", "keep_days", "keep_deliveries")
_RAW = "raw"


@dataclass(frozen=True)
class Keeping:
    """Keeping of one raw table: its mode, and the limits of its retention."""

    mode: str = LATEST
    days: int | None = None
    deliveries: int | None = None

    @property
    def keeps_all(self) -> bool:
        return self.mode != LATEST

    @property
    def has_retention(self) -> bool:
        return self.days is not None or self.deliveries is not None

    def check(self, layer: str) -> None:
        """Raise MetadataError for a retention without deliveries to remove, or for a layer that keeps none."""
        if self.mode not in MODES:
            raise MetadataError("invalid", f"is one of {', '.join(MODES)}", "keep")
        if self.mode != LATEST and layer != _RAW:
            raise MetadataError("invalid", f"layer {layer} keeps no deliveries; raw does", "keep")
        for field, limit in (("keep_days", self.days), ("keep_deliveries", self.deliveries)):
            if limit is None:
                continue
            if not self.keeps_all:
                raise MetadataError("invalid", "limits the deliveries kept, so it needs keep all or by_day", field)
            if limit < 1:
                raise MetadataError("invalid", "counts from 1", field)

    def outdated(self, deliveries: Sequence[tuple[str, datetime]], now: datetime) -> tuple[str, ...]:
        """Return the run ids of the deliveries that the retention removes, of (run id, time of the load)."""
        newest_first = sorted(deliveries, key=lambda delivery: delivery[1], reverse=True)
        oldest = now - timedelta(days=self.days) if self.days is not None else None
        return tuple(
            run_id
            for number, (run_id, loaded_at) in enumerate(newest_first)
            if number
            and (
                (self.deliveries is not None and number >= self.deliveries)
                or (oldest is not None and loaded_at < oldest)
            )
        )


def mode_of(load_policy: Mapping[str, Any] | str | None) -> str:
    """Return the mode in the load policy of a raw dataset's state."""
    return load_policy.get(MODE, LATEST) if isinstance(load_policy, Mapping) else LATEST


def policy_of(mode: str, days: int | None = None, deliveries: int | None = None) -> dict[str, Any] | None:
    """Return the keeping as a part of the load policy of a raw dataset's state; None if it is the default."""
    described = {MODE: mode if mode != LATEST else None, DAYS: days, DELIVERIES: deliveries}
    return {name: value for name, value in described.items() if value is not None} or None


def keeping_of(load_policy: Mapping[str, Any] | str | None) -> Keeping:
    """Return the keeping in the load policy of a raw dataset's state."""
    if not isinstance(load_policy, Mapping):
        return Keeping()
    limits = (value if isinstance(value := load_policy.get(name), int) else None for name in (DAYS, DELIVERIES))
    return Keeping(mode_of(load_policy), *limits)


def keeps_less(before: Keeping, after: Keeping) -> bool:
    """Return True if loads or vacuums remove deliveries that they kept before."""
    lower = _is_lower(before.days, after.days) or _is_lower(before.deliveries, after.deliveries)
    return before.keeps_all and (lower or not after.keeps_all)


def _is_lower(before: int | None, after: int | None) -> bool:
    return after is not None and (before is None or after < before)
