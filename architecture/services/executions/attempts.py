"""Writes of one attempt of an execution. Each checks that the attempt still holds the execution.

A worker that was given up for lost may still be alive, and slow. Its attempt number is old by then,
so none of its writes finds a row any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.domain import execution_log as said
from architecture.models import ExecutionOperation
from architecture.services.executions.execution_log import note, subject
from architecture.services.executions.leases import Held, Holder
from architecture.services.states.applied_states import apply_finished
from architecture.services.states.observed_states import store_observations
from elevata.jobs.attempts import Attempt, Fenced

_PLANNED = ExecutionOperation.Status.PLANNED
_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED
_FAILED = ExecutionOperation.Status.FAILED


@dataclass(frozen=True)
class ExecutionAttempt(Attempt):
    """One worker's hold on one execution, and on the leases it took."""

    leases: Held | None = None

    @property
    def holder(self) -> Holder:
        return Holder("execution", str(self.job_pk), self.number)

    def heartbeat(self) -> str:
        """Record a heartbeat, renew the leases and return the execution's status: it may be canceling. Raise Fenced."""
        status = super().heartbeat()
        if self.leases is not None and not self.leases.renew():
            raise Fenced
        return status

    def say(self, message: str, *, level: str = "info", dataset_key: str | None = None) -> None:
        """Add a line to the execution's log; the runner may say which dataset it is about, steps say it here."""
        self.tell(said.Line(message, level))

    @transaction.atomic
    def tell(self, line: said.Line) -> None:
        """Add a line of ``architecture.domain.execution_log``."""
        if not self.held().exists():
            raise Fenced
        note(self.job_pk, self.number, line)

    @transaction.atomic
    def step_started(self, ordinal: int, *, statement: str = "", version_before: int | None = None) -> None:
        """Record what is about to run, and on which version of the table."""
        if not self.held().exists():
            raise Fenced
        fields: dict[str, Any] = {"attempt": self.number}
        if statement:
            fields["statement"] = statement
        rows = self._steps(ordinal).filter(status=_PLANNED)
        # A step that ran before its worker died keeps the version that it found first.
        if version_before is not None and rows.filter(version_before__isnull=True).exists():
            fields["version_before"] = version_before
        if rows.update(**fields):
            row = self._steps(ordinal).get()
            note(self.job_pk, self.number, said.step_began(subject(row), statement, version_before))

    @transaction.atomic
    def step_finished(
        self,
        ordinal: int,
        *,
        succeeded: bool,
        observed: Mapping[str, Any] | None = None,
        version_after: int | None = None,
        error: Mapping[str, Any] | None = None,
        seconds: float | None = None,
        rows: int | None = None,
    ) -> None:
        """Record what was seen afterwards. A success that completes an operation becomes applied state. Once only.

        ``rows`` is how many the step wrote, where it wrote any; the log says it.
        """
        self.must_hold()
        changed = (
            self._steps(ordinal)
            .filter(status=_PLANNED)
            .update(
                status=_SUCCEEDED if succeeded else _FAILED,
                attempt=self.number,
                observed=observed,
                version_after=version_after,
                error=error["message"] if error else "",
                seconds=seconds,
            )
        )
        if not changed:
            return
        step = self._steps(ordinal).select_related("execution__environment", "execution__report").get()
        self._note_end(step, rows, error)
        if not succeeded:
            return
        if observed is not None:
            store_observations(
                environment=step.execution.environment,
                asked=[str(step.table_key)],
                tables={str(step.table_key): observed},
            )
        apply_finished(step)

    def silent_rows(self) -> list[int]:
        """Ordinals of rows that are left and change no table, unless something else is left, too."""
        left = ExecutionOperation.objects.filter(execution_id=self.job_pk).exclude(status=_SUCCEEDED)
        if left.exclude(statement="").exists():
            return []
        return list(left.order_by("ordinal").values_list("ordinal", flat=True))

    def _note_end(self, step: ExecutionOperation, rows: int | None, error: Mapping[str, Any] | None) -> None:
        line = said.step_ended(
            subject(step),
            seconds=step.seconds,
            versions=(step.version_before, step.version_after),
            rows=rows,
            error=error,
            silent=not step.statement,
        )
        note(self.job_pk, self.number, line)

    def _steps(self, ordinal: int) -> QuerySet[ExecutionOperation]:
        return ExecutionOperation.objects.filter(
            execution_id=self.job_pk, execution__attempt=self.number, ordinal=ordinal
        )
