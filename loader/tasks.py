"""Celery tasks. A message has an id and is only a wake-up: the work is read from the database.

Duplicate, late and lost messages do no harm. The worker process must use threads (``--pool threads``): all of them
share one runner, and so one JVM.
"""

import threading

from celery import shared_task, signals

from loader.domain.refusals import Refusal
from loader.services import schedules
from loader.services.runner.spark_settings import own_settings
from loader.services.runner.worker import Workplace

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
    """Perform the job that the message names, or all queued ones of its lane, which include it."""
    workplace().perform(job_pk)


@shared_task(name="loader.tasks.sweep")
def sweep() -> None:
    """Start due schedules, send lost wake-ups again, and mark the work of dead workers as lost."""
    schedules.start_due()
    schedules.sweep()


@signals.worker_init.connect
def _check(**_) -> None:
    """End a worker whose Spark settings are refused: it would fail every load."""
    try:
        own_settings()
    except Refusal as refusal:
        raise SystemExit(f"The worker does not start: {refusal.one_line()}") from None


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
