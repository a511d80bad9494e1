"""Worker process: a name, a runner, a heartbeat, and one load run or execution at a time."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseProblem
from django.db import close_old_connections, connection
from django.utils import timezone

from architecture.models import Environment
from architecture.services.executions.executions import mark_lost_executions, queued_executions
from architecture.services.reports.dry_runs import mark_lost_rehearsals, queued_rehearsals
from elevata.core.database import retried
from loader.domain.runs import run_states as states
from loader.domain.runs.refusals import Refusal
from loader.models import LoadRun, Worker
from loader.services.queries.reads import perform_read
from loader.services.runner.processes import is_gone, process_name
from loader.services.runner.supervisor import Runner
from loader.services.runs.dry_runs import perform_rehearsal
from loader.services.runs.executions import perform_execution
from loader.services.runs.load_work import perform_load_run
from loader.services.runs.runs import LOAD_RUN, mark_lost

log = logging.getLogger(__name__)

EXECUTION, REHEARSAL = "execution", "rehearsal"
Work = tuple[str, int]
_PERFORM: Mapping[str, Callable[..., Any]] = {
    LOAD_RUN: lambda pk, **with_: perform_load_run(run_pk=pk, **with_),
    EXECUTION: lambda pk, **with_: perform_execution(execution_pk=pk, **with_),
    REHEARSAL: lambda pk, **with_: perform_rehearsal(rehearsal_pk=pk, **with_),
}


class Workplace:
    """One worker process: load runs go one after another, reads beside them, through one runner."""

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

    def load(self) -> None:
        """Perform queued work until nothing is left, unless another thread already does.

        Without the warehouse nothing is claimed: the worker that has it, or this one a little
        later, is woken by the sweeper. Work that waits for a lease is tried again then, too.
        """
        waiting: set[Work] = set()
        while self._next(waiting) is not None and not self.stopping.is_set():
            try:
                self.runner.start()
            except Refusal as busy:
                log.error("what is queued stays queued: %s", busy.one_line())
                return
            if not self._loading.acquire(blocking=False):
                return  # the thread that holds the lock checks again after releasing it
            try:
                while (work := self._next(waiting)) is not None and not self.stopping.is_set():
                    if self._perform(work) is None:
                        waiting.add(work)
            finally:
                self._loading.release()

    def _perform(self, work: Work) -> Any:
        kind, pk = work
        return _PERFORM[kind](pk, worker=self.name, runner=self.runner, stopping=self.stopping)

    def read(self, read_pk: int) -> None:
        """Answer one read."""
        perform_read(read_pk=read_pk, worker=self.name, runner=self.runner, stopping=self.stopping)

    def _next(self, but: Collection[Work] = ()) -> Work | None:
        """Return the next piece of work: dry runs and executions first, since users wait for them."""
        environment = Environment.objects.filter(name=settings.ENVIRONMENT).first()
        if environment is None:
            return None
        runs = LoadRun.objects.filter(status=states.QUEUED, environment=environment).order_by("requested_at", "pk")
        for kind, queued in (
            (REHEARSAL, lambda: queued_rehearsals(environment=environment)),
            (EXECUTION, lambda: queued_executions(environment=environment)),
            (LOAD_RUN, lambda: runs.values_list("pk", flat=True)),
        ):
            for pk in queued():
                if (kind, pk) not in but:
                    return kind, pk
        return None

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
            mark_lost_executions(is_gone=is_gone)
            mark_lost_rehearsals(is_gone=is_gone)
        except DatabaseProblem as error:  # the next beat tries again
            log.warning("no heartbeat, the control database does not answer: %s", error)

    def _show_alive(self) -> None:
        now = timezone.now()
        alive = {"heartbeat_at": now, "runner_pid": self.runner.pid}
        Worker.objects.update_or_create(name=self.name, defaults=alive, create_defaults={"started_at": now, **alive})
