"""Submission of jobs: a row is added, and its wake-up, a message with its id, is sent after the commit.

The state is in the row: if a message is lost, the sweep sends it again.
"""

import logging
from dataclasses import dataclass
from typing import Generic, TypeVar

from celery import current_app
from django.conf import settings
from django.db import transaction

from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import handler_of
from elevata.jobs.services import wait

log = logging.getLogger(__name__)

# Messages do not expire: a worker would drop each one as expired if its clock were ahead of the sender's.
WAKE_JOB = "loader.tasks.perform"

J = TypeVar("J", bound=Job)


@dataclass
class Submitted(Generic[J]):
    """Result of submitting a job. ``wakeup_sent`` is None until the transaction commits.

    ``requested`` is False if nothing changed, because the job is active or has succeeded.
    """

    job: J
    requested: bool = True
    wakeup_sent: bool | None = None
    reason: str = ""

    def send_wakeup(self) -> None:
        """Send the wake-up now; if that fails, store the reason in the job's row."""
        self.reason = wake(self.job.pk)
        self.wakeup_sent = not self.reason
        if self.reason:
            retried(lambda: note_wake_failed(job_pk=self.job.pk, reason=self.reason))

    def wake_after_commit(self) -> None:
        """Send the wake-up after the commit, if the submission changed anything."""
        if self.requested:
            transaction.on_commit(self.send_wakeup)

    @property
    def notice(self) -> str:
        """Return a message for the user if the wake-up could not be sent; else an empty string."""
        if self.wakeup_sent is not False:
            return ""
        return f"queued; the broker does not answer: {self.reason}; the scheduler sends it again"


@transaction.atomic
def note_wake_failed(*, job_pk: int, reason: str) -> None:
    """Record that the wake-up for a queued job could not be sent."""
    if wait(job_pk=job_pk, phase=states.BROKER_AWAY):
        job = Job.objects.get(pk=job_pk)
        handler_of(job.kind).wake_failed(job, reason)


@transaction.atomic
def note_woken() -> None:
    """Clear the recorded wake-up failures of all queued jobs, because the broker answers again."""
    waiting = Job.objects.filter(status=states.QUEUED, phase=states.BROKER_AWAY)
    for job in waiting:
        if waiting.filter(pk=job.pk).update(phase=""):
            handler_of(job.kind).woken(job)


def wake(job_pk: int) -> str:
    """Send the wake-up for a job; return the reason if it could not be sent, or an empty string."""
    return _send(WAKE_JOB, job_pk)


def _send(task: str, row_id: int) -> str:
    # The caller has already committed the row, and the sweep sends the message again, so a broker failure must not
    # raise an error.
    try:
        with current_app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=5)
            current_app.send_task(task, args=[row_id], connection=connection, retry=False)
    except Exception as error:
        log.warning("the broker does not answer: %s", error)
        return _reason(error)
    return ""


def _reason(error: Exception) -> str:
    """Return the first line of the broker's error, without its URL, which may hold a password."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line.replace(settings.CELERY_BROKER_URL, "broker")
