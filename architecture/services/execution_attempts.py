"""Writes of one attempt of an execution, and the log of executions.

Each write checks that the attempt is current: a worker marked as lost may still run, but its writes with an old attempt
number match no row. A line of the log is added in the transaction of the change that it reports.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.domain import execution_log
from architecture.domain.execution_log import Line, Subject
from architecture.models import Environment, Execution, ExecutionEvent, ExecutionOperation
from architecture.selectors.dataset_states import dataset_names
from architecture.services.leases import Held, Holder
from architecture.services.observations import store_observations
from architecture.services.states import apply_finished
from elevata.audit.services import chain
from elevata.jobs.services import Attempt, Fenced


def note(execution_pk: int, attempt: int, line: Line) -> None:
    """Add a line to an execution's log; ``attempt`` is the current or last attempt."""
    fields = {"attempt": attempt, "level": line.level, "step": line.step, "message": line.message}
    chain.append(ExecutionEvent.objects.create(execution_id=execution_pk, **fields))


def note_on(execution: Execution, line: Line) -> None:
    """Add a line to an execution's log, with the attempt in ``execution``."""
    note(execution.pk, execution.attempt, line)


def subject(row: ExecutionOperation) -> Subject:
    """Return the subject of a log line about a step."""
    count = ExecutionOperation.objects.filter(execution_id=row.execution_id).count()
    name = f"{row.qualified_name}.{row.column_name}" if row.column_name else row.qualified_name
    return Subject(row.ordinal, count, row.op, name)


def names_of(keys: Collection[str], environment: Environment) -> list[str]:
    """Return the names of leased datasets."""
    return list(dataset_names([str(key) for key in keys if key], environment=environment).values())


_PLANNED = ExecutionOperation.Status.PLANNED
_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED
_FAILED = ExecutionOperation.Status.FAILED


@dataclass(frozen=True)
class ExecutionAttempt(Attempt):
    """Attempt of a worker to run an execution, with the leases that it holds."""

    leases: Held | None = None

    @property
    def holder(self) -> Holder:
        return Holder("execution", str(self.job_pk), self.number)

    def heartbeat(self) -> str:
        """Record a heartbeat, renew the leases and return the execution's status, maybe canceling. Raise Fenced."""
        status = super().heartbeat()
        if self.leases is not None and not self.leases.renew():
            raise Fenced
        return status

    def say(self, message: str, *, level: str = "info", dataset_key: str | None = None) -> None:
        """Add a line to the execution's log, with the name of the dataset if a key is given."""
        self.tell(execution_log.Line(message, level))

    @transaction.atomic
    def tell(self, line: execution_log.Line) -> None:
        """Add a line of ``architecture.domain.execution_log``."""
        if not self.own_job().exists():
            raise Fenced
        note(self.job_pk, self.number, line)

    @transaction.atomic
    def step_started(self, ordinal: int, *, statement: str = "", version_before: int | None = None) -> None:
        """Record the start of a step and the table's version."""
        if not self.own_job().exists():
            raise Fenced
        fields: dict[str, Any] = {"attempt": self.number}
        if statement:
            fields["statement"] = statement
        rows = self._steps(ordinal).filter(status=_PLANNED)
        # A repeated start keeps the version recorded first: the step may have run before its worker died.
        if version_before is not None and rows.filter(version_before__isnull=True).exists():
            fields["version_before"] = version_before
        if rows.update(**fields):
            row = self._steps(ordinal).get()
            note(self.job_pk, self.number, execution_log.step_began(subject(row), statement, version_before))

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
        """Record the result of a step, once. The last successful step of an operation advances applied state.

        ``rows`` is the number of rows that the step wrote, for the log.
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
                keys=[str(step.table_key)],
                tables={str(step.table_key): observed},
            )
        apply_finished(step)

    def silent_rows(self) -> list[int]:
        """Return the ordinals of the remaining rows if none of them changes a table; otherwise none."""
        left = ExecutionOperation.objects.filter(execution_id=self.job_pk).exclude(status=_SUCCEEDED)
        if left.exclude(statement="").exists():
            return []
        return list(left.order_by("ordinal").values_list("ordinal", flat=True))

    def _note_end(self, step: ExecutionOperation, rows: int | None, error: Mapping[str, Any] | None) -> None:
        line = execution_log.step_ended(
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
