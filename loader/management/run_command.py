"""Base classes of commands that request runs and reads, with progress on the terminal."""

import shutil
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from django.db import connection

from architecture.domain.workflow import Refused
from architecture.permissions import must_be_permitted
from elevata.accounts.cli import FAILED, REFUSED, CommandExit, ProductCommand
from elevata.accounts.permissions import current_actor
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.core.processes import process_name
from elevata.core.words import counted
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.jobs.waiting import NoWorker, follow_job
from loader.domain import run_states
from loader.domain.refusals import Refusal
from loader.domain.run_states import COMPACT, LOAD
from loader.management.waiting import follow
from loader.models import DatasetRun, LoadRun, ReadRequest
from loader.services.loads.load_runs import RequestedRun, request_cancel
from loader.services.loads.load_work import perform_load_run
from loader.services.reads.attempts import perform_read
from loader.services.reads.read_requests import RequestedRead, withdraw_read
from loader.services.runner.supervisor import Runner
from metadata.permissions import here

# The terminal shows a load run as a table that is updated in place, or as plain lines.


_SIGNS = {
    states.QUEUED: "·",
    states.RUNNING: "▸",
    states.SUCCEEDED: "✓",
    states.FAILED: "✗",
    run_states.SKIPPED: "-",
    states.CANCELED: "-",
}
_COUNTS = (
    "rows",
    "duplicates",
    "superseded",
    "outranked",
    "new",
    "changed",
    "deleted",
    "reappeared",
    "versions",
    "open",
)


def counts_text(counts: dict) -> str:
    """Return a dataset's counts in words: ``28,867 rows, 4 new, 17 changed``."""
    parts = [f"{counts[name]:,} {name}" for name in _COUNTS if counts.get(name) or (name in counts and name == "rows")]
    parts += [f"{number:,} {label}" for name, label, number in run_states.further_counts(counts) if name not in _COUNTS]
    return ", ".join(parts)


def detail_of(row: DatasetRun) -> str:
    """Return the detail to show for a dataset in its current state."""
    if row.status == states.FAILED:
        return (row.error or {}).get("message", "")
    if row.status == run_states.SKIPPED:
        return f"because of {row.skipped_because}"
    if row.status == states.SUCCEEDED:
        seconds = f"{row.seconds:.1f} s" if row.seconds else ""
        unchanged = f"up to date since run {row.unchanged_since}" if row.unchanged_since else ""
        return ", ".join(filter(None, [counts_text(row.counts), unchanged, row.window_text, seconds]))
    return row.phase


