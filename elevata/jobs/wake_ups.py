"""Wake-ups: messages with a job's id.

The state is in the row: if a message is lost, the sweep sends it again.
"""

import logging

from celery import current_app
from django.conf import settings
from django.db import transaction

from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import handler_of
from elevata.jobs.services import wait

log = logging.getLogger(__name__)


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


WAKE_JOB = "loader.tasks.perform"
# Messages expire after this time: by then the sweep has sent another one.
EXPIRES_SECONDS = 120


def wake(job_pk: int) -> str:
    """Send the wake-up for a job; return the reason if it could not be sent, or an empty string."""
    return _send(WAKE_JOB, job_pk)


def _send(task: str, row_id: int) -> str:
    # The caller has already committed the row, and the sweep sends the message again, so a broker failure must not
    # raise an error.
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
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line.replace(settings.CELERY_BROKER_URL, "broker")
