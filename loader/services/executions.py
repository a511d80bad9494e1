"""Executions and dry runs performed on the runner.

The runner performs one step after another and verifies each by observing the table; every event is stored when it
arrives. An execution always ends in a final state. If its worker dies, it is marked as lost and can be resumed.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from architecture.domain import execution_log
from architecture.domain.states.state_files import of_row
from architecture.domain.steps.step import Step
from architecture.domain.tables import history_views
from architecture.domain.views import view_sql
from architecture.domain.workflow import Refused
from architecture.models import DryRun, Execution
from architecture.permissions import must_still_be_permitted, on_behalf_of, place_of_report
from architecture.selectors.environments import applied_states
from architecture.services.automatic_changes import Todo, tables_of_execution, verify
from architecture.services.executions import claim_execution, end_attempt
from architecture.services.leases import ExecutionAttempt
from architecture.services.previews import end_dry_run, steps_in
from architecture.services.reports import basis_of
from architecture.services.states import store_observations
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.core.processes import about
from elevata.jobs import states
from elevata.jobs.services import Attempt, Fenced, claim
from loader.domain.catalogs.catalog import VIEW
from loader.domain.catalogs.publication import INCOMPLETE, UNSUPPORTED, Finding, of_answer
from loader.domain.dependencies import tables_read
from loader.domain.manifest.executions import DownstreamQuery, DryRunManifest, ExecuteManifest, ObserveManifest
from loader.domain.manifest.publication import PublishManifest
from loader.domain.refusals import Refusal, worker_accident
from loader.services.publication import PUBLISH, publish_manifest
from loader.services.reads.read_permissions import sensitive_in, sensitive_keys
from loader.services.runner.worker import Conversation, Stopped, SupportsRequests
from metadata.domain.state import DatasetState

log = logging.getLogger(__name__)


def perform_execution(
    *, execution_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> Execution | None:
    """Perform one execution from claim to end; return None if it could not be claimed, or waits for a lease.

    It runs on behalf of the requesting user, in any thread.
    """
    attempt = retried(partial(claim_execution, execution_pk=execution_pk, worker=worker))
    if attempt is None:
        return None
    executions = Execution.objects.select_related("environment", "report", "preview", "requested_by")
    execution = retried(lambda: executions.get(pk=execution_pk))
    talk = Conversation(attempt, runner, stopping or threading.Event())
    log_context = about(execution_id=execution.pk, person_id=execution.requested_by_id)
    try:
        with log_context, on_behalf_of(execution.requested_by):
            error = _error_of(ExecutionWork(execution, attempt, talk), worker)
            wanted = states.FAILED if error else states.SUCCEEDED
            retried(lambda: end_attempt(attempt=attempt, wanted=wanted, error=error))
    except Fenced:
        log.warning("%s, attempt %s was given up, claimed again or lost a lease", execution, attempt.number)
    return retried(Execution.objects.filter(pk=execution_pk).first)


def _error_of(work: "ExecutionWork", worker: str) -> dict[str, Any] | None:
    """Perform the work and return its error as JSON, None if it succeeded."""
    try:
        work.perform()
    except Stopped:
        return Refusal(
            "WORKER_STOPPED",
            f"worker {worker} was stopped during the execution",
            hint="resume the execution; finished steps are not repeated",
        ).as_json()
    except (Refused, Refusal, MetadataError) as refusal:
        return refusal.as_json()
    except Fenced:
        raise
    except Exception as failure:  # an execution must never stay "running" without a worker
        log.exception("%s failed", work.execution)
        return worker_accident(failure).as_json()
    return None


@dataclass
class ExecutionWork:
    """Work of one attempt of an execution."""

    execution: Execution
    attempt: ExecutionAttempt
    talk: Conversation

    def perform(self) -> None:
        self._observe()
        retried(partial(self.attempt.enter, "checking that everything is as it was approved"))
        todo = retried(partial(verify, self.execution))
        retried(partial(self.attempt.tell, execution_log.verified(len(todo.steps), len(todo.left))))
        if todo.left:
            self._run(todo)
        retried(partial(self.attempt.enter, "publishing names"))
        problem = publish_execution(execution=self.execution, attempt=self.attempt, talk=self.talk)
        if problem is not None:
            raise problem

    def _observe(self) -> None:
        """Observe every table of the report, and store the observations."""
        retried(partial(self.attempt.enter, "scanning the warehouse"))
        keys = retried(partial(tables_of_execution, self.execution))
        answer = _answer(self.talk.ask("observe", ObserveManifest(tuple(sorted(keys)), dropped=True)))
        store = partial(store_observations, environment=self.execution.environment, asked=keys, tables=answer)
        retried(store)
        retried(partial(self.attempt.tell, execution_log.looked(len(keys), len(answer))))

    def _run(self, todo: Todo) -> None:
        """Run the remaining steps. The request has all steps, so that the ordinals of events are those of the rows."""
        retried(partial(self.attempt.enter, "changing tables"))
        done = tuple(place for place in range(len(todo.steps)) if place not in todo.left)
        manifest = ExecuteManifest(
            str(self.execution.pk),
            todo.steps,
            done,
            sensitive_in(self.execution, todo.steps),
        )

        def store(event: dict) -> None:
            if event["event"] == "step_started":
                place = event["ordinal"]
                phase = f"step {place + 1} of {len(todo.steps)}: {todo.steps[place].describe()}"
                retried(partial(self.attempt.enter, phase))
            store_step(self.attempt, event)

        finished = self.talk.ask("execute", manifest, store)
        if self.talk.is_to_stop and finished["status"] != states.SUCCEEDED:
            raise Stopped
        _answer(finished)
        if finished["status"] != states.SUCCEEDED:
            rows = retried(lambda: list(self.execution.operations.exclude(error="")))
            raise Refusal("STEP_FAILED", rows[0].error if rows else "the runner ended the steps without saying why")


def store_step(attempt: ExecutionAttempt, event: dict) -> None:
    """Store one event of a step in its row."""
    ordinal = event["ordinal"]
    if event["event"] == "step_started":
        write = partial(
            attempt.step_started,
            ordinal,
            statement=event.get("statement", ""),
            version_before=event.get("version_before"),
        )
    else:
        write = partial(
            attempt.step_finished,
            ordinal,
            succeeded=event["status"] == states.SUCCEEDED,
            observed=event.get("observed"),
            version_after=event.get("version_after"),
            error=event.get("error"),
            seconds=event.get("seconds"),
            rows=event.get("rows"),
        )
    retried(write)


# Names are published after the tables are written: an unavailable catalog, or a name that is taken, fails no table.


@dataclass(frozen=True)
class Publication:
    """Result of publishing: ``findings`` by name that was not published, or ``refusal`` if none was.

    It is ``incomplete`` if nothing was done because all names must be published first.
    """

    findings: Mapping[str, Finding] = field(default_factory=dict)
    refusal: Refusal | None = None
    incomplete: bool = False

    def shows(self, name: str) -> bool:
        """Return True if the catalog showed the name when it was read again."""
        return self.refusal is None and name not in self.findings

    def problem_of(self, name: str) -> Refusal | None:
        """Return the reason why a name is not published; None if it is, or if the catalog cannot have it."""
        finding = self.findings.get(name)
        if finding is None or finding.problem == UNSUPPORTED:
            return self.refusal
        return Refusal("NOT_PUBLISHED", finding.one_line())


def publish_after(*, talk: Conversation, manifest: PublishManifest) -> Publication:
    """Publish names after a load or an execution, and warn about those that could not be published."""
    try:
        finished = talk.ask(PUBLISH, manifest)
    except Stopped:
        stopped = Refusal("WORKER_STOPPED", "the work was stopped", hint="run manage.py publish, or load again")
        finished = {"error": stopped.as_json()}
    if finished.get("error"):
        refusal = Refusal.from_json(finished["error"])
        _warn(talk, f"names were not published: {refusal.one_line()}")
        return Publication(refusal=refusal)
    findings = of_answer(finished["answer"])
    for finding in findings:
        _warn(talk, f"not published: {finding.one_line()}")
    by_name = {finding.name: finding for finding in findings}
    return Publication(by_name, incomplete=finished["answer"].get(INCOMPLETE, False))


def _warn(talk: Conversation, message: str) -> None:
    retried(partial(talk.attempt.say, message, level="warning"))


def publish_execution(
    *, execution: Execution, attempt: ExecutionAttempt, talk: Conversation, needs_views: bool = True
) -> Refusal | None:
    """Publish all names after the steps, and finish the rows that change no table.

    The row of a view gets its statement once the catalog shows the view. With ``needs_views``, the row of a view that
    is not published fails; return the first such error.
    """
    ordinals = retried(attempt.silent_rows)
    rows = retried(lambda: {row.ordinal: row for row in execution.operations.filter(ordinal__in=ordinals)})
    planned = retried(partial(Execution.objects.get, pk=execution.pk)).planned
    desired = {key: of_row(row) for key, row in planned["desired"].items()}
    becoming = [desired[key] for row in rows.values() if (key := str(row.dataset_key)) in desired]
    manifest = retried(partial(publish_manifest, environment=execution.environment, becoming=becoming))
    publication = publish_after(talk=talk, manifest=manifest)
    described = {state.key for state in becoming if state.materialization == VIEW}
    views = {name.dataset: name for name in manifest.names if name.kind == VIEW and name.dataset in described}
    problem = None
    for ordinal, row in rows.items():
        view = views.get(str(row.dataset_key))
        error = publication.problem_of(view.name) if view is not None and needs_views else None
        problem = problem or error
        if view is not None and publication.shows(view.name):
            retried(partial(attempt.step_started, ordinal, statement=view.statement))
        end = partial(attempt.step_finished, ordinal, succeeded=error is None)
        retried(partial(end, error=error.as_json() if error is not None else None))
    return problem


def _answer(finished: dict) -> dict[str, Any]:
    """Return the runner's answer. Raise its error as a Refusal."""
    if finished.get("error"):
        raise Refusal.from_json(finished["error"])
    return finished.get("answer") or {}


