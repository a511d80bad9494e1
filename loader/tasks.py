"""Celery tasks. A message is a wake-up with a job's id; the job itself is in the database.

Duplicate, late and lost messages do no harm. The worker process must use threads (``--pool threads``), because they
share the worker's runners, and so their JVMs.
"""

import threading
from time import monotonic

from celery import shared_task, signals

from loader.contract.refusals import Refusal
from loader.runner import sweep as cleanup
from loader.runner.spark_settings import own_settings
from loader.runner.worker import Workplace
from loader.schedules import runs as schedule_runs

_guard = threading.Lock()
_workplace: Workplace | None = None
# Sweeps are due every 15 seconds. Messages that follow one another faster have waited for a worker.
_LEAST_SECONDS_BETWEEN_SWEEPS = 5.0
_swept_at = float("-inf")


def workplace() -> Workplace:
    """Return the workplace of this process; create it at the first call."""
    global _workplace
    with _guard:
        if _workplace is None:
            _workplace = Workplace()
        return _workplace


@shared_task(name="loader.tasks.perform")
def perform(job_pk: int) -> None:
    """Perform the message's job, or all queued jobs of its lane."""
    workplace().perform(job_pk)


@shared_task(name="loader.tasks.sweep")
def sweep() -> None:
    """Start due schedules, send lost wake-ups again, mark work of dead workers lost, check the data of waiting ones.

    The checks come last, since each may take seconds. One sweep answers all messages that waited for this worker.
    """
    if not _is_sweep_due():
        return
    schedule_runs.start_due()
    cleanup.sweep()
    schedule_runs.check_waiting()


def _is_sweep_due() -> bool:
    global _swept_at
    with _guard:
        now = monotonic()
        if now - _swept_at < _LEAST_SECONDS_BETWEEN_SWEEPS:
            return False
        _swept_at = now
    return True


@signals.worker_init.connect
def _check(**_) -> None:
    """End a worker whose Spark settings are refused, because all its loads would fail."""
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
