"""Life cycle of a job: its attempts, and the ends that they can have."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from elevata.core.database import is_silent, retried, shared_now
from elevata.core.processes import is_gone
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import claimable, handler_of

log = logging.getLogger(__name__)

# Each write of an attempt checks that the attempt is current: a worker whose job was marked as lost may still be
# running, but its attempt number is old, so its writes match no row.


class Fenced(Exception):
    """Error raised when an attempt is not current: its job was lost or claimed again, or its lease was lost."""


@dataclass(frozen=True)
class Attempt:
    """Attempt of a worker at a job."""

    job_pk: int
    number: int

    def own_job(self) -> QuerySet[Job]:
        """Return a query for the job's row if this attempt is current."""
        return Job.objects.filter(pk=self.job_pk, attempt=self.number, status__in=states.HELD)

    def must_hold(self) -> None:
        """Lock the job's row until the transaction ends. Raise Fenced if the attempt is not current."""
        if not self.own_job().select_for_update().exists():
            raise Fenced

    def write(self, **fields: Any) -> None:
        """Write fields of the job, and a heartbeat. Raise Fenced."""
        if not self.own_job().update(heartbeat_at=shared_now(), **fields):
            raise Fenced

    def heartbeat(self) -> str:
        """Record a heartbeat and return the job's status: it may be canceling. Raise Fenced."""
        self.write()
        return Job.objects.values_list("status", flat=True).get(pk=self.job_pk)

    def say(self, message: str, *, level: str = "info", dataset_key: str | None = None) -> None:
        """Log a line of the runner; kinds of jobs with a log of their own add it there."""
        log.info("job %s: %s", self.job_pk, message)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Record heartbeats in a thread while the block runs, and stop once the attempt is not current."""
        stop = threading.Event()

        def beat() -> None:
            try:
                while not stop.wait(states.HEARTBEAT_SECONDS):
                    retried(self.write)
            except Fenced:
                log.warning("job %s was given up during attempt %s", self.job_pk, self.number)
            finally:
                connection.close()

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def enter(self, phase: str) -> None:
        """Set the job's phase, which pages show. Raise Fenced."""
        self.write(phase=phase[:200])

    def end(self, *, wanted: str, error: Mapping | None = None) -> str | None:
        """End the job as ``wanted``, or as canceled if that was requested; return the status. Call in a transaction.

        Return None if the attempt is not current.
        """
        job = self.own_job().select_for_update().first()
        if job is None:
            return None
        status, now = states.ends_as(status=job.status, wanted=wanted), timezone.now()
        self.own_job().update(
            status=status,
            # The error of a cancelled job names the user who cancelled it.
            error=job.error if status == states.CANCELED else error,
            finished_at=now,
            heartbeat_at=shared_now(),
            phase="",
            exclusive=None,
        )
        return status


WAITING_FOR_SPARK = "waiting for Spark"


def claim(*, job_pk: int, worker: str, keep_start: bool = False, phase: str = WAITING_FOR_SPARK) -> Attempt | None:
    """Claim a queued job of this installation's environment; return None if it is not queued, or not due.

    With ``keep_start``, ``started_at`` stays the start of the first attempt. ``phase`` is shown until the attempt sets
    its own.
    """
    now = timezone.now()
    # Without a join, PostgreSQL checks the status again after it has waited for the row's lock.
    claimed = (
        claimable()
        .filter(pk=job_pk)
        .update(
            status=states.RUNNING,
            attempt=F("attempt") + 1,
            claimed_by=worker,
            heartbeat_at=shared_now(),
            started_at=Coalesce(F("started_at"), now) if keep_start else now,
            finished_at=None,
            error=None,
            phase=phase,
        )
    )
    return Attempt(job_pk, Job.objects.values_list("attempt", flat=True).get(pk=job_pk)) if claimed else None


