"""Worker process: a name, a runner, a heartbeat, and one job of the lane ``WORK`` at a time."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from django.db import Error as DatabaseProblem
from django.db import close_old_connections, connection
from django.utils import timezone

from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.models import Job, Worker
from elevata.jobs.processes import process_name
from elevata.jobs.registry import ASIDE, handler_of
from elevata.jobs.selectors import next_work
from elevata.jobs.services import mark_lost
from loader.domain.runs.refusals import Refusal
from loader.services.runner.supervisor import Runner

log = logging.getLogger(__name__)


class Workplace:
    """One worker process: load runs and executions go one after another, reads beside them, through one runner."""

    def __init__(self, *, make_runner: Callable[[str], Runner] | None = None):
        self.name = process_name()
        self.stopping = threading.Event()
        make = make_runner or (lambda name: Runner(holder=f"worker {name}"))
        self.runner = make(self.name)
        self._loading = threading.Lock()
        self._presence: threading.Thread | None = None

    def open(self) -> None:
        """Record the worker as alive, and start Spark before the first run asks for it."""
        self._beat()
        self._presence = threading.Thread(target=self._be_present, name="presence", daemon=True)
        self._presence.start()
        try:
            self.runner.start()
        except (Refusal, OSError) as problem:  # the first run that needs the runner reports it, too
            log.error("the runner was not started: %s", problem)

    def stop(self) -> None:
        """Tell all work under way to end. May be called from a signal handler."""
        self.stopping.set()

    def close(self) -> None:
        """End the runner and delete the worker's row."""
        self.stopping.set()
        if self._presence is not None:
            self._presence.join(states.WORKER_BEAT_SECONDS)
        self.runner.close()
        try:
            Worker.objects.filter(name=self.name).delete()
        except DatabaseProblem as error:  # its heartbeat runs out anyway
            log.warning("the worker's row stays behind: %s", error)

    def work(self) -> None:
        """Perform queued work until nothing is left, unless another thread already does.

        Without the warehouse nothing is claimed: the worker that has it, or this one a little
        later, is woken by the sweeper. Work that waits for a lease is tried again then, too.
        """
        waiting: set[int] = set()
        while next_work(waiting) is not None and not self.stopping.is_set():
            try:
                self.runner.start()
            except Refusal as busy:
                log.error("what is queued stays queued: %s", busy.one_line())
                return
            if not self._loading.acquire(blocking=False):
                return  # the thread that holds the lock checks again after releasing it
            try:
                while (job := next_work(waiting)) is not None and not self.stopping.is_set():
                    if self._perform(job) is None:
                        waiting.add(job.pk)
            finally:
                self._loading.release()

    def perform(self, job_pk: int) -> None:
        """Perform a job: one that may run beside others at once, else all queued work."""
        job = Job.objects.filter(pk=job_pk).first()
        if job is not None and handler_of(job.kind).lane == ASIDE:
            self._perform(job)
        else:
            self.work()

    def _perform(self, job: Job) -> Any:
        perform = handler_of(job.kind).perform
        return perform(job.pk, worker=self.name, runner=self.runner, stopping=self.stopping)

    def _be_present(self) -> None:
        while not self.stopping.wait(states.WORKER_BEAT_SECONDS):
            self._beat()
        connection.close()

    def _beat(self) -> None:
        """Record a heartbeat, and mark the work of dead workers as lost."""
        close_old_connections()
        try:
            retried(self._show_alive, patience=0)
            mark_lost()
        except DatabaseProblem as error:  # the next beat tries again
            log.warning("no heartbeat, the control database does not answer: %s", error)

    def _show_alive(self) -> None:
        now = timezone.now()
        alive = {"heartbeat_at": now, "runner_pid": self.runner.pid}
        Worker.objects.update_or_create(name=self.name, defaults=alive, create_defaults={"started_at": now, **alive})
