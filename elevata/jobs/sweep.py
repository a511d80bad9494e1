"""Sweep: lost wake-ups are sent again, and jobs of dead workers are marked as lost."""

from dataclasses import dataclass
from datetime import timedelta

from elevata.core.database import shared_now
from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import LANES, handler_of, queued_for
from elevata.jobs.services import mark_lost
from elevata.jobs.submission import note_woken, wake

# The wake-ups of younger jobs may still arrive.
RESENT_AFTER = timedelta(seconds=15)
_WORKER_KEPT_FOR = timedelta(hours=1)


@dataclass(frozen=True)
class Swept:
    """Result of a sweep: jobs marked as lost, and jobs for which a wake-up was sent."""

    lost: tuple[Job, ...]
    woken: tuple[Job, ...]


def sweep_jobs(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once. Sweeps may run at the same time, because rows change by compare-and-set only."""
    lost = mark_lost()
    woken = []
    for job in _to_wake(list(queued_for(resent_after))):
        if wake(job.pk):
            break  # the broker does not answer; the next sweep tries again
        woken.append(job)
    if woken:
        note_woken()
    Worker.objects.filter(heartbeat_at__lt=shared_now() - _WORKER_KEPT_FOR).delete()
    return Swept(tuple(lost), tuple(woken))


def _to_wake(jobs: list[Job]) -> list[Job]:
    """Return the jobs to send a wake-up for: of each lane, the oldest job for each slot."""
    chosen: list[Job] = []
    free = {lane: slots.total for lane, slots in LANES.items()}
    for job in jobs:
        lane = handler_of(job.kind).lane
        if free[lane]:
            free[lane] -= 1
            chosen.append(job)
    return chosen
