"""Base of commands that start a run and wait for it: in the worker, or in their own process."""

import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection

from architecture.domain.reports.workflow import Refused
from architecture.report_places import here
from architecture.services.actors import must_be_permitted
from elevata.core.cli import REFUSED, CommandExit, ProductCommand
from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.processes import process_name
from elevata.jobs.selectors import live_workers
from loader.domain.runs.maintenance import COMPACT, LOAD
from loader.domain.runs.refusals import Refusal
from loader.management.progress import LiveTable, PlainLines, progress_on
from loader.management.waiting import NoWorker, follow
from loader.models import LoadRun
from loader.services.runner.supervisor import Runner
from loader.services.runs.load_work import perform_load_run
from loader.services.runs.runs import RequestedRun, request_cancel
from metadata.domain.roles import Permission
from metadata.services.actor import current_actor

FAILED_EXIT, BLOCKED_EXIT = 1, 2
_RETRY_SECONDS = 1.0
_EXITS = {states.SUCCEEDED: 0, states.BLOCKED: BLOCKED_EXIT}

Request = Callable[..., RequestedRun]


def timestamp(text: str) -> datetime:
    """Return a time as users write it on the command line; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time like 2026-11-21T08:15:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class RunningCommand(ProductCommand):
    """Base of a command that requests a run. Ends with 0 succeeded, 1 failed, 2 blocked."""

    def make_runner(self, holder: str) -> Runner:
        return Runner(holder=holder)

    def local_argument(self, parser: ArgumentParser) -> None:
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def perform(self, request: Request, *, local: bool) -> None:
        """Request the run and wait for its end. ``request`` takes ``wake_worker``."""
        progress = progress_on(sys.stderr if self._as_json else sys.stdout, self.say)
        run = self._locally(request, progress) if local else self._in_worker(request, progress)
        progress.close()
        self.print_json(described(run))
        if run.status != states.SUCCEEDED:
            raise CommandExit(_EXITS.get(run.status, FAILED_EXIT), ending(run), run.status)
        self.say(ending(run))

    def _in_worker(self, request: Request, progress: PlainLines | LiveTable) -> LoadRun:
        if not live_workers().exists():
            raise NoWorker
        asked = request(wake_worker=True)
        if asked.notice:
            request_cancel(run=asked.run)
            raise CommandExit(FAILED_EXIT, f"the broker does not answer: {asked.reason}", "broker_down")
        return follow(asked.run, progress.show)

    def _locally(self, request: Request, progress: PlainLines | LiveTable) -> LoadRun:
        """Perform the run in a thread, so that this one can show it and react to Ctrl-C."""
        name = process_name()
        command = type(self).__module__.rpartition(".")[2]
        runner = self.make_runner(f"manage.py {command} --local, {name}")
        runner.start()  # refused here if the folder is in use, before there is a run
        stopping = threading.Event()
        try:
            asked = request(wake_worker=False)
            if not asked.requested:
                return follow(asked.run, progress.show)
            working = threading.Thread(
                target=_work, args=(asked.run.pk, name, runner, stopping), name="load", daemon=True
            )
            working.start()
            run = follow(asked.run, progress.show, is_somebody_there=working.is_alive)
            working.join()
            return run
        finally:
            stopping.set()
            runner.close()


class GovernedCommand(RunningCommand):
    """Base of a command for a maintenance run, requested by the user whose personal token is in ELEVATA_TOKEN.

    Without one, or without the permission, it ends with 2 before anything is started.
    """

    def perform(self, request: Request, *, local: bool) -> None:
        try:
            must_be_permitted(current_actor().user, Permission.START_LOAD, on=here)
        except Refused as refused:
            raise CommandExit(REFUSED, f"{refused.code}: {refused.one_line()}", refused.code) from refused
        super().perform(request, local=local)


def _work(run_pk: int, name: str, runner: Runner, stopping: threading.Event) -> None:
    """Perform the run, and the compactions that it requested: there may be no worker for them."""
    try:
        before = retried(LoadRun.objects.order_by("-pk").values_list("pk", flat=True).first) or 0
        queued = LoadRun.objects.filter(pk=run_pk, status=states.QUEUED)
        while not stopping.is_set() and retried(queued.exists):
            # While another holder has a lease of its datasets, it is tried again until that is released.
            if perform_load_run(run_pk=run_pk, worker=name, runner=runner, stopping=stopping) is None:
                stopping.wait(_RETRY_SECONDS)
        waiting = LoadRun.objects.filter(pk__gt=before, kind=COMPACT, status=states.QUEUED)
        for compaction in retried(partial(list, waiting.order_by("pk").values_list("pk", flat=True))):
            if not stopping.is_set():
                perform_load_run(run_pk=compaction, worker=name, runner=runner, stopping=stopping)
    finally:
        connection.close()


def ending(run: LoadRun) -> str:
    spent = f" in {run.seconds:.1f} s" if run.seconds is not None else ""
    what = "load run" if run.kind == LOAD else run.get_kind_display().lower()
    said = f"{what} {run.run_id} {run.status}{spent}"
    if run.error:
        said += f": {Refusal.from_json(run.error).one_line()}"
    return said


def described(run: LoadRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "status": run.status,
        "scope": run.scope,
        "load_timestamp": run.load_timestamp.isoformat(),
        "attempt": run.attempt,
        "seconds": run.seconds,
        "requested_by": run.who,
        "reason": run.reason,
        "details": run.details,
        "error": run.error,
        "datasets": [
            {
                "dataset": row.qualified_name,
                "kind": row.kind,
                "status": row.status,
                "counts": row.counts,
                "drift": row.drift,
                "warnings": row.warnings,
                "error": row.error,
                "skipped_because": row.skipped_because,
                "seconds": row.seconds,
            }
            for row in run.datasets.order_by("ordinal")
        ],
    }
