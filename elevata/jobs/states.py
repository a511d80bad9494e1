"""States of jobs and the permitted transitions.

Services change a state only by compare-and-set along ``STEPS``, so of two processes that try the same
transition, only one succeeds.
"""

from collections.abc import Mapping
from datetime import timedelta

QUEUED, RUNNING, SUCCEEDED, FAILED = "queued", "running", "succeeded", "failed"
BLOCKED, CANCELING, CANCELED, LOST, ABANDONED = "blocked", "canceling", "canceled", "lost", "abandoned"

STEPS: Mapping[str, frozenset[str]] = {
    # A queued job fails when its answer is withdrawn, or no worker claims it in time.
    QUEUED: frozenset({RUNNING, CANCELED, FAILED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, BLOCKED, CANCELING, LOST}),
    # A cancel may come after the work was done; the job has succeeded then.
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
