"""Executions performed on the runner.

The runner performs one step after another and verifies each by observing the table; every event is stored when it
arrives. An execution always ends in a final state. If its worker dies, it is marked as lost and can be resumed.
"""

import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

from architecture.domain import execution_log
from architecture.domain.refusals import Refused
from architecture.models import Execution
from architecture.permissions import on_behalf_of
from architecture.services.execution_attempts import ExecutionAttempt
from architecture.services.execution_checks import Todo, tables_of_execution, verify
from architecture.services.executions import claim_execution, end_attempt
from architecture.services.observations import store_observations
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.core.log_context import about
from elevata.jobs import states
from elevata.jobs.services import Fenced
from loader.contract.manifest.executions import ExecuteManifest, ObserveManifest
from loader.contract.refusals import Refusal
from loader.domain.spark_failures import worker_accident
from loader.runner.conversation import Conversation, Stopped, SupportsRequests
from loader.services.publication import publish_execution
from loader.services.reads.read_permissions import sensitive_in

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


def _answer(finished: dict) -> dict[str, Any]:
    """Return the runner's answer. Raise its error as a Refusal."""
    if finished.get("error"):
        raise Refusal.from_json(finished["error"])
    return finished.get("answer") or {}
