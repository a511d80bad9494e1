"""Wake-ups of workers: a message with a job's id. It may get lost; the row decides, and the sweep sends it again."""

import logging

from celery import current_app
from django.conf import settings

log = logging.getLogger(__name__)

WAKE_JOB, WAKE_DELIVERIES = "loader.tasks.perform", "loader.tasks.send_deliveries"
# Older messages wake no worker: by then the sweep has sent another one.
EXPIRES_SECONDS = 120


def wake(job_pk: int) -> str:
    """Wake a worker for a job; return why the message could not be sent, or an empty string."""
    return _send(WAKE_JOB, job_pk)


def wake_for_deliveries() -> str:
    """Wake a worker to send due webhook deliveries and e-mails; without a broker the sweep does so later."""
    return _send(WAKE_DELIVERIES, 0)


def _send(task: str, row_id: int) -> str:
    # Whatever is wrong with the broker, the row is there and the sweep sends again: so no kind of
    # failure may reach the caller, who has already committed.
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