def queue_again(*, job_pk: int, repeat: bool = False, **fields: Any) -> bool:
    """Queue a job for a new attempt, and write ``fields``; return False if its state does not allow that.

    With ``repeat``, a job that succeeded may be queued again, too.
    """
    allowed = states.may_become(states.QUEUED) + ((states.SUCCEEDED,) if repeat else ())
    restartable = Job.objects.filter(pk=job_pk, status__in=allowed)
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
    """Cancel a queued job, or ask the worker of a running one to stop; ``error`` names the user.

    Return the new status; None if the job is neither queued nor running. Call in a transaction.
    """
    jobs, now = Job.objects.filter(pk=job_pk), timezone.now()
    canceled = {"status": states.CANCELED, "finished_at": now, "error": error, "exclusive": None}
    if jobs.filter(status=states.QUEUED).update(**canceled):
        return states.CANCELED
    if jobs.filter(status=states.RUNNING).update(status=states.CANCELING, error=error):
        return states.CANCELING
    return None


def block(*, job_pk: int, error: Mapping[str, Any]) -> bool:
    """Block a queued job that users must decide on; ``error`` names the decision. Return False if it is not queued."""
    jobs = Job.objects.filter(pk=job_pk, status=states.QUEUED)
    return bool(jobs.update(status=states.BLOCKED, error=dict(error), finished_at=timezone.now()))


def abandon(*, job_pk: int, reason: str) -> bool:
    """Abandon a job, so that it gets no further attempt; return False if its state does not allow that."""
    jobs = Job.objects.filter(pk=job_pk, status__in=states.may_become(states.ABANDONED))
    return bool(jobs.update(status=states.ABANDONED, reason=reason, finished_at=timezone.now()))


def withdraw(jobs: QuerySet[Job], *, error: Mapping[str, Any]) -> int:
    """Fail queued and running jobs whose result is not needed any more; return their number."""
    open_jobs = jobs.filter(status__in=(states.QUEUED, states.RUNNING))
    return open_jobs.update(status=states.FAILED, finished_at=timezone.now(), error=error, exclusive=None)


def wait(*, job_pk: int, phase: str) -> bool:
    """Set the reason why a queued job waits; return False if it has this one already, or is not queued."""
    phase = phase[:200]
    return bool(Job.objects.filter(pk=job_pk, status=states.QUEUED).exclude(phase=phase).update(phase=phase))


def mark_lost(
    *, kinds: Iterable[str] | None = None, job_pk: int | None = None, older_than: timedelta = states.LOST_AFTER
) -> list[Job]:
    """Mark jobs as lost whose last heartbeat is too old, or whose worker process has ended; return them.

    A heartbeat in the future is too old if it stays the same: it is from before the clock was set back.
    """
    jobs = Job.objects.filter(status__in=states.HELD, heartbeat_at__isnull=False).order_by("pk")
    if kinds is not None:
        jobs = jobs.filter(kind__in=tuple(kinds))
    if job_pk is not None:
        jobs = jobs.filter(pk=job_pk)
    silent = (job for job in jobs if is_silent(job, older_than) or is_gone(job.claimed_by))
    return [job for job in silent if give_up(job=job, error=_worker_lost(job), heartbeat_at=job.heartbeat_at)]


def _worker_lost(job: Job) -> dict[str, str]:
    return {
        "code": "WORKER_LOST",
        "message": f"worker {job.claimed_by} sent its last heartbeat at {job.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC",
        "hint": handler_of(job.kind).lost_hint,
    }


@transaction.atomic
def give_up(*, job: Job, error: dict[str, Any], **seen: Any) -> bool:
    """Mark a job as lost, so that later writes of its attempt match no row.

    Only if the fields ``seen`` are unchanged. Return False if they changed, or the job is not running.
    """
    handler = handler_of(job.kind)
    attempts = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=states.HELD, **seen)
    lost = attempts.update(status=handler.lost_as, error=error, finished_at=timezone.now(), phase="", exclusive=None)
    if lost:
        handler.lost(Job.objects.get(pk=job.pk), error)
    return bool(lost)
