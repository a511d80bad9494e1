"""Waiting for a load run or a read to end, from a process that does not do the work."""

import threading
import time
from collections.abc import Callable
from functools import partial

from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.selectors import live_workers
from elevata.jobs.services import mark_lost
from loader.models import LoadRun, ReadRequest
from loader.services.queries.reads import withdraw_read
from loader.services.runs.runs import request_cancel

# The work is done in another process, which reports it in the database only.
_LOOK_EVERY = 0.25


class NoWorker(Exception):
    """Error raised if no worker is alive for the work, which was withdrawn."""

    def one_line(self) -> str:
        return "no worker is answering: start one with 'make serve', or use --local"

    code = "no_worker"


def follow(
    run: LoadRun,
    show: Callable[[LoadRun, list], None],
    *,
    is_somebody_there: Callable[[], bool] = lambda: live_workers().exists(),
) -> LoadRun:
    """Show the run until it is finished. The first Ctrl-C cancels it, the second stops following.

    A queued run is cancelled if no worker is alive for it; then raise NoWorker.
    """
    pause = threading.Event()
    canceled = False
    seen = time.monotonic()
    while True:
        try:
            run = retried(partial(LoadRun.objects.get, pk=run.pk))
            show(run, retried(partial(list, run.datasets.order_by("ordinal"))))
            if run.is_finished:
                return run
            if run.status != states.QUEUED or retried(is_somebody_there):
                seen = time.monotonic()
            elif time.monotonic() - seen > states.WORKER_SILENT_AFTER.total_seconds():
                request_cancel(run=run)
                raise NoWorker
            retried(partial(mark_lost, job_pk=run.pk))
            pause.wait(_LOOK_EVERY)
        except KeyboardInterrupt:
            if canceled:
                raise
            canceled = True
            run = request_cancel(run=run)


def follow_read(read: ReadRequest) -> ReadRequest:
    """Wait until a read is finished. It is withdrawn on Ctrl-C, or if no worker is alive for it: raise NoWorker."""
    pause = threading.Event()
    seen = time.monotonic()
    try:
        while not read.is_finished:
            workers = live_workers()
            if retried((workers.filter(name=read.claimed_by) if read.claimed_by else workers).exists):
                seen = time.monotonic()
            elif time.monotonic() - seen > states.WORKER_SILENT_AFTER.total_seconds():
                raise NoWorker
            pause.wait(_LOOK_EVERY)
            retried(read.refresh_from_db)
    except (KeyboardInterrupt, NoWorker):
        withdraw_read(read=read)
        raise
    return read
