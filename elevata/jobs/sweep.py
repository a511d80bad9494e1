"""Sweep of the queue: lost wake-ups are sent again, jobs of dead workers are marked as lost."""

from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from elevata.jobs import services, wakeup
from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import ASIDE, handler_of
from elevata.jobs.selectors import queued_for

# Younger jobs have a wake-up on its way.
RESENT_AFTER = timedelta(seconds=15)
_WORKER_KEPT_FOR = timedelta(hours=1)


@dataclass(frozen=True)
class Swept:
    """Result of a sweep: jobs marked as lost, and jobs for which a wake-up was sent."""

    lost: tuple[Job, ...]
    woken: tuple[Job, ...]


def sweep_jobs(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once; any number of sweeps at once do no harm, since rows change by compare-and-set only."""
    lost = services.mark_lost()
    woken = []
    for job in _to_wake(list(queued_for(resent_after))):
        if wakeup.wake(job.pk):
            break  # the broker is away; the next sweep tries again
        woken.append(job)
    if woken:
        services.note_woken()
    Worker.objects.filter(heartbeat_at__lt=timezone.now() - _WORKER_KEPT_FOR).delete()
    return Swept(tuple(lost), tuple(woken))


def _to_wake(jobs: list[Job]) -> list[Job]:
    """Return the jobs that need a message of their own: every one that runs beside others, the oldest of the rest."""
    aside = [job for job in jobs if handler_of(job.kind).lane == ASIDE]
    rest = [job for job in jobs if handler_of(job.kind).lane != ASIDE]
    return [*rest[:1], *aside]
