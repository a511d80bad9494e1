"""Worker process: its lanes of jobs, its two runners, its heartbeat."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from django.db import Error as DatabaseProblem
from django.db import close_old_connections, connection
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.core.database import retried, shared_now
from elevata.core.processes import process_name
from elevata.jobs import states
from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import LANES, WORK, handler_of, next_work
from elevata.jobs.services import mark_lost
from loader.contract.refusals import Refusal
from loader.runner.supervisor import LOADS, READS, Purpose, Runner
from loader.services.publication import PUBLISH, is_shared, publish_manifest

log = logging.getLogger(__name__)


class Workplace:
    """Worker process with a runner that loads, and one that answers users' reads.

    Each lane has slots: load runs and executions are performed one after another, reads and messages to other systems
    beside them. The runner of reads starts with the first read, so that an installation pays for it only if it is used.
    """

    def __init__(self, *, make_runner: Callable[[str, Purpose], Runner] | None = None):
        self.name = process_name()
        self.stopping = threading.Event()
        make = make_runner or (lambda name, purpose: Runner(holder=f"worker {name}", purpose=purpose))
        self.runner, self.reads_runner = make(self.name, LOADS), make(self.name, READS)
        self._slots = {lane: threading.Semaphore(slots.total) for lane, slots in LANES.items()}
        # User of each job under way, by lane and job.
        self._taken: dict[str, dict[int, int | None]] = {lane: {} for lane in LANES}
        self._guard = threading.Lock()
        self._heartbeats: threading.Thread | None = None
        self._published_in: dict | None = None

    def open(self) -> None:
        """Record the worker as alive, and start Spark before the first run asks for it."""
        self._beat()
        self._heartbeats = threading.Thread(target=self._send_heartbeats, name="presence", daemon=True)
        self._heartbeats.start()
        try:
            self.runner.start()
        except (Refusal, OSError) as problem:  # the first run that needs the runner reports the problem, too
            log.error("the runner was not started: %s", problem)

    def stop(self) -> None:
        """Signal all running work to end. May be called from a signal handler."""
        self.stopping.set()

    def close(self) -> None:
        """End the runners and delete the worker's row."""
        self.stopping.set()
        if self._heartbeats is not None:
            self._heartbeats.join(states.WORKER_BEAT_SECONDS)
        self.runner.close()
        self.reads_runner.close()
        try:
            Worker.objects.filter(name=self.name).delete()
        except DatabaseProblem as error:  # its heartbeat expires anyway
            log.warning("the worker's row stays behind: %s", error)

    def work(self, lane: str = WORK) -> None:
        """Perform queued jobs of a lane until none is left, unless other threads have all its slots.

        No work on tables is claimed while another worker's runner holds the warehouse; the next sweep wakes a worker
        again. Jobs that wait for a lease are retried then, too.
        """
        waiting: set[int] = set()
        while self._next(lane, waiting) is not None and not self.stopping.is_set():
            try:
                if lane == WORK:
                    self.runner.start()
            except Refusal as refusal:
                log.error("queued jobs stay queued: %s", refusal.one_line())
                return
            if not self._slots[lane].acquire(blocking=False):
                return  # the threads that have the slots check again after releasing them
            try:
                while not self.stopping.is_set() and (job := self._take(lane, waiting)) is not None:
                    try:
                        if self._perform(job) is None:
                            waiting.add(job.pk)
                    finally:
                        self._taken[lane].pop(job.pk)
            finally:
                self._slots[lane].release()

    def perform(self, job_pk: int) -> None:
        """Perform all queued jobs of the job's lane."""
        job = Job.objects.filter(pk=job_pk).first()
        self.work(handler_of(job.kind).lane if job is not None else WORK)

    def _next(self, lane: str, waiting: Collection[int]) -> Job | None:
        """Return the next job of a lane that no thread performs, if its user may have another one under way."""
        taken = dict(self._taken[lane])
        busy = Counter(user for user in taken.values() if user is not None)
        return next_work({*waiting, *taken}, lane=lane, busy=busy)

    def _take(self, lane: str, waiting: Collection[int]) -> Job | None:
        """Return the next job of a lane, which no other thread gets until it is removed from ``_taken``."""
        with self._guard:
            job = self._next(lane, waiting)
            if job is not None:
                self._taken[lane][job.pk] = job.requested_by_id
            return job

    def _perform(self, job: Job) -> Any:
        handler = handler_of(job.kind)
        runner = self.reads_runner if handler.only_reads(job) else self.runner
        return handler.perform(job.pk, worker=self.name, runner=runner, stopping=self.stopping)

    def _send_heartbeats(self) -> None:
        while not self.stopping.wait(states.WORKER_BEAT_SECONDS):
            self._beat()
        connection.close()

    def _beat(self) -> None:
        """Record a heartbeat, and mark the work of dead workers as lost."""
        close_old_connections()
        try:
            retried(self._record_heartbeat, patience=0)
            mark_lost()
            self._publish_in_new_runner()
        except DatabaseProblem as error:  # the next heartbeat tries again
            log.warning("no heartbeat, the control database does not answer: %s", error)

    def _record_heartbeat(self) -> None:
        now = timezone.now()
        alive = {"heartbeat_at": shared_now(), "runner_pid": self.runner.pid}
        Worker.objects.update_or_create(name=self.name, defaults=alive, create_defaults={"started_at": now, **alive})

    def _publish_in_new_runner(self) -> None:
        """Publish all names in a runner that has started, because its own catalog is empty."""
        ready = self.runner.wait_until_ready(0)
        if ready is None or ready is self._published_in or is_shared():
            return
        self._published_in = ready
        try:
            manifest = publish_manifest(environment=current_environment())
            self.runner.request(PUBLISH, replace(manifest, whole=False))
        except Exception:  # loads and executions publish what they need, and the heartbeat must go on
            log.exception("the names were not published in the new runner")
