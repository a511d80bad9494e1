"""Performance of an execution: claim → observe → verify everything → steps on the runner → record.

The runner performs one step after another and verifies each by observing; every event is stored as it
comes. An execution always ends in a final state; only if its worker dies is it left to be marked as lost, and
to be resumed.
"""

import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

from architecture.domain import execution_log as said
from architecture.domain.reports.workflow import Refused
from architecture.models import Execution
from architecture.services.actors import on_behalf_of
from architecture.services.executions.attempts import ExecutionAttempt
from architecture.services.executions.executions import claim_execution, end_attempt
from architecture.services.executions.verification import Todo, tables_of_execution, verify
from architecture.services.states.observed_states import store_observations
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.core.log_context import about
from elevata.jobs import states
from elevata.jobs.attempts import Fenced
from loader.domain.runs.failure_causes import worker_accident
from loader.domain.runs.manifest import ExecuteManifest, ObserveManifest
from loader.domain.runs.refusals import Refusal
from loader.services.queries.read_work import sensitive_in
from loader.services.runner.conversation import Conversation, Stopped, SupportsRequests

log = logging.getLogger(__name__)


def perform_execution(
    *, execution_pk: int, worker: str, runner: SupportsRequests, stopping: threading.Event | None = None
) -> Execution | None:
    """Perform one execution from claim to end; return None if it could not be claimed, or waits for a lease.

    It is performed on behalf of the user who requested it, in any thread.
    """
    attempt = retried(partial(claim_execution, execution_pk=execution_pk, worker=worker))
    if attempt is None:
        return None
    found = Execution.objects.select_related("environment", "report", "preview", "requested_by")
    execution = retried(lambda: found.get(pk=execution_pk))
    talk = Conversation(attempt, runner, stopping or threading.Event())
    named = about(execution_id=execution.pk, person_id=execution.requested_by_id)
    try:
        with named, on_behalf_of(execution.requested_by):
            error = _outcome(ExecutionWork(execution, attempt, talk), worker)
            wanted = states.FAILED if error else states.SUCCEEDED
            retried(lambda: end_attempt(attempt=attempt, wanted=wanted, error=error))
    except Fenced:
        log.warning("%s, attempt %s was given up, claimed again or lost a lease", execution, attempt.number)
    return retried(Execution.objects.filter(pk=execution_pk).first)


def _outcome(work: "ExecutionWork", worker: str) -> dict[str, Any] | None:
    """Perform the work and return its error as JSON, None if it succeeded."""
    try:
        work.perform()
    except Stopped:
        return Refusal(
            "WORKER_STOPPED",
            f"worker {worker} was stopped during the execution",
            hint="resume the execution: what it had finished is not done twice",
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
        retried(partial(self.attempt.tell, said.verified(len(todo.steps), len(todo.left))))
        if todo.left:
            self._run(todo)
        finish_silent_rows(self.attempt)

    def _observe(self) -> None:
        """Observe every table of the report, and store the observations."""
        retried(partial(self.attempt.enter, "looking at the warehouse"))
        keys = retried(partial(tables_of_execution, self.execution))
        answer = _answer(self.talk.ask("observe", ObserveManifest(tuple(sorted(keys)), dropped=True)))
        store = partial(store_observations, environment=self.execution.environment, asked=keys, tables=answer)
        retried(store)
        retried(partial(self.attempt.tell, said.looked(len(keys), len(answer))))

    def _run(self, todo: Todo) -> None:
        """Run the steps left. All are sent, finished ones marked as such, so events carry the rows' ordinals."""
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
                said = f"step {place + 1} of {len(todo.steps)}: {todo.steps[place].describe()}"
                retried(partial(self.attempt.enter, said))
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


def finish_silent_rows(attempt: ExecutionAttempt) -> None:
    """Mark operations that change no table as done once everything else is."""
    for ordinal in retried(attempt.silent_rows):
        retried(partial(attempt.step_finished, ordinal, succeeded=True))


def _answer(finished: dict) -> dict[str, Any]:
    """Return the runner's answer, or raise the refusal that it gave instead."""
    if finished.get("error"):
        raise Refusal.from_json(finished["error"])
    return finished.get("answer") or {}
