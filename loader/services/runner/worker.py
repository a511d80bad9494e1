"""Worker process, and its conversation with the runner."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from django.db import Error as DatabaseProblem
from django.db import close_old_connections, connection
from django.utils import timezone

from architecture.services.states import current_environment
from elevata.core.database import retried
from elevata.core.processes import process_name
from elevata.jobs import states
from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import ASIDE, MESSAGES, WORK, handler_of, next_work
from elevata.jobs.services import mark_lost
from loader.domain.refusals import Refusal
from loader.services.publication import PUBLISH, is_shared, publish_manifest
from loader.services.runner.supervisor import Runner

log = logging.getLogger(__name__)


class Workplace:
    """One worker process: load runs and executions go one after another, reads beside them, through one runner.

    Messages that leave the installation go one after another, too, without the runner.
    """

    def __init__(self, *, make_runner: Callable[[str], Runner] | None = None):
        self.name = process_name()
        self.stopping = threading.Event()
        make = make_runner or (lambda name: Runner(holder=f"worker {name}"))
        self.runner = make(self.name)
        self._busy = {WORK: threading.Lock(), MESSAGES: threading.Lock()}
        self._presence: threading.Thread | None = None
        self._published_in: dict | None = None

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
        """Signal all running work to end. May be called from a signal handler."""
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

    def work(self, lane: str = WORK) -> None:
        """Perform queued jobs of a lane until none is left, unless another thread already does.

        Without the warehouse no job is claimed: the sweep wakes the worker that has it, or this one a little later.
        Jobs that wait for a lease are retried then, too.
        """
        waiting: set[int] = set()
        while next_work(waiting, lane=lane) is not None and not self.stopping.is_set():
            try:
                if lane == WORK:
                    self.runner.start()
            except Refusal as busy:
                log.error("what is queued stays queued: %s", busy.one_line())
                return
            if not self._busy[lane].acquire(blocking=False):
                return  # the thread that holds the lock checks again after releasing it
            try:
                while (job := next_work(waiting, lane=lane)) is not None and not self.stopping.is_set():
                    if self._perform(job) is None:
                        waiting.add(job.pk)
            finally:
                self._busy[lane].release()

    def perform(self, job_pk: int) -> None:
        """Perform a job: one that may run beside others at once, else all queued ones of its lane."""
        job = Job.objects.filter(pk=job_pk).first()
        lane = handler_of(job.kind).lane if job is not None else WORK
        if lane == ASIDE:
            self._perform(job)
        else:
            self.work(lane)

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
            self._publish_in_new_runner()
        except DatabaseProblem as error:  # the next beat tries again
            log.warning("no heartbeat, the control database does not answer: %s", error)

    def _show_alive(self) -> None:
        now = timezone.now()
        alive = {"heartbeat_at": now, "runner_pid": self.runner.pid}
        Worker.objects.update_or_create(name=self.name, defaults=alive, create_defaults={"started_at": now, **alive})

    def _publish_in_new_runner(self) -> None:
        """Have a runner that has started publish all names: its own catalog is empty."""
        ready = self.runner.wait_until_ready(0)
        if ready is None or ready is self._published_in or is_shared():
            return
        self._published_in = ready
        try:
            manifest = publish_manifest(environment=current_environment())
            self.runner.request(PUBLISH, replace(manifest, whole=False))
        except Exception:  # loads and executions publish what they need, and the heartbeat must go on
            log.exception("the names were not published in the new runner")


# Conversation with the runner: while an attempt waits for an answer, it sends heartbeats and can be cancelled.


# How long a cancelled request may take to end before the runner is ended with it.
CANCEL_PATIENCE_SECONDS = 60.0

Handler = Callable[[dict], None]


class SupportsExchange(Protocol):
    def next(self, timeout: float) -> dict | None: ...
    def cancel(self) -> None: ...


class SupportsRequests(Protocol):
    """Interface of a runner that the work needs (``loader.services.runner.supervisor.Runner``)."""

    def request(self, kind: str, manifest: Any) -> SupportsExchange: ...
    def kill(self, why: Refusal) -> None: ...


class SupportsHeartbeat(Protocol):
    """Interface of an attempt that a conversation needs. Both methods raise Fenced once the attempt is not current."""

    def heartbeat(self) -> str: ...
    def say(self, message: str, *, level: str, dataset_key: str | None) -> None: ...


class Stopped(Exception):
    """Error raised when the run is to end: it was cancelled, or the worker is stopping."""


@dataclass
class Conversation:
    """Requests of one attempt to the runner. ``stopping`` is set when the worker is to end."""

    attempt: SupportsHeartbeat
    runner: SupportsRequests
    stopping: threading.Event = field(default_factory=threading.Event)
    beat_every: float = states.HEARTBEAT_SECONDS
    _canceling: bool = False

    @property
    def is_to_stop(self) -> bool:
        return self._canceling or self.stopping.is_set()

    def ask(self, kind: str, manifest: Any, handle: Handler | None = None) -> dict:
        """Send a request, pass its events to ``handle``, return its ``finished``. Raise Stopped or Fenced."""
        if self.is_to_stop:
            raise Stopped
        exchange = self.runner.request(kind, manifest)
        try:
            return self._listen(exchange, handle)
        except BaseException:
            exchange.cancel()  # its events are not read any more
            raise

    def _listen(self, exchange: SupportsExchange, handle: Handler | None) -> dict:
        asked_to_end: float | None = None
        next_beat = 0.0
        while True:
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self.beat_every
                self._canceling = retried(self.attempt.heartbeat) == states.CANCELING
                asked_to_end = self._see_to_the_end(exchange, asked_to_end)
            event = exchange.next(timeout=max(0.0, next_beat - time.monotonic()))
            if event is None:
                continue
            if event["event"] == "finished":
                return event
            if event["event"] == "log":
                level, dataset = event.get("level", "info"), event.get("dataset")
                retried(partial(self.attempt.say, event["message"], level=level, dataset_key=dataset))
            elif handle is not None:
                handle(event)

    def _see_to_the_end(self, exchange: SupportsExchange, asked: float | None) -> float | None:
        if not self.is_to_stop:
            return None
        if asked is None:
            exchange.cancel()
            return time.monotonic()
        if time.monotonic() - asked > CANCEL_PATIENCE_SECONDS:
            self.runner.kill(
                Refusal("NOT_CANCELED", f"the runner did not cancel within {CANCEL_PATIENCE_SECONDS:.0f} seconds")
            )
        return asked
