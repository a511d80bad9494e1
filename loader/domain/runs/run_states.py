"""States of the datasets of a load run, and the permitted transitions. The run itself is a job."""

from collections.abc import Mapping

from elevata.jobs.states import CANCELED, FAILED, QUEUED, RUNNING, SUCCEEDED

SKIPPED = "skipped"

DATASET_STEPS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, SKIPPED, CANCELED, FAILED, SUCCEEDED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, SKIPPED, CANCELED}),
    SUCCEEDED: frozenset({QUEUED}),
    FAILED: frozenset({QUEUED}),
    SKIPPED: frozenset({QUEUED}),
    CANCELED: frozenset({QUEUED}),
}


def unfinished_becomes(end: str) -> dict[str, str]:
    """Return the states that running and queued datasets get when their run ends in state ``end``."""
    under_way = CANCELED if end == CANCELED else FAILED
    return {RUNNING: under_way, QUEUED: CANCELED}
