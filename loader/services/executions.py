"""Executions performed on the runner.

The runner performs one step after another and verifies each by observing the table; every event is stored when it
arrives. An execution always ends in a final state. If its worker dies, it is marked as lost and can be resumed.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from django.db.models import QuerySet

from architecture.domain import execution_log
from architecture.models import Execution
from architecture.services.execution_attempts import ExecutionAttempt
from architecture.services.execution_checks import Todo, tables_of_execution, verify
from architecture.services.executions import claim_execution, end_attempt
from architecture.services.observations import store_observations
from elevata.core.database import retried
from elevata.jobs import states
from loader.contract.manifest.executions import ExecuteManifest, ObserveManifest
from loader.contract.refusals import Refusal
from loader.runner.conversation import Stopped, answer_of
from loader.runner.work import Work, perform_job
from loader.services.publication import publish_execution
from loader.services.reads.read_permissions import sensitive_in


@dataclass
class ExecutionWork(Work[Execution]):
    """Work of one attempt of an execution."""

    attempt: ExecutionAttempt

    @classmethod
    def jobs(cls) -> QuerySet[Execution]:
        return Execution.objects.select_related("environment", "report", "preview", "requested_by")

    @classmethod
    def claim(cls, job_pk: int, worker: str) -> Self | None:
        """Claim an execution and the leases of its datasets; return None also if it waits for a lease."""
        attempt = retried(partial(claim_execution, execution_pk=job_pk, worker=worker))
        return cls(retried(partial(cls.jobs().get, pk=job_pk)), attempt) if attempt is not None else None

    def log_context(self) -> dict[str, Any]:
        return {"execution_id": self.job.pk, "person_id": self.job.requested_by_id}

    def perform(self) -> None:
        self._observe()
        retried(partial(self.attempt.enter, "checking that everything is as it was approved"))
        todo = retried(partial(verify, self.job))
        retried(partial(self.attempt.tell, execution_log.verified(len(todo.steps), len(todo.left))))
        if todo.left:
            self._run(todo)
        retried(partial(self.attempt.enter, "publishing names"))
        problem = publish_execution(execution=self.job, attempt=self.attempt, talk=self.talk)
        if problem is not None:
            raise problem

    def end(self, wanted: str, error: dict[str, Any] | None) -> None:
        end_attempt(attempt=self.attempt, wanted=wanted, error=error)

    def _observe(self) -> None:
        """Observe every table of the report, and store the observations."""
        retried(partial(self.attempt.enter, "scanning the warehouse"))
        keys = retried(partial(tables_of_execution, self.job))
        answer = answer_of(self.talk.ask("observe", ObserveManifest(tuple(sorted(keys)), dropped=True)))
        store = partial(store_observations, environment=self.job.environment, keys=keys, tables=answer)
        retried(store)
        retried(partial(self.attempt.tell, execution_log.looked(len(keys), len(answer))))

    def _run(self, todo: Todo) -> None:
        """Run the remaining steps. The request has all steps, so that the ordinals of events are those of the rows."""
        retried(partial(self.attempt.enter, "changing tables"))
        done = tuple(place for place in range(len(todo.steps)) if place not in todo.left)
        manifest = ExecuteManifest(
            str(self.job.pk),
            todo.steps,
            done,
            sensitive_in(self.job, todo.steps),
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
        answer_of(finished)
        if finished["status"] != states.SUCCEEDED:
            rows = retried(lambda: list(self.job.operations.exclude(error="")))
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


perform_execution = partial(perform_job, ExecutionWork)
