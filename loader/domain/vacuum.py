"""Retention of former files of tables.

Former files are needed to read or restore an older version of a table: by a query that began before the last commit,
the revert of a run, an undo, a read as known at an earlier time. So every vacuum keeps the files of at least the safe
minimum, and those that requested work needs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from loader.contract.refusals import Refusal

# Delta's default, which is longer than any query or load takes.
SAFE_HOURS = 168
MOST_HOURS = 24 * 3660
_HOUR = 3600


@dataclass(frozen=True)
class Need:
    """Requested work that needs the files of the time ``since``."""

    since: datetime
    what: str


def refuse_short(hours: int, needs: Iterable[Need], *, now: datetime) -> None:
    """Raise Refusal RETENTION_TOO_SHORT for fewer hours than the safe minimum, or than a need requires."""
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
