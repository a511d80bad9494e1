"""Waiting in a command for a job that a worker performs."""

import threading
import time
from typing import TypeVar

from elevata.core.database import retried
from elevata.core.errors import ProductError
from elevata.core.installation import user_command
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import live_workers
from elevata.jobs.services import withdraw

# The worker, another process, reports progress in the database only, so it is polled.
POLL_SECONDS = 0.25

J = TypeVar("J", bound=Job)


class NoWorker(ProductError):
    """Error raised if no worker is alive; the job was withdrawn."""

    code = "no_worker"
    message = f"no worker is running: start one with '{user_command('serve')}', or use --local"


def follow_job(job: J) -> J:
    """Wait until a job is finished. Withdraw it on Ctrl-C, or if no worker is alive; then raise NoWorker."""
    pause = threading.Event()
    last_alive = time.monotonic()
    try:
        while not job.is_finished:
            names = [worker.name for worker in retried(live_workers)]
            if job.claimed_by in names if job.claimed_by else names:
                last_alive = time.monotonic()
            elif time.monotonic() - last_alive > states.WORKER_SILENT_AFTER.total_seconds():
                raise NoWorker
            pause.wait(POLL_SECONDS)
            retried(job.refresh_from_db)
    except (KeyboardInterrupt, NoWorker):
        error = {"code": "WITHDRAWN", "message": "nobody waited for the answer any more"}
        withdraw(Job.objects.filter(pk=job.pk), error=error)
        raise
    return job
