"""States of jobs, the permitted transitions, and reasons for waiting.

Services change a state only by compare-and-set along ``STEPS``, so of two processes that try the same
transition, only one succeeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

QUEUED, RUNNING, SUCCEEDED, FAILED = "queued", "running", "succeeded", "failed"
BLOCKED, CANCELING, CANCELED, LOST, ABANDONED = "blocked", "canceling", "canceled", "lost", "abandoned"

STEPS: Mapping[str, frozenset[str]] = {
    # A queued job fails when its answer is withdrawn, or no worker claims it in time.
    QUEUED: frozenset({RUNNING, CANCELED, FAILED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, BLOCKED, CANCELING, LOST}),
    # A cancel request may come after the work was done; the job has succeeded then.
    CANCELING: frozenset({CANCELED, SUCCEEDED, FAILED, LOST}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset({QUEUED, ABANDONED}),
    BLOCKED: frozenset({QUEUED}),
    CANCELED: frozenset({QUEUED, ABANDONED}),
    LOST: frozenset({QUEUED, ABANDONED}),
    ABANDONED: frozenset(),
}

# States in which a worker holds the job.
HELD = frozenset({RUNNING, CANCELING})
# States in which submitting the same job again changes nothing.
ACTIVE = HELD | {QUEUED}
FINISHED = frozenset(STEPS) - ACTIVE
# States from which a new attempt may be queued.
RESTARTABLE = frozenset({FAILED, BLOCKED, CANCELED, LOST})
# No transition leads on from these.
ENDED = frozenset({SUCCEEDED, ABANDONED})

# Interval of heartbeats and the silence after which they count as stopped: of jobs and leases, then of workers.
HEARTBEAT_SECONDS = 2.0
LOST_AFTER = timedelta(seconds=30)
WORKER_BEAT_SECONDS = 5.0
WORKER_SILENT_AFTER = timedelta(seconds=20)
# Phase of a queued job whose wake-up could not be sent.
BROKER_AWAY = "waiting: the broker does not answer"


def may_become(target: str, steps: Mapping[str, frozenset[str]] = STEPS) -> tuple[str, ...]:
    """Return the states from which ``target`` may be reached in one step, sorted."""
    return tuple(sorted(state for state, following in steps.items() if target in following))


def ends_as(*, status: str, wanted: str) -> str:
    """Return the end of a job whose work ended as ``wanted``: canceled if that was requested, unless it succeeded."""
    return CANCELED if status == CANCELING and wanted != SUCCEEDED else wanted


# Reason for which queued or running work waits, with its start, of any kind.
#
# Pure: it works on the given facts and returns at most one ``Wait``.


# The broker is away; no worker is alive; no worker took the work up; another holder has the lease.
BROKER, NO_WORKER, NOT_TAKEN_UP, LEASE = "broker", "no_worker", "not_taken_up", "lease"
# Time after which a late heartbeat means that the work is lost.
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
    if status == QUEUED:
        return _queued(queued_at, phase, workers, now)
    if status in HELD:
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