class PlainLines:
    """Output of one line for each change, for files, pipes and logs."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._run_shown = ""
        self._shown: dict[str, str] = {}

    def show(self, run: LoadRun, rows: Iterable[DatasetRun]) -> None:
        now = f"{run.run_id} {run.status}" + (f": {run.phase}" if run.phase else "")
        if now != self._run_shown:
            self._run_shown = now
            self._say(now)
        for row in rows:
            if row.status != states.QUEUED and self._shown.get(row.qualified_name) != row.status:
                self._shown[row.qualified_name] = row.status
                detail = f" ({detail_of(row)})" if detail_of(row) else ""
                self._say(f"  {row.qualified_name} {row.status}{detail}")

    def close(self) -> None:
        """Do nothing, because there is no table to leave."""


class LiveTable:
    """Output of the run's datasets as a table that is updated in place."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._drawn = 0
        self._started = time.monotonic()

    def show(self, run: LoadRun, rows: Iterable[DatasetRun]) -> None:
        width, height = shutil.get_terminal_size()
        rows = list(rows)
        done = sum(row.status in DatasetRun.FINISHED for row in rows)
        spent = time.monotonic() - self._started
        head = f"{run.run_id}  {run.status}  {run.phase}  {done}/{len(rows)} datasets  {spent:.0f} s"
        # Unfinished datasets come first, because a small screen has no room for all.
        rows.sort(key=lambda row: (row.status in DatasetRun.FINISHED, row.ordinal))
        room = max(1, height - 3)
        shown = sorted(rows[:room], key=lambda row: row.ordinal)
        longest = max((len(row.qualified_name) for row in shown), default=0)
        lines = [head]
        lines += [f"{_SIGNS[row.status]} {row.qualified_name:<{longest}}  {detail_of(row)}" for row in shown]
        if len(rows) > room:
            lines.append(f"  and {len(rows) - room} more")
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        self._stream.write(up + "".join(f"\x1b[2K{line[: width - 1]}\n" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)

    def close(self) -> None:
        """Leave the table on the screen, so that later output is written below it."""
        self._drawn = 0


def progress_on(stream: TextIO, say: Callable[[str], None]) -> PlainLines | LiveTable:
    """Return a live table for a terminal, and plain lines for other streams."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return LiveTable(stream) if is_terminal else PlainLines(say)


FAILED_EXIT, BLOCKED_EXIT = 1, 2
_RETRY_SECONDS = 1.0
_EXITS = {states.SUCCEEDED: 0, states.BLOCKED: BLOCKED_EXIT}

Request = Callable[..., RequestedRun]


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
        return perform_read(read_pk=read.pk, worker=name, runner=runner) or follow_job(read)
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
        run = self._locally(request, progress) if local else self._in_worker(request, progress)
        progress.close()
        self.print_json(described(run))
        if run.status != states.SUCCEEDED:
            raise CommandExit(_EXITS.get(run.status, FAILED_EXIT), ending(run), run.status)
        self.say(ending(run))

    def _in_worker(self, request: Request, progress: PlainLines | LiveTable) -> LoadRun:
        if not live_workers():
            raise NoWorker
        requested = request(wake_worker=True)
        if requested.notice:
            request_cancel(run=requested.run)
            raise CommandExit(FAILED_EXIT, f"the broker does not answer: {requested.reason}", "broker_down")
        return follow(requested.run, progress.show)

    def _locally(self, request: Request, progress: PlainLines | LiveTable) -> LoadRun:
        """Perform the run in a thread, so that the main thread can show it and react to Ctrl-C."""
        name = process_name()
        command = type(self).__module__.rpartition(".")[2]
        runner = self.make_runner(f"manage.py {command} --local, {name}")
        runner.start()  # refused here if the folder is in use, before there is a run
        stopping = threading.Event()
        try:
            submitted = request(wake_worker=False)
            if not submitted.requested:
                return follow(submitted.run, progress.show)
            thread = threading.Thread(
                target=_perform_run, args=(submitted.run.pk, name, runner, stopping), name="load", daemon=True
            )
            thread.start()
            run = follow(submitted.run, progress.show, has_worker=thread.is_alive)
            thread.join()
            return run
        finally:
            stopping.set()
            runner.close()


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
    """Perform the run, and the compactions that it requested, because there may be no worker for them."""
    try:
        before = retried(LoadRun.objects.order_by("-pk").values_list("pk", flat=True).first) or 0
        queued = LoadRun.objects.filter(pk=run_pk, status=states.QUEUED)
        while not stopping.is_set() and retried(queued.exists):
            # While another holder has a lease of its datasets, the run is tried again.
            if perform_load_run(run_pk=run_pk, worker=name, runner=runner, stopping=stopping) is None:
                stopping.wait(_RETRY_SECONDS)
        waiting = LoadRun.objects.filter(pk__gt=before, kind=COMPACT, status=states.QUEUED)
        compactions: list[int] = retried(partial(list, waiting.order_by("pk").values_list("pk", flat=True)))
        for compaction in compactions:
            if not stopping.is_set():
                perform_load_run(run_pk=compaction, worker=name, runner=runner, stopping=stopping)
    finally:
        connection.close()


def ending(run: LoadRun) -> str:
    spent = f" in {run.seconds:.1f} s" if run.seconds is not None else ""
    label = "load run" if run.kind == LOAD else run.get_kind_display().lower()
    message = f"{label} {run.run_id} {run.status}{spent}"
    if run.error:
        message += f": {Refusal.from_json(run.error).one_line()}"
    aside = [(row, row.counts.get("quarantined", 0)) for row in run.datasets.all()]
    shown = [f"{counted(number, 'row')} of {row.qualified_name}" for row, number in aside if number]
    if shown:
        message += f"; quarantined: {', '.join(shown)}: decide on them with manage.py decide_quarantine"
    views = run.details.get("views", {})
    return message + "".join(f"\nview {name}: {outcome}" for name, outcome in views.items())


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
                "window": row.window,
                "drift": row.drift,
                "warnings": row.warnings,
                "error": row.error,
                "skipped_because": row.skipped_because,
                "unchanged_since": row.unchanged_since,
                "seconds": row.seconds,
            }
            for row in run.datasets.order_by("ordinal")
        ],
    }
