"""States of load runs, of their datasets and of reads, and the permitted transitions.

Services change a state only by compare-and-set along these transitions, so of two processes that try the
same one, only one succeeds.
"""

from collections.abc import Mapping
from datetime import timedelta

QUEUED, RUNNING, SUCCEEDED, FAILED = "queued", "running", "succeeded", "failed"
BLOCKED, CANCELING, CANCELED, LOST, SKIPPED = "blocked", "canceling", "canceled", "lost", "skipped"

RUN_STEPS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, CANCELED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, BLOCKED, CANCELING, LOST}),
    # A cancel may come after the work was done; the run has succeeded then.
    CANCELING: frozenset({CANCELED, SUCCEEDED, LOST}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset({QUEUED}),
    BLOCKED: frozenset({QUEUED}),
    CANCELED: frozenset({QUEUED}),
    LOST: frozenset({QUEUED}),
}

DATASET_STEPS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, SKIPPED, CANCELED, FAILED, SUCCEEDED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, SKIPPED, CANCELED}),
    SUCCEEDED: frozenset({QUEUED}),
    FAILED: frozenset({QUEUED}),
    SKIPPED: frozenset({QUEUED}),
    CANCELED: frozenset({QUEUED}),
}

READ_STEPS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, FAILED}),
    RUNNING: frozenset({SUCCEEDED, FAILED}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset(),
}

# States in which a worker holds the run.
HELD = frozenset({RUNNING, CANCELING})
# States in which asking for the same run id again changes nothing.
ACTIVE = HELD | {QUEUED}

# Interval of heartbeats and the silence after which they count as stopped: of runs, then of workers.
HEARTBEAT_SECONDS = 2.0
LOST_AFTER = timedelta(seconds=30)
WORKER_BEAT_SECONDS = 5.0
WORKER_SILENT_AFTER = timedelta(seconds=20)


def may_become(target: str, steps: Mapping[str, frozenset[str]] = RUN_STEPS) -> tuple[str, ...]:
    """Return the states from which ``target`` may be reached in one step, sorted."""
    return tuple(sorted(state for state, following in steps.items() if target in following))


def ends_as(*, status: str, wanted: str) -> str:
    """Return the end of a run whose work ended as ``wanted``: canceled if that was requested, unless it succeeded."""
    return CANCELED if status == CANCELING and wanted != SUCCEEDED else wanted


def unfinished_becomes(end: str) -> dict[str, str]:
    """Return the states that running and queued datasets get when their run ends in state ``end``."""
    under_way = CANCELED if end == CANCELED else FAILED
    return {RUNNING: under_way, QUEUED: CANCELED}
