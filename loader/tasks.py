"""Celery tasks. A message carries an id and is only a wake-up: the work is read from the database.

A message that comes twice, late or never does no harm. The worker process must use threads
(``--pool threads``): all of them share one runner, and so one JVM.
"""

import threading

from celery import shared_task, signals

from loader.services.runner.worker import Workplace
from loader.services.runs import deliveries, schedules, sweeper

_guard = threading.Lock()
_workplace: Workplace | None = None


def workplace() -> Workplace:
    """Return this process's only workplace, made on first use."""
    global _workplace
    with _guard:
        if _workplace is None:
            _workplace = Workplace()
        return _workplace


@shared_task(name="loader.tasks.perform")
def perform(job_pk: int) -> None:
    """Perform the job that the message names, or all queued work, which includes it."""
    workplace().perform(job_pk)


@shared_task(name="loader.tasks.send_deliveries")
def send_deliveries(_: int = 0) -> None:
    """Send due webhook deliveries and e-mails."""
    deliveries.send_due()


@shared_task(name="loader.tasks.sweep")
def sweep() -> None:
    """Start due schedules, send lost wake-ups again, and mark the work of dead workers as lost."""
    schedules.start_due()
    sweeper.sweep()


@signals.worker_ready.connect
def _open(**_) -> None:
    workplace().open()


@signals.worker_shutting_down.connect
def _stop(**_) -> None:
    if _workplace is not None:
        _workplace.stop()


@signals.worker_shutdown.connect
def _close(**_) -> None:
    if _workplace is not None:
        _workplace.close()
