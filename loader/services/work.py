"""Performing a load run: claim → observe → plan → execute → load, each step stored as it happens."""

import logging
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.utils import timezone

from architecture.domain.operations import BLOCKED, Operation
from architecture.domain.planning import plan
from architecture.domain.tables import ObservedTable
from architecture.services import begin_execution, finish_execution, operation_finished, operation_started
from loader.domain import runs as states
from loader.domain.dependencies import Scope
from loader.domain.governance import BRINGING, HISTORY_BATCH
from loader.domain.manifest import ExecuteManifest, HistoryFiles, ObserveManifest, from_json
from loader.domain.refusals import Refusal
from loader.models import DatasetRun, LoadRun
from loader.services.attempts import Attempt, Fenced
from loader.services.conversations import Conversation, Stopped, SupportsRequests
from loader.services.database import retried
from loader.services.governed import request_compaction
from loader.services.governedwork import govern
from loader.services.manifests import LoadPlan, load_manifest, plan_history_batch, plan_load
from loader.services.runs import attempt_of, claim

log = logging.getLogger(__name__)

_SHOWN = 5


class Blocked(Exception):
    """Pending operations are not all safe: a person has to decide."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.message)
        self.refusal = refusal


def perform_load_run(
    *, run_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> LoadRun | None:
    """Do one load run from claim to end; None if it was not there to be claimed.

    Whatever happens, the run ends in a state that says so; only a worker that dies leaves it to be
    found lost.
    """
    run = retried(partial(claim, run_pk=run_pk, worker=worker))
    if run is None:
        return None
    attempt = attempt_of(run)
    work = LoadWork(run, attempt, Conversation(attempt, runner, stopping or threading.Event()))
    try:
        try:
            said = work.perform()
            _end(attempt, said, None if said == states.SUCCEEDED else _what_failed(run))
            work.have_compacted()
        except Stopped:
            _end(attempt, states.FAILED, _stopped(worker))
        except Blocked as blocked:
            _end(attempt, states.BLOCKED, blocked.refusal.as_json())
        except Refusal as refusal:
            _end(attempt, states.FAILED, refusal.as_json())
        except Fenced:
            raise
        except Exception as failure:  # a run must never stay "running" with nobody running it
            log.exception("load run %s failed", run.run_id)
            _end(attempt, states.FAILED, _unexpected(failure))
    except Fenced:
        log.warning("load run %s, attempt %s was given up or claimed again", run.run_id, run.attempt)
    return retried(LoadRun.objects.filter(pk=run.pk).first)


@dataclass
class LoadWork:
    """One attempt's work, step by step. ``crowded`` are the datasets found with too many small files."""

    run: LoadRun
    attempt: Attempt
    talk: Conversation
    crowded: set[str] = field(default_factory=set)

    def perform(self) -> str:
        """Do it all; returns what the runner said of the load: succeeded, failed or canceled."""
        if self.run.kind not in BRINGING:
            return govern(self)
        todo, files = retried(self._plan), self._files()
        rows = self.attempt.prepare(steps=todo.steps)
        self.attempt.say(f"attempt {self.attempt.number}: {len(rows)} datasets, worker {self.run.claimed_by}")
        operations = self.pending(todo)
        if operations:
            self._execute(operations)
        self.attempt.enter("loading")
        manifest = retried(lambda: load_manifest(run=self.run, plan=todo, rows=rows, files=files))
        return self.must_answer(self.talk.ask("load", manifest, self.store))

    def have_compacted(self) -> None:
        """Ask for the tables to be compacted that this run left with too many small files."""
        for key in sorted(self.crowded):
            try:
                asked = retried(partial(request_compaction, dataset_key=key, reason=f"after run {self.run.run_id}"))
            except Exception:  # the run itself is done; the next one over these tables asks again
                log.exception("a compaction of %s could not be asked for", key)
            else:
                if asked is not None:
                    log.info("run %s compacts after run %s", asked.run, self.run)

    def _plan(self) -> LoadPlan:
        if self.run.kind == HISTORY_BATCH:
            return plan_history_batch(self.run.scope["name"])
        return plan_load(Scope.from_json(self.run.scope))

    def _files(self) -> HistoryFiles | None:
        if self.run.kind != HISTORY_BATCH:
            return None
        asked = self.run.details["asked"]
        files = {kind: tuple(paths) for kind, paths in asked["files"].items()}
        return HistoryFiles(**files, format=asked["format"], compression=asked["compression"])

    def pending(self, todo: LoadPlan) -> tuple[Operation, ...]:
        """Operations between metadata and warehouse; Blocked unless all of them are safe."""
        self.attempt.enter("looking at the warehouse")
        tables = todo.tables
        finished = self.talk.ask("observe", ObserveManifest(tuple(table.key for table in tables)))
        _succeeded(finished)
        observed = {
            key: from_json(ObservedTable, described) for key, described in (finished.get("answer") or {}).items()
        }
        operations = plan(tables, observed)
        blocked = [operation for operation in operations if operation.decision == BLOCKED]
        if blocked:
            raise Blocked(_blocked(blocked))
        return operations

    def _execute(self, operations: tuple[Operation, ...]) -> None:
        execution = retried(
            lambda: begin_execution(
                environment=self.run.environment,
                operations=operations,
                reason=f"load run {self.run.run_id}",
                user=self.run.requested_by,
            )
        )
        self.attempt.enter("changing tables", execution=execution)
        for operation in operations:
            self.attempt.say(operation.describe())

        def store(event: dict) -> None:
            if event["event"] == "operation_started":
                write = partial(
                    operation_started,
                    execution=execution,
                    ordinal=event["ordinal"],
                    statement=event["statement"],
                    version_before=event.get("version_before"),
                )
            else:
                write = partial(
                    operation_finished,
                    execution=execution,
                    ordinal=event["ordinal"],
                    succeeded=event["status"] == states.SUCCEEDED,
                    observed=event.get("observed"),
                    version_after=event.get("version_after"),
                    error=event.get("error"),
                    seconds=event.get("seconds"),
                )
            retried(write)

        try:
            finished = self.talk.ask("execute", ExecuteManifest(str(execution.pk), operations), store)
        finally:
            ended = retried(lambda: finish_execution(execution=execution))
        _succeeded(finished)
        if ended.status != states.SUCCEEDED:
            failed = ended.operations.exclude(error="").first()
            raise Refusal("OPERATION_FAILED", failed.error if failed else f"{ended} did not succeed")

    def store(self, event: dict) -> None:
        """One event of a load into the dataset's row."""
        kind, key = event["event"], event["dataset"]
        if kind == "dataset_started":
            self.attempt.dataset(key, states.RUNNING, started_at=timezone.now(), phase="starting")
        elif kind == "dataset_phase":
            self.attempt.dataset_phase(key, event["phase"])
        elif kind == "dataset_finished":
            self._store_end(key, event)

    def _store_end(self, key: str, event: dict) -> None:
        error = event.get("error")
        if event.get("crowded"):
            self.crowded.add(key)
        self.attempt.dataset(
            key,
            event["status"],
            phase="",
            counts=event.get("counts") or {},
            drift=event.get("drift") or [],
            warnings=event.get("warnings") or [],
            error=error,
            skipped_because=event.get("skipped_because") or "",
            table_version_before=event.get("version_before"),
            table_version_after=event.get("version_after"),
            finished_at=timezone.now(),
            seconds=event.get("seconds"),
        )
        if error:
            self.attempt.say(Refusal.from_json(error).one_line(), level="error", dataset_key=key)
        elif event["status"] == states.SKIPPED:
            because = event.get("skipped_because")
            self.attempt.say(f"skipped, because {because} did not succeed", level="warning", dataset_key=key)

    def must_answer(self, finished: dict) -> str:
        """The load's own verdict. An error of the whole request is the run's error."""
        if self.talk.is_to_stop and finished["status"] != states.SUCCEEDED:
            raise Stopped
        if finished.get("error"):
            raise Refusal.from_json(finished["error"])
        return states.SUCCEEDED if finished["status"] == states.SUCCEEDED else states.FAILED


