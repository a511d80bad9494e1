"""What something that waits for a worker, or is worked on, waits for: how long, and what can be done.

The same for executions and load runs. Pure: what is known goes in, at most one ``Wait`` comes out.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from architecture.domain.workflow import BROKER_AWAY, SILENT_AFTER

# Nobody was told; nobody is there; somebody is there and does not come; somebody else writes.
BROKER, NO_WORKER, NOT_TAKEN_UP, LEASE = "broker", "no_worker", "not_taken_up", "lease"
# Whoever works on it is quiet; is silent for so long that it counts as lost.
QUIET, GONE = "quiet", "gone"

# A worker that is free takes up what it is told of at once, and what was missed with the next sweep.
TAKEN_UP_WITHIN = timedelta(seconds=30)
# Workers say every two seconds that they are alive.
QUIET_AFTER = timedelta(seconds=10)
_WAITING = "waiting: "


@dataclass(frozen=True)
class Wait:
    """What is waited for (``code``), and since when."""

    code: str
    since: datetime


def wait_of(
    *, status: str, queued_at: datetime, heartbeat_at: datetime | None, phase: str, workers: int, now: datetime
) -> Wait | None:
    """What is waited for; None if it goes on as it should, or is over. ``workers`` is how many are alive."""
    if status == "queued":
        return _queued(queued_at, phase, workers, now)
    if status in ("running", "canceling"):
        return _held(heartbeat_at or queued_at, heartbeat_at is not None, workers, now)
    return None


def _queued(since: datetime, phase: str, workers: int, now: datetime) -> Wait | None:
    if phase == BROKER_AWAY:
        return Wait(BROKER, since)
    if not workers:
        return Wait(NO_WORKER, since)
    if phase.startswith(_WAITING):
        return Wait(LEASE, since)
    return Wait(NOT_TAKEN_UP, since) if now - since >= TAKEN_UP_WITHIN else None


def _held(heard_at: datetime, beats: bool, workers: int, now: datetime) -> Wait | None:
    """``beats``: whether whoever holds it has ever said that it is alive; else only workers in general count."""
    silent = now - heard_at
    if beats and silent > SILENT_AFTER:
        return Wait(GONE, heard_at)
    return Wait(QUIET, heard_at) if (beats and silent > QUIET_AFTER) or not workers else None
