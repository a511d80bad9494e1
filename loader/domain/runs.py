"""The states of a load run, of its datasets and of a read, and which step leads where.

Services change a state only by compare-and-set along these steps, so two processes that both
believe it is their turn cannot both be right.
"""

from collections.abc import Mapping
from datetime import timedelta

QUEUED, RUNNING, SUCCEEDED, FAILED = "queued", "running", "succeeded", "failed"
BLOCKED, CANCELING, CANCELED, LOST, SKIPPED = "blocked", "canceling", "canceled", "lost", "skipped"

RUN_STEPS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, CANCELED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, BLOCKED, CANCELING, LOST}),
    # A cancel that comes too late finds the work done: then that is what the run says.
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

# How often a worker says it is alive, and after how much silence nobody believes it any more.
HEARTBEAT_SECONDS = 2.0
LOST_AFTER = timedelta(seconds=30)
WORKER_BEAT_SECONDS = 5.0
WORKER_SILENT_AFTER = timedelta(seconds=20)


def may_become(target: str, steps: Mapping[str, frozenset[str]] = RUN_STEPS) -> tuple[str, ...]:
    """The states from which ``target`` may be reached in one step, sorted."""
    return tuple(sorted(state for state, following in steps.items() if target in following))


def ends_as(*, status: str, wanted: str) -> str:
    """The end of a run whose work came to ``wanted``: a cancel that was asked wins unless all is done."""
    return CANCELED if status == CANCELING and wanted != SUCCEEDED else wanted


def unfinished_becomes(end: str) -> dict[str, str]:
    """What datasets that were under way, or not yet begun, become when their run ends like that."""
    under_way = CANCELED if end == CANCELED else FAILED
    return {RUNNING: under_way, QUEUED: CANCELED}
