"""Base classes of commands that request runs and reads, with progress on the terminal."""

import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection

from architecture.domain.refusals import Refused
from architecture.permissions import must_be_permitted
from elevata.accounts.actors import current_actor
from elevata.accounts.cli import FAILED, REFUSED, CommandExit, ProductCommand
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.core.processes import process_name
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.jobs.waiting import NoWorker, follow_job
from loader.contract.run_states import AUTOMATIC
from loader.management.run_output import described, ending, progress_on
from loader.management.waiting import follow
from loader.models import LoadRun, ReadRequest
from loader.runner.supervisor import Runner
from loader.services.loads.load_runs import RequestedRun, request_cancel
from loader.services.loads.load_work import perform_load_run
from loader.services.reads.attempts import perform_read
from loader.services.reads.read_requests import RequestedRead, withdraw_read
from metadata.permissions import here

FAILED_EXIT, BLOCKED_EXIT = 1, 2
_RETRY_SECONDS = 1.0
_EXITS = {states.SUCCEEDED: 0, states.BLOCKED: BLOCKED_EXIT}

Request = Callable[..., RequestedRun]
Show = Callable[[LoadRun, list], None]


def timestamp(text: str) -> datetime:
    """Return the time of a command-line argument; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time like 2026-11-21T08:15:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class ReadingCommand(ProductCommand):
    """Base of commands that request reads, from a worker or with --local from a runner in this process."""

    def make_runner(self, holder: str) -> Runner:
        return Runner(holder=holder)

    @contextmanager
    def reading(self, *, local: bool) -> Iterator[Callable[[Callable[..., RequestedRead]], ReadRequest]]:
        """Yield a function that calls a request with ``wake_worker`` and returns the finished read."""
        if not local:
            if not live_workers():
                raise NoWorker
            yield _read_by_worker
            return
        name, command = process_name(), type(self).__module__.rpartition(".")[2]
        runner = self.make_runner(f"manage.py {command} --local, {name}")
        try:
            runner.start()  # refused here if the folder is in use, before any request
            yield partial(_read_locally, name, runner)
        finally:
            runner.close()


def _read_by_worker(request: Callable[..., RequestedRead]) -> ReadRequest:
    requested = request(wake_worker=True)
    if requested.reason:
        withdraw_read(read=requested.read)
        raise CommandExit(FAILED, f"the broker does not answer: {requested.reason}", "broker_down")
    return follow_job(requested.read)


def _read_locally(name: str, runner: Runner, request: Callable[..., RequestedRead]) -> ReadRequest:
    read = request(wake_worker=False).read
    try:
        return perform_read(read.pk, worker=name, runner=runner) or follow_job(read)
    except KeyboardInterrupt:
        withdraw_read(read=read)
        raise


class RunningCommand(ProductCommand):
    """Base of commands that request a run; exit codes are 0 for succeeded, 1 for failed, 2 for blocked."""

    def make_runner(self, holder: str) -> Runner:
        return Runner(holder=holder)

    def local_argument(self, parser: ArgumentParser) -> None:
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def perform(self, request: Request, *, local: bool) -> None:
        """Call ``request`` with ``wake_worker``, and wait for the end of the run."""
        progress = progress_on(sys.stderr if self._as_json else sys.stdout, self.say)
        with self.runs(local=local) as perform:
            run = perform(request, progress.show)
        progress.close()
        self.print_json(described(run))
        if run.status != states.SUCCEEDED:
            raise CommandExit(_EXITS.get(run.status, FAILED_EXIT), ending(run), run.status)
        self.say(ending(run))

    @contextmanager
    def runs(self, *, local: bool) -> Iterator[Callable[[Request, Show], LoadRun]]:
        """Yield a function that calls a request with ``wake_worker``, shows the run and returns it at its end."""
        if not local:
            if not live_workers():
                raise NoWorker
            yield _run_by_worker
            return
        name, command = process_name(), type(self).__module__.rpartition(".")[2]
        runner, stopping = self.make_runner(f"manage.py {command} --local, {name}"), threading.Event()
        runner.start()  # refused here if the folder is in use, before there is a run
        try:
            yield partial(_run_locally, name, runner, stopping)
        finally:
            stopping.set()
            runner.close()


def _run_by_worker(request: Request, show: Show) -> LoadRun:
    requested = request(wake_worker=True)
    if requested.notice:
        request_cancel(run=requested.run)
        raise CommandExit(FAILED_EXIT, f"the broker does not answer: {requested.reason}", "broker_down")
    return follow(requested.run, show)


def _run_locally(name: str, runner: Runner, stopping: threading.Event, request: Request, show: Show) -> LoadRun:
    """Perform the run in a thread, so that the main thread can show it and react to Ctrl-C."""
    submitted = request(wake_worker=False)
    if not submitted.requested:
        return follow(submitted.run, show)
    thread = threading.Thread(
        target=_perform_run, args=(submitted.run.pk, name, runner, stopping), name="load", daemon=True
    )
    thread.start()
    run = follow(submitted.run, show, has_worker=thread.is_alive)
    thread.join()
    return run


class MaintenanceCommand(RunningCommand):
    """Base of commands that request a maintenance run, for the user whose personal token is in ELEVATA_TOKEN.

    Without a token or the permission, the command ends with 2 before it starts anything. ``request`` is the service;
    ``own_options`` names its further parameters.
    """

    request: Request
    own_options: tuple[str, ...] = ()

    def common_arguments(self, parser: ArgumentParser, **reason: Any) -> None:
        reason = reason or {"required": True}
        parser.add_argument("--reason", **reason, help="reason, stored with the run")
        parser.add_argument("--run-id", metavar="ID", help="id of the run; an id that exists repeats its run")
        self.local_argument(parser)

    def run(self, *args: Any, **options: Any) -> None:
        names = ("dataset", "reason", "run_id", *self.own_options)
        self.perform(partial(type(self).request, **{name: options[name] for name in names}), local=options["local"])

    def perform(self, request: Request, *, local: bool) -> None:
        try:
            must_be_permitted(current_actor().user, Permission.START_LOAD, on=here)
        except Refused as error:
            raise CommandExit(REFUSED, f"{error.code}: {error.one_line()}", error.code) from error
        super().perform(request, local=local)


def _perform_run(run_pk: int, name: str, runner: Runner, stopping: threading.Event) -> None:
    """Perform the run, and the compactions and copies that it requested: there may be no worker for them."""
    try:
        before = retried(LoadRun.objects.order_by("-pk").values_list("pk", flat=True).first) or 0
        queued = LoadRun.objects.filter(pk=run_pk, status=states.QUEUED)
        while not stopping.is_set() and retried(queued.exists):
            # While another holder has a lease of its datasets, the run is tried again.
            if perform_load_run(run_pk, worker=name, runner=runner, stopping=stopping) is None:
                stopping.wait(_RETRY_SECONDS)
        waiting = LoadRun.objects.filter(pk__gt=before, kind__in=AUTOMATIC, status=states.QUEUED)
        requested: list[int] = retried(partial(list, waiting.order_by("pk").values_list("pk", flat=True)))
        for pk in requested:
            if not stopping.is_set():
                perform_load_run(pk, worker=name, runner=runner, stopping=stopping)
    finally:
        connection.close()
