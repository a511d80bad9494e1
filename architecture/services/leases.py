"""Leases, fenced writes of an attempt, execution log.

All leases of a run are taken together or not at all, in the order of their keys, so that two runs cannot wait for
each other.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from architecture.domain import execution_log
from architecture.domain.execution_log import Line, Subject
from architecture.domain.workflow import Refused
from architecture.models import Environment, Execution, ExecutionEvent, ExecutionOperation, Lease
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.selectors.environments import dataset_names
from architecture.services.states import apply_finished, store_observations
from elevata.accounts.roles import Permission
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_change
from elevata.core.database import ahead_of, silent_before, stays_ahead
from elevata.jobs import states
from elevata.jobs.services import Attempt, Fenced

_FREE = {"holder_kind": "", "holder_id": "", "holder_attempt": 0, "taken_at": None, "heartbeat_at": None}


@dataclass(frozen=True)
class Holder:
    """Holder of leases: a load run (of any kind) or an execution, and its attempt."""

    kind: str
    id: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True)
class Held:
    """Leases of one attempt."""

    environment: Environment
    holder: Holder
    count: int

    def renew(self) -> bool:
        """Renew the leases; return False if the holder has lost one."""
        mine = _of(self.environment, self.holder)
        return not self.count or mine.update(heartbeat_at=timezone.now()) == self.count

    def release(self) -> None:
        """Release the remaining leases."""
        release_leases(environment=self.environment, holder=self.holder)


@transaction.atomic
def take_leases(
    *,
    environment: Environment,
    dataset_keys: Collection[str],
    holder: Holder,
    silent_after: timedelta = states.LOST_AFTER,
) -> Held:
    """Take the leases of these datasets, all or none.

    Raises Refused LEASE_HELD, naming the holder, unless each is free, expired, or of an older attempt of the same
    holder. Leases in other environments with the same warehouse count, too, because they have the same tables.
    """
    keys = sorted({str(key) for key in dataset_keys})
    now = timezone.now()
    _refuse_held_beside(environment, keys, silent_after)
    known = {str(key) for key in _leases(environment, keys).values_list("dataset_key", flat=True)}
    Lease.objects.bulk_create(
        [Lease(environment=environment, dataset_key=key) for key in keys if key not in known], ignore_conflicts=True
    )
    own = Q(holder_kind=holder.kind, holder_id=holder.id, holder_attempt__lte=holder.attempt)
    available = Q(holder_kind="") | _silent(_leases(environment, keys), silent_after) | own
    for key in keys:
        taken = (
            _leases(environment, [key])
            .filter(available)
            .update(
                holder_kind=holder.kind,
                holder_id=holder.id,
                holder_attempt=holder.attempt,
                fence=F("fence") + 1,
                taken_at=now,
                heartbeat_at=now,
            )
        )
        if not taken:
            raise _refused(_leases(environment, [key]).select_related("environment").get())
    return Held(environment, holder, len(keys))


def _refuse_held_beside(environment: Environment, keys: Collection[str], silent_after: timedelta) -> None:
    """Raise Refused LEASE_HELD for a dataset with a lease in another environment with the same warehouse."""
    same = Environment.objects.filter(warehouse=environment.warehouse).exclude(warehouse="")
    if not same.exclude(pk=environment.pk).exists():
        return
    # The lock serializes environments, which could otherwise take the same dataset at the same time.
    list(same.select_for_update().order_by("pk").values_list("pk", flat=True))
    beside = Lease.objects.filter(environment__in=same, dataset_key__among=keys).exclude(holder_kind="")
    beside = beside.exclude(environment=environment)
    row = beside.exclude(_silent(beside, silent_after)).select_related("environment").first()
    if row is not None:
        raise _refused(row)


def _silent(leases: QuerySet[Lease], after: timedelta) -> Q:
    """Return the condition of leases whose last heartbeat is too old, or stays in the future."""
    silent = Q(heartbeat_at__lt=silent_before(after))
    for lease in leases.filter(heartbeat_at__gt=ahead_of(after)):
        if lease.heartbeat_at is not None and stays_ahead(("lease", lease.pk), lease.heartbeat_at, after):
            silent |= Q(pk=lease.pk, heartbeat_at=lease.heartbeat_at)
    return silent


def release_leases(*, environment: Environment, holder: Holder) -> int:
    """Release all leases of this attempt; return their number."""
    return _of(environment, holder).update(**_FREE)


@transaction.atomic
def break_lease(*, lease: Lease, user: Any, reason: str) -> Lease:
    """Break a lease; its holder notices with the next heartbeat. Writes a change-log entry."""
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_environment(lease.environment))
    if not reason.strip():
        raise Refused("NO_REASON")
    row = Lease.objects.select_for_update().get(pk=lease.pk)
    if row.holder_kind:
        Lease.objects.filter(pk=row.pk).update(**_FREE, fence=F("fence") + 1)
        with on_behalf_of(user):
            record_change(
                action="broken",
                subject_kind="lease",
                subject_key=f"{row.environment}/{row.dataset_key}",
                subject_name=f"lease of {_name(row)} in {row.environment}",
                before={"holder": f"{row.holder_kind} {row.holder_id}"},
                dataset_key=row.dataset_key,
                reason=reason.strip(),
            )
    row.refresh_from_db()
    return row


def _leases(environment: Environment, keys: Collection[str]) -> QuerySet[Lease]:
    return Lease.objects.filter(environment=environment, dataset_key__among=keys)


def _of(environment: Environment, holder: Holder) -> QuerySet[Lease]:
    return Lease.objects.filter(
        environment=environment, holder_kind=holder.kind, holder_id=holder.id, holder_attempt=holder.attempt
    )


def _refused(lease: Lease) -> Refused:
    return Refused(
        "LEASE_HELD",
        f"{lease.holder_kind} {lease.holder_id} writes to {_name(lease)} since {lease.taken_at:%Y-%m-%d %H:%M:%S} UTC",
    )


def _name(lease: Lease) -> str:
    key = str(lease.dataset_key)
    return dataset_names([key], environment=lease.environment)[key]


# Log of an execution: a line is added in the transaction of the change that it reports.


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


# Writes of one attempt of an execution. Each checks that the attempt is current: a worker marked as lost may still
# run, but its writes with an old attempt number match no row.


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
                asked=[str(step.table_key)],
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