# Dry runs: the runner performs a preview's steps on shallow clones and reports the result.


@dataclass(frozen=True)
class DryRunAttempt(Attempt):
    """Attempt of a dry run; the runner's log lines go to the worker's log."""

    def say(self, message: str, **_: object) -> None:
        log.info("dry run %s: %s", self.job_pk, message)


def perform_dry_run(
    *, dry_run_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> DryRun | None:
    """Perform one dry run; return None if it could not be claimed. It always ends with a result or an error.

    It runs on behalf of the requesting user, in any thread.
    """
    claimed = retried(partial(claim, job_pk=dry_run_pk, worker=worker))
    if claimed is None:
        return None
    dry_runs = DryRun.objects.select_related("preview__report__environment", "requested_by")
    dry_run = retried(partial(dry_runs.get, pk=dry_run_pk))
    attempt = DryRunAttempt(claimed.job_pk, claimed.number)
    talk = Conversation(attempt, runner, stopping or threading.Event())
    try:
        with on_behalf_of(dry_run.requested_by):
            retried(partial(end_dry_run, attempt=attempt, **_end(dry_run, talk, worker)))
    except Fenced:
        log.warning("%s was given up while worker %s was at it", dry_run, worker)
    return retried(DryRun.objects.filter(pk=dry_run_pk).first)


def _end(dry_run: DryRun, talk: Conversation, worker: str) -> dict[str, Any]:
    """Return the end of the dry run: a ``result``, or an ``error``."""
    try:
        place = place_of_report(dry_run.preview.report)
        retried(partial(must_still_be_permitted, dry_run.requested_by, Permission.EXECUTE_REPORTS, on=place))
        manifest = retried(partial(dry_run_manifest, dry_run))
        finished = talk.ask("dry_run", manifest, lambda _: None)
    except Fenced:
        raise
    except Stopped:
        return {"error": Refusal("WORKER_STOPPED", f"worker {worker} was stopped", hint="repeat the dry run").as_json()}
    except (Refused, Refusal, MetadataError) as refusal:
        return {"error": refusal.as_json()}
    except Exception as failure:  # a page waits for this row: it must end
        log.exception("%s failed", dry_run)
        return {"error": worker_accident(failure).as_json()}
    return {"error": finished["error"]} if finished.get("error") else {"result": finished.get("answer") or {}}


def dry_run_manifest(dry_run: DryRun) -> DryRunManifest:
    """Return the manifest: the steps, and the queries over the changed tables before and after them."""
    preview = dry_run.preview
    steps = steps_in(preview)
    changed = {step.table.dataset_key for step in steps}
    desired = {state.key: state for state in basis_of(preview.report).desired}
    applied = {state.key: state for state in applied_states(environment=preview.report.environment)}
    before, after = {**desired, **applied}, {**applied, **desired}
    keys = {key for state in _readers(changed, before) for key in _read_by(state, before)}
    return DryRunManifest(
        dry_run=str(dry_run.pk),
        steps=_without_views(steps),
        tables=tuple(sorted(keys - changed)),
        queries=tuple(_queries(changed, before)),
        after=tuple(_queries(changed, after)),
        sensitive=sensitive_keys(preview.report.environment, changed),
    )


def _without_views(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps that publish no view. A dry run queries views instead, since it publishes no names."""
    return tuple(step for step in steps if not step.view)


def _queries(changed: set[str], states_by_key: Mapping[str, DatasetState]) -> Iterable[DownstreamQuery]:
    for key in sorted(changed & states_by_key.keys()):
        state = states_by_key[key]
        if state.active and state.historize and state.history_key is not None:
            for place, statement in enumerate(history_views(state), start=1):
                yield DownstreamQuery(f"{state.qualified_name}: view {place} of its history", statement)
    for state in _readers(changed, states_by_key):
        yield DownstreamQuery(state.qualified_name, view_sql(state, states_by_key))


def _readers(changed: set[str], states_by_key: Mapping[str, DatasetState]) -> list[DatasetState]:
    """Return active views that read a changed dataset, directly or through other views, by name."""
    views = (state for state in states_by_key.values() if state.active and state.materialization == "view")
    readers = [state for state in views if changed & _read_by(state, states_by_key)]
    return sorted(readers, key=lambda state: state.qualified_name)


def _read_by(state: DatasetState, states_by_key: Mapping[str, DatasetState]) -> set[str]:
    return {table.key for table in tables_read(state, states_by_key)}
