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
MODE = "keep"
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


def policy_of(mode: str) -> dict[str, str] | None:
    """Return the load policy of a raw dataset's state: only its mode changes what a load writes."""
    return {MODE: mode} if mode != LATEST else None
