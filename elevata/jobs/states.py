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
    # It is blocked until users approve it.
    QUEUED: frozenset({RUNNING, CANCELED, FAILED, BLOCKED}),
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

# States of a job that a worker has claimed.
HELD = frozenset({RUNNING, CANCELING})
# States in which submitting the same job again changes nothing.
ACTIVE = HELD | {QUEUED}
FINISHED = frozenset(STEPS) - ACTIVE
# States from which a new attempt may be queued.
RESTARTABLE = frozenset({FAILED, BLOCKED, CANCELED, LOST})
# Final states.
ENDED = frozenset({SUCCEEDED, ABANDONED})

# Interval of heartbeats, and the age of the last one after which they count as stopped: of jobs and leases, then of
# workers.
HEARTBEAT_SECONDS = 2.0
LOST_AFTER = timedelta(seconds=30)
WORKER_BEAT_SECONDS = 5.0
WORKER_SILENT_AFTER = timedelta(seconds=20)
# Phase of a queued job whose wake-up could not be sent.
BROKER_AWAY = "waiting: the broker does not answer"


def may_become(target: str, steps: Mapping[str, frozenset[str]] = STEPS) -> tuple[str, ...]:
    """Return the states from which one transition leads to ``target``, sorted."""
    return tuple(sorted(state for state, following in steps.items() if target in following))


def ends_as(*, status: str, wanted: str) -> str:
    """Return the final status of a job whose work ended as ``wanted``.

    That is canceled if a cancel was requested, unless the work succeeded.
    """
    return CANCELED if status == CANCELING and wanted != SUCCEEDED else wanted


# Reasons why queued or running work waits.


# The broker does not answer; no worker is alive; no worker has claimed the work; another job holds the lease.
BROKER, NO_WORKER, NOT_TAKEN_UP, LEASE = "broker", "no_worker", "not_taken_up", "lease"
# The worker's heartbeat is late; it is so late that the work counts as lost.
QUIET, GONE = "quiet", "gone"

# A free worker claims work when its message arrives, or else after the next sweep.
TAKEN_UP_WITHIN = timedelta(seconds=30)
# Heartbeats come every two seconds.
QUIET_AFTER = timedelta(seconds=10)
_WAITING = "waiting: "


@dataclass(frozen=True)
class Wait:
    """Wait of a job: its reason (``code``) and start."""

    code: str
    since: datetime


def wait_of(
    *, status: str, queued_at: datetime, heartbeat_at: datetime | None, phase: str, workers: int, now: datetime
) -> Wait | None:
    """Return the wait of a job; None if it proceeds or is finished. ``workers`` is the number of live workers."""
    if status == QUEUED:
        return _wait_in_queue(queued_at, phase, workers, now)
    if status in HELD:
        return _wait_of_worker(heartbeat_at or queued_at, heartbeat_at is not None, workers, now)
    return None


def _wait_in_queue(since: datetime, phase: str, workers: int, now: datetime) -> Wait | None:
    if phase == BROKER_AWAY:
        return Wait(BROKER, since)
    if not workers:
        return Wait(NO_WORKER, since)
    if phase.startswith(_WAITING):
        return Wait(LEASE, since)
    return Wait(NOT_TAKEN_UP, since) if now - since >= TAKEN_UP_WITHIN else None


def _wait_of_worker(last_beat: datetime, beats: bool, workers: int, now: datetime) -> Wait | None:
    """Return the wait of a claimed job.

    ``beats``: its worker has sent at least one heartbeat; if not, only the number of live workers counts.
    """
    age = now - last_beat
    if beats and age > LOST_AFTER:
        return Wait(GONE, last_beat)
    return Wait(QUIET, last_beat) if (beats and age > QUIET_AFTER) or not workers else None
