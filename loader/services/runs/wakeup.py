"""Wake-ups of workers: a message with an id. It may get lost; the row decides, and the sweeper sends it again."""

import logging

from celery import current_app
from django.conf import settings

log = logging.getLogger(__name__)

WAKE_RUN, WAKE_READ = "loader.tasks.wake_run", "loader.tasks.wake_read"
WAKE_EXECUTION = "loader.tasks.perform_execution"
WAKE_DELIVERIES = "loader.tasks.send_deliveries"
# Older messages wake no worker: by then the sweeper has sent another one.
EXPIRES_SECONDS = 120


def wake(task: str, row_id: int) -> str:
    """Send a wake-up; return why it could not be sent, or an empty string.

    Whatever is wrong with the broker, the row is there and the sweeper sends again: so no kind of
    failure may reach the caller, who has already committed.
    """
    try:
        with current_app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=5)
            current_app.send_task(task, args=[row_id], expires=EXPIRES_SECONDS, connection=connection, retry=False)
    except Exception as error:
        log.warning("the broker does not answer: %s", error)
        return _reason(error)
    return ""


def wake_for_deliveries() -> None:
    """Wake a worker to send due deliveries; without a broker the sweeper does so later."""
    wake(WAKE_DELIVERIES, 0)


def _reason(error: Exception) -> str:
    """Return the first line of the broker's error, without its URL, which may hold a password."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return said.replace(settings.CELERY_BROKER_URL, "broker")