def _succeeded(finished: dict) -> None:
    """Go on only if the runner did what it was asked, or raise what it said instead."""
    if finished.get("error"):
        raise Refusal.from_json(finished["error"])


def _end(attempt: Attempt, wanted: str, error: dict | None) -> None:
    """End the run as its row now allows: a cancel may arrive until the very last moment."""
    for _ in range(3):
        found = LoadRun.objects.filter(pk=attempt.run_pk).values_list("status", "error")
        status, asked = retried(found.first) or ("gone", None)
        end = states.ends_as(status=status, wanted=wanted)
        if attempt.finish(status=end, error=asked if end == states.CANCELED else error):
            return
    raise Fenced


def _what_failed(run: LoadRun) -> dict:
    """The run's error from those of its datasets, on one line."""
    rows = list(retried(lambda: list(run.datasets.order_by("ordinal"))))
    failed = [row for row in rows if row.status == DatasetRun.Status.FAILED]
    skipped = sum(row.status == DatasetRun.Status.SKIPPED for row in rows)
    if not failed:
        return Refusal("LOAD_FAILED", "the runner ended the load without saying why").as_json()
    said = "; ".join(Refusal.from_json(row.error).one_line() if row.error else str(row) for row in failed[:_SHOWN])
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    counted = f"{len(failed)} of {len(rows)} datasets failed" + (f", {skipped} skipped" if skipped else "")
    return {"code": "DATASETS_FAILED", "message": f"{counted}: {said}{more}", "count": len(failed)}


def _blocked(operations: list[Operation]) -> Refusal:
    named = [f"{operation.describe()} ({operation.message})" for operation in operations]
    return Refusal(
        "BLOCKED",
        f"{len(named)} pending {'operation needs' if len(named) == 1 else 'operations need'} a person: "
        + "; ".join(named[:_SHOWN]),
        hint="bring the metadata back to what the tables hold, or change the tables by hand",
        count=len(named),
        samples=tuple(named[_SHOWN : 2 * _SHOWN]),
    )


def _stopped(worker: str) -> dict[str, Any]:
    return Refusal(
        "WORKER_STOPPED",
        f"worker {worker} was stopped during the run",
        hint="start the run again under the same id: what it had finished is not done twice",
    ).as_json()


def _unexpected(failure: Exception) -> dict[str, Any]:
    first_line = (str(failure).strip().splitlines() or [""])[0]
    return Refusal(
        "UNEXPECTED", f"{type(failure).__name__}: {first_line[:500]}", hint="the worker's log has the details"
    ).as_json()
