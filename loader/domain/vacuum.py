"""Retention of files that a table no longer names.

A former file is needed to read or restore an older version of the table: by a query that began before the last
commit, the revert of a run, an undo, a read as known at an earlier time. So every vacuum keeps at least the safe
minimum, and everything that requested work needs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from loader.domain.refusals import Refusal

# Delta's own default: longer than any query or load runs.
SAFE_HOURS = 168
MOST_HOURS = 24 * 3660
_HOUR = 3600


@dataclass(frozen=True)
class Need:
    """Something that needs the files which were current at ``since``."""

    since: datetime
    what: str


def refuse_short(hours: int, needs: Iterable[Need], *, now: datetime) -> None:
    """Raise Refusal RETENTION_TOO_SHORT if so many hours are below the safe minimum, or below a need."""
    if not SAFE_HOURS <= hours <= MOST_HOURS:
        raise Refusal(
            "RETENTION_TOO_SHORT" if hours < SAFE_HOURS else "BAD_RETENTION",
            f"files cannot be kept for {hours} hours: choose {SAFE_HOURS} to {MOST_HOURS:,}",
            hint=f"queries and loads that are under way read files of up to {SAFE_HOURS} hours ago",
        )
    oldest = min(needs, key=lambda need: need.since, default=None)
    if oldest is None:
        return
    needed = math.ceil((now - oldest.since).total_seconds() / _HOUR) + 1
    if hours < needed:
        raise Refusal(
            "RETENTION_TOO_SHORT",
            f"{oldest.what} needs the files of {needed} hours ago",
            hint=f"keep {needed} hours or more, or finish or reject it first",
        )
