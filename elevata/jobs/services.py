"""Life cycle of a job: queued, claimed, cancelled, lost, withdrawn, abandoned. Each change is one compare-and-set."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from elevata.core.database import silent_before
from elevata.jobs import states
from elevata.jobs.attempts import Attempt
from elevata.jobs.models import Job
from elevata.jobs.processes import is_gone
from elevata.jobs.registry import handler_of

WAITING_FOR_SPARK = "waiting for Spark"


def claim(*, job_pk: int, worker: str, keep_start: bool = False) -> Attempt | None:
    """Claim a queued job of this installation's environment; return None if it is not queued any more.

    With ``keep_start`` an attempt after the first leaves ``started_at`` as it is.
    """
    now = timezone.now()
    # No join: PostgreSQL then checks the status again once it has waited for the row.
    queued = Job.objects.filter(pk=job_pk, status=states.QUEUED, environment_name=settings.ENVIRONMENT)
    claimed = queued.update(
        status=states.RUNNING,
        attempt=F("attempt") + 1,
        claimed_by=worker,
        heartbeat_at=now,
        started_at=Coalesce(F("started_at"), now) if keep_start else now,
        finished_at=None,
        error=None,
        phase=WAITING_FOR_SPARK,
    )
    return Attempt(job_pk, Job.objects.values_list("attempt", flat=True).get(pk=job_pk)) if claimed else None


def queue_again(*, job_pk: int, **fields: Any) -> bool:
    """Queue a job for a new attempt; return False if its state does not allow that. ``fields`` are written, too."""
    restartable = Job.objects.filter(pk=job_pk, status__in=states.may_become(states.QUEUED))
    return bool(
        restartable.update(
            status=states.QUEUED,
            error=None,
            phase="",
            claimed_by="",
            heartbeat_at=None,
            finished_at=None,
            queued_at=timezone.now(),
            **fields,
        )
    )


def request_cancel(*, job_pk: int, error: Mapping[str, Any]) -> str | None:
    """Cancel a queued job at once, or ask the worker of a running one to stop; ``error`` says who asked.

    Return the new status, None if the job was neither. Call in a transaction.
    """
    jobs, now = Job.objects.filter(pk=job_pk), timezone.now()
    at_once = {"status": states.CANCELED, "finished_at": now, "error": error, "exclusive": None}
    if jobs.filter(status=states.QUEUED).update(**at_once):
        return states.CANCELED
    if jobs.filter(status=states.RUNNING).update(status=states.CANCELING, error=error):
        return states.CANCELING
    return None


def abandon(*, job_pk: int, reason: str) -> bool:
    """End a job for good that will not be attempted again; return False if its state does not allow that."""
    ended = Job.objects.filter(pk=job_pk, status__in=states.may_become(states.ABANDONED))
    return bool(ended.update(status=states.ABANDONED, reason=reason, finished_at=timezone.now()))


def withdraw(jobs: QuerySet[Job], *, error: Mapping[str, Any]) -> int:
    """Fail queued and running jobs whose result is not wanted any more; return how many."""
    unfinished = jobs.filter(status__in=(states.QUEUED, states.RUNNING))
    return unfinished.update(status=states.FAILED, finished_at=timezone.now(), error=error, exclusive=None)


def wait(*, job_pk: int, phase: str) -> bool:
    """Set what a queued job waits for; return False if it says so already, or is not queued any more."""
    phase = phase[:200]
    return bool(Job.objects.filter(pk=job_pk, status=states.QUEUED).exclude(phase=phase).update(phase=phase))


@transaction.atomic
def note_wake_failed(*, job_pk: int, reason: str) -> None:
    """Record that no worker could be woken for a queued job, until one is or claims it."""
    if wait(job_pk=job_pk, phase=states.BROKER_AWAY):
        job = Job.objects.get(pk=job_pk)
        handler_of(job.kind).wake_failed(job, reason)


@transaction.atomic
def note_woken() -> None:
    """Clear the broker's failure from all queued jobs: it takes messages again."""
    waited = Job.objects.filter(status=states.QUEUED, phase=states.BROKER_AWAY)
    for job in waited:
        if waited.filter(pk=job.pk).update(phase=""):
            handler_of(job.kind).woken(job)


def mark_lost(
    *, kinds: Iterable[str] | None = None, job_pk: int | None = None, older_than: timedelta = states.LOST_AFTER
) -> list[Job]:
    """Mark jobs as lost whose worker has been silent for too long, or has ended for certain; return them."""
    held = Job.objects.filter(status__in=states.HELD, heartbeat_at__isnull=False).order_by("pk")
    if kinds is not None:
        held = held.filter(kind__in=tuple(kinds))
    if job_pk is not None:
        held = held.filter(pk=job_pk)
    latest = silent_before(older_than)
    silent = (job for job in held if job.heartbeat_at < latest or is_gone(job.claimed_by))
    return [job for job in silent if give_up(job=job, error=_worker_lost(job), heartbeat_at=job.heartbeat_at)]


def _worker_lost(job: Job) -> dict[str, str]:
    return {
        "code": "WORKER_LOST",
        "message": f"worker {job.claimed_by} was last heard of at {job.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC",
        "hint": handler_of(job.kind).lost_hint,
    }


@transaction.atomic
def give_up(*, job: Job, error: dict[str, Any], **seen: Any) -> bool:
    """Mark a job as lost: none of the writes of the attempt that holds it finds the job any more.

    ``seen`` are fields that must be unchanged. Return False if the job is not held, or has changed.
    """
    handler = handler_of(job.kind)
    held = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=states.HELD, **seen)
    lost = held.update(status=handler.lost_as, error=error, finished_at=timezone.now(), phase="", exclusive=None)
    if lost:
        handler.lost(Job.objects.get(pk=job.pk), error)
    return bool(lost)
