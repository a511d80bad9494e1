"""Waiting in a command for a job that a worker performs."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from elevata.core.database import retried
from elevata.core.errors import ProductError
from elevata.core.installation import user_command
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import live_workers
from elevata.jobs.services import mark_lost, withdraw

# The worker, another process, reports progress in the database only, so it is polled.
POLL_SECONDS = 0.25

J = TypeVar("J", bound=Job)


class NoWorker(ProductError):
    """Error raised if no worker is alive; the job was withdrawn."""

    code = "no_worker"
    message = f"no worker is running: start one with '{user_command('serve')}', or use --local"


def follow_job(
    job: J,
    *,
    show: Callable[[J], None] = lambda _: None,
    cancel: Callable[[J], Any] | None = None,
    has_worker: Callable[[], Any] = live_workers,
) -> J:
    """Show a job until it is finished, and return it. Raise NoWorker if it is queued and no worker is alive.

    The first Ctrl-C cancels the job, and so does NoWorker; the second ends the wait. Without ``cancel``, the job is
    withdrawn, and the first Ctrl-C ends the wait.
    """
    pause, canceled, last_alive = threading.Event(), False, time.monotonic()
    while True:
        try:
            show(job)
            if job.is_finished:
                return job
            if job.status != states.QUEUED or retried(has_worker):
                last_alive = time.monotonic()
            elif time.monotonic() - last_alive > states.WORKER_SILENT_AFTER.total_seconds():
                (cancel or _withdraw)(job)
                raise NoWorker
            retried(partial(mark_lost, job_pk=job.pk))
            pause.wait(POLL_SECONDS)
            retried(job.refresh_from_db)
        except KeyboardInterrupt:
            if canceled:
                raise
            canceled = True
            (cancel or _withdraw)(job)
            if cancel is None:
                raise


def _withdraw(job: Job) -> None:
    error = {"code": "WITHDRAWN", "message": "nobody waited for the answer any more"}
    withdraw(Job.objects.filter(pk=job.pk), error=error)
