"""Reason for which queued or running work waits, with its start; the same for executions and load runs.

Pure: it works on the given facts and returns at most one ``Wait``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from elevata.jobs.states import BROKER_AWAY, LOST_AFTER

# The broker is away; no worker is alive; no worker took the work up; another holder has the lease.
BROKER, NO_WORKER, NOT_TAKEN_UP, LEASE = "broker", "no_worker", "not_taken_up", "lease"
# The heartbeat is late; it is so late that the work counts as lost.
QUIET, GONE = "quiet", "gone"

# A free worker takes up a message at once, and missed work with the next sweep.
TAKEN_UP_WITHIN = timedelta(seconds=30)
# Heartbeats come every two seconds.
QUIET_AFTER = timedelta(seconds=10)
_WAITING = "waiting: "


@dataclass(frozen=True)
class Wait:
    """Reason of a wait (``code``), and its start."""

    code: str
    since: datetime


def wait_of(
    *, status: str, queued_at: datetime, heartbeat_at: datetime | None, phase: str, workers: int, now: datetime
) -> Wait | None:
    """Return the wait of some work; None if it proceeds or is over. ``workers`` is the number of live workers."""
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
    """Return the wait of work that a worker holds.

    ``beats``: its holder has sent a heartbeat at least once; if not, only the number of live workers counts.
    """
    silent = now - heard_at
    if beats and silent > LOST_AFTER:
        return Wait(GONE, heard_at)
    return Wait(QUIET, heard_at) if (beats and silent > QUIET_AFTER) or not workers else None
