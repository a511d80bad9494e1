"""Recording an execution while it happens: every operation is a row before it runs.

Applied state is written in the transaction that records the operation, so it never claims more
than was seen.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from architecture.domain.operations import Operation
from architecture.models import AppliedTable, Environment, Execution, ExecutionOperation

_PLANNED = ExecutionOperation.Status.PLANNED
_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED
_FAILED = ExecutionOperation.Status.FAILED


@transaction.atomic
def begin_execution(
    *, environment: Environment, operations: Iterable[Operation], reason: str, user: Any = None
) -> Execution:
    """Open an execution with a row for each operation, in order (ordinals from 0)."""
    execution = Execution.objects.create(environment=environment, reason=reason[:200], requested_by=user)
    ExecutionOperation.objects.bulk_create(
        ExecutionOperation(
            execution=execution,
            ordinal=ordinal,
            op=operation.op,
            table_key=operation.table.key,
            qualified_name=operation.table.qualified_name,
            column_name=operation.column.name if operation.column else "",
        )
        for ordinal, operation in enumerate(operations)
    )
    return execution


def operation_started(*, execution: Execution, ordinal: int, statement: str, version_before: int | None = None) -> None:
    """Record what is about to run, and on which version of the table."""
    ExecutionOperation.objects.filter(execution=execution, ordinal=ordinal, status=_PLANNED).update(
        statement=statement, version_before=version_before
    )


@transaction.atomic
def operation_finished(
    *,
    execution: Execution,
    ordinal: int,
    succeeded: bool,
    observed: Mapping | None = None,
    version_after: int | None = None,
    error: Mapping | None = None,
    seconds: float | None = None,
) -> None:
    """Record what was seen afterwards; a success becomes the table's applied state. Once only."""
    changed = ExecutionOperation.objects.filter(execution=execution, ordinal=ordinal, status=_PLANNED).update(
        status=_SUCCEEDED if succeeded else _FAILED,
        observed=observed,
        version_after=version_after,
        error=error["message"] if error else "",
        seconds=seconds,
    )
    if not changed or not succeeded:
        return
    operation = execution.operations.get(ordinal=ordinal)
    AppliedTable.objects.update_or_create(
        environment=execution.environment,
        table_key=operation.table_key,
        defaults={
            "qualified_name": operation.qualified_name,
            "structure": observed or {},
            "table_version": -1 if version_after is None else version_after,
            "execution": execution,
        },
    )


@transaction.atomic
def finish_execution(*, execution: Execution) -> Execution:
    """Close the execution: it succeeded if every operation did. Once only."""
    unfinished = execution.operations.exclude(status=_SUCCEEDED).exists()
    status = Execution.Status.FAILED if unfinished else Execution.Status.SUCCEEDED
    Execution.objects.filter(pk=execution.pk, status=Execution.Status.RUNNING).update(
        status=status, finished_at=timezone.now()
    )
    execution.refresh_from_db()
    return execution
