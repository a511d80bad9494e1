"""Life cycle of a job: submission, attempts, wake-up, sweep."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from elevata.core.database import retried, silent_before
from elevata.core.processes import is_gone
from elevata.jobs import states
from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import ASIDE, claimable, handler_of, queued_for

log = logging.getLogger(__name__)

# Writes of one attempt of a job. Each checks that the attempt is current: a worker whose job was marked as lost may
# still be running, but with an old attempt number its writes match no row.


class Fenced(Exception):
    """Error raised when an attempt no longer holds its job: it was lost, claimed again, or lost a lease."""


@dataclass(frozen=True)
class Attempt:
    """One worker's hold on one job."""

    job_pk: int
    number: int

    def held(self) -> QuerySet[Job]:
        """Return a query for the job's row if this attempt is current."""
        return Job.objects.filter(pk=self.job_pk, attempt=self.number, status__in=states.HELD)

    def must_hold(self) -> None:
        """Lock the job's row until the transaction ends. Raise Fenced if the attempt does not hold it."""
        if not self.held().select_for_update().exists():
            raise Fenced

    def write(self, **fields: Any) -> None:
        """Write fields of the job, and a heartbeat. Raise Fenced."""
        if not self.held().update(heartbeat_at=timezone.now(), **fields):
            raise Fenced

    def heartbeat(self) -> str:
        """Record a heartbeat and return the job's status: it may be canceling. Raise Fenced."""
        self.write()
        return Job.objects.values_list("status", flat=True).get(pk=self.job_pk)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Record heartbeats in a thread of its own while the block runs, until the attempt does not hold the job."""
        over = threading.Event()

        def beat() -> None:
            try:
                while not over.wait(states.HEARTBEAT_SECONDS):
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
            over.set()
            thread.join()

    def enter(self, phase: str) -> None:
        """Set the job's phase, which pages show. Raise Fenced."""
        self.write(phase=phase[:200])

    def end(self, *, wanted: str, error: Mapping | None = None) -> str | None:
        """End the job as ``wanted``, or as canceled if that was requested; return the status. Call in a transaction.

        Return None if the attempt no longer holds the job.
        """
        job = self.held().select_for_update().first()
        if job is None:
            return None
        status, now = states.ends_as(status=job.status, wanted=wanted), timezone.now()
        self.held().update(
            status=status,
            # A cancelled job keeps the error with the name of who cancelled it.
            error=job.error if status == states.CANCELED else error,
            finished_at=now,
            heartbeat_at=now,
            phase="",
            exclusive=None,
        )
        return status


WAITING_FOR_SPARK = "waiting for Spark"


def claim(*, job_pk: int, worker: str, keep_start: bool = False) -> Attempt | None:
    """Claim a queued job of this installation's environment; return None if it is not queued any more, or not due.

    With ``keep_start`` an attempt after the first leaves ``started_at`` as it is.
    """
    now = timezone.now()
    # No join: PostgreSQL then checks the status again once it has waited for the row.
    claimed = (
        claimable()
        .filter(pk=job_pk)
        .update(
            status=states.RUNNING,
            attempt=F("attempt") + 1,
            claimed_by=worker,
            heartbeat_at=now,
            started_at=Coalesce(F("started_at"), now) if keep_start else now,
            finished_at=None,
            error=None,
            phase=WAITING_FOR_SPARK,
        )
    )
    return Attempt(job_pk, Job.objects.values_list("attempt", flat=True).get(pk=job_pk)) if claimed else None


def queue_again(*, job_pk: int, repeat: bool = False, **fields: Any) -> bool:
    """Queue a job for a new attempt; return False if its state does not allow that. ``fields`` are written, too.

    With ``repeat`` a job that succeeded may be queued as well: its work is done once more.
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
    """Set the reason why a queued job waits; return False if it is set already, or the job is not queued."""
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
        "message": f"worker {job.claimed_by} sent its last heartbeat at {job.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC",
        "hint": handler_of(job.kind).lost_hint,
    }


@transaction.atomic
def give_up(*, job: Job, error: dict[str, Any], **seen: Any) -> bool:
    """Mark a job as lost: the writes of its attempt match no row any more.

    ``seen`` are fields that must be unchanged. Returns False if the job is not running, or has changed.
    """
    handler = handler_of(job.kind)
    held = Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=states.HELD, **seen)
    lost = held.update(status=handler.lost_as, error=error, finished_at=timezone.now(), phase="", exclusive=None)
    if lost:
        handler.lost(Job.objects.get(pk=job.pk), error)
    return bool(lost)


# Wake-ups of workers: a message with a job's id. It may get lost; the row decides, and the sweep sends it again.


WAKE_JOB = "loader.tasks.perform"
# Older messages wake no worker: by then the sweep has sent another one.
EXPIRES_SECONDS = 120


def wake(job_pk: int) -> str:
    """Wake a worker for a job; return why the message could not be sent, or an empty string."""
    return _send(WAKE_JOB, job_pk)


def _send(task: str, row_id: int) -> str:
    # If the broker fails, the row exists and the sweep sends again, so no failure may reach the caller, who has
    # already committed.
    try:
        with current_app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=5)
            current_app.send_task(task, args=[row_id], expires=EXPIRES_SECONDS, connection=connection, retry=False)
    except Exception as error:
        log.warning("the broker does not answer: %s", error)
        return _reason(error)
    return ""


def _reason(error: Exception) -> str:
    """Return the first line of the broker's error, without its URL, which may hold a password."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return said.replace(settings.CELERY_BROKER_URL, "broker")


# Submission of a job: a row, and a wake-up once the transaction around it commits.


J = TypeVar("J", bound=Job)


@dataclass
class Submitted(Generic[J]):
    """Result of submitting a job. ``wakeup_sent`` is None until the transaction around it commits.

    ``requested`` is False if nothing changed: a job that is active or succeeded stays as it is.
    """

    job: J
    requested: bool = True
    wakeup_sent: bool | None = None
    reason: str = ""

    def send_wakeup(self) -> None:
        """Wake a worker now; store the reason in the job's row if that fails."""
        self.reason = wake(self.job.pk)
        self.wakeup_sent = not self.reason
        if self.reason:
            retried(lambda: note_wake_failed(job_pk=self.job.pk, reason=self.reason))

    def wake_after_commit(self) -> None:
        """Wake a worker when the transaction commits, if the submission changed anything."""
        if self.requested:
            transaction.on_commit(self.send_wakeup)

    @property
    def notice(self) -> str:
        """Return a message for the user if the wake-up could not be sent; else an empty text."""
        if self.wakeup_sent is not False:
            return ""
        return f"queued; the broker does not answer: {self.reason}; the scheduler sends it again"


# Sweep of the queue: lost wake-ups are sent again, jobs of dead workers are marked as lost.


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
    lost = mark_lost()
    woken = []
    for job in _to_wake(list(queued_for(resent_after))):
        if wake(job.pk):
            break  # the broker is away; the next sweep tries again
        woken.append(job)
    if woken:
        note_woken()
    Worker.objects.filter(heartbeat_at__lt=timezone.now() - _WORKER_KEPT_FOR).delete()
    return Swept(tuple(lost), tuple(woken))


def _to_wake(jobs: list[Job]) -> list[Job]:
    """Return the jobs that need a message of their own: the oldest of a lane, and every one that runs beside others."""
    oldest = {handler_of(job.kind).lane: job for job in reversed(jobs)}
    return [job for job in jobs if handler_of(job.kind).lane == ASIDE or job is oldest[handler_of(job.kind).lane]]
