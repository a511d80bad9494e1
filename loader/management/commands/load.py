"""One load run: in the worker, or with --local in this process."""

import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from elevata.cli import CommandExit, ProductCommand
from loader.domain import runs as states
from loader.domain.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.domain.refusals import Refusal
from loader.management.following import NoWorker, follow
from loader.management.progress import LiveTable, PlainLines, progress_on
from loader.models import LoadRun
from loader.selectors import live_workers
from loader.services.processes import process_name
from loader.services.runs import request_cancel, request_load_run
from loader.services.supervisor import Runner
from loader.services.work import perform_load_run

FAILED_EXIT, BLOCKED_EXIT = 1, 2
_EXITS = {states.SUCCEEDED: 0, states.BLOCKED: BLOCKED_EXIT}


def _timestamp(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a time like 2026-11-21T08:15:00Z") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


class Command(ProductCommand):
    """Load and historize data. Without a scope everything is loaded."""

    help = "One load run: raw, rawcore and history of everything, of a schema or of a dataset."

    def arguments(self, parser: ArgumentParser) -> None:
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--all", action="store_true", help="every active dataset (the default)")
        scope.add_argument("--schema", metavar="S", help="the datasets of a schema, and what they depend on")
        scope.add_argument("--dataset", metavar="S.D", help="a dataset, and what it depends on")
        parser.add_argument("--target-only", action="store_true", help="leave out what the dataset depends on")
        parser.add_argument("--at", type=_timestamp, metavar="TIMESTAMP", help="what the run is dated; default: now")
        parser.add_argument("--run-id", metavar="ID", help="name the run, or repeat the run of that name")
        parser.add_argument("--allow-empty", action="store_true", help="an empty snapshot closes everything")
        parser.add_argument("--local", action="store_true", help="do the work in this process")

    def run(self, **options: Any) -> None:
        if options["target_only"] and not options["dataset"]:
            raise CommandExit(self.usage_exit, "--target-only goes with --dataset", "usage")
        request = {
            "scope": _scope(options),
            "load_timestamp": options["at"],
            "run_id": options["run_id"],
            "allow_empty": options["allow_empty"],
        }
        progress = progress_on(sys.stderr if self._as_json else sys.stdout, self.say)
        run = self._locally(request, progress) if options["local"] else self._in_worker(request, progress)
        progress.close()
        self.print_json(_described(run))
        if run.status != states.SUCCEEDED:
            raise CommandExit(_EXITS.get(run.status, FAILED_EXIT), _ending(run), run.status)
        self.say(_ending(run))

    def _in_worker(self, request: dict, progress: PlainLines | LiveTable) -> LoadRun:
        if not live_workers().exists():
            raise NoWorker
        asked = request_load_run(**request)
        if asked.notice:
            request_cancel(run=asked.run)
            raise CommandExit(FAILED_EXIT, f"the broker does not answer: {asked.reason}", "broker_down")
        return follow(asked.run, progress.show)

    def _locally(self, request: dict, progress: PlainLines | LiveTable) -> LoadRun:
        """The work is done in a thread, so that this one can show it and hear Ctrl-C."""
        name = process_name()
        runner = Runner(holder=f"manage.py load --local, {name}")
        runner.start()  # refused here if the folder is in use, before there is a run
        stopping = threading.Event()
        try:
            asked = request_load_run(**request, wake_worker=False)
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


def _work(run_pk: int, name: str, runner: Runner, stopping: threading.Event) -> None:
    try:
        perform_load_run(run_pk=run_pk, worker=name, runner=runner, stopping=stopping)
    finally:
        connection.close()


def _scope(options: dict[str, Any]) -> Scope | None:
    """The scope that was asked for; None if none was, which a repeated run id leaves as it is."""
    if options["schema"]:
        return Scope(SCHEMA, options["schema"])
    if options["dataset"]:
        return Scope(DATASET, options["dataset"], options["target_only"])
    return Scope(ALL) if options["all"] else None


def _ending(run: LoadRun) -> str:
    spent = f" in {run.seconds:.1f} s" if run.seconds is not None else ""
    said = f"load run {run.run_id} {run.status}{spent}"
    if run.error:
        said += f": {Refusal.from_json(run.error).one_line()}"
    return said


def _described(run: LoadRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "status": run.status,
        "scope": run.scope,
        "load_timestamp": run.load_timestamp.isoformat(),
        "attempt": run.attempt,
        "seconds": run.seconds,
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
