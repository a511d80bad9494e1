"""Executions, their logs and records."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from architecture.domain.refusals import Refused
from architecture.models import (
    Environment,
    Execution,
    ExecutionEvent,
    ExecutionOperation,
    ExecutionRecord,
)

LINES = 300


@dataclass(frozen=True)
class LogPart:
    """Lines of a log, oldest first. ``after`` is the id of the last line; ``more``: further lines may follow."""

    lines: list[ExecutionEvent]
    after: int
    more: bool
    left_out: bool = False


def newest_lines(execution: Execution) -> LogPart:
    """Return the newest lines, for a new page. ``execution`` must be read before them, so that no line is missed."""
    newest = list(execution_events(execution=execution).order_by("-pk")[: LINES + 1])
    lines = newest[:LINES][::-1]
    return LogPart(lines, lines[-1].pk if lines else 0, not execution.is_finished, len(newest) > LINES)


def lines_after(execution: Execution, after: int) -> LogPart:
    """Return at most ``LINES`` lines after the line with the id ``after``."""
    events = list(execution_events(execution=execution, after=after)[: LINES + 1])
    lines = events[:LINES]
    return LogPart(lines, lines[-1].pk if lines else after, not execution.is_finished or len(events) > LINES)


def executions(*, environment: Environment | None = None) -> QuerySet[Execution]:
    """Return executions, newest first, with their numbers of steps: all, succeeded and failed."""
    rows = (
        Execution.objects.select_related("environment", "requested_by", "report", "record")
        .defer("report__document", "report__content", "record__document")
        .annotate(
            operation_count=Count("operations"),
            done_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.SUCCEEDED)),
            failed_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.FAILED)),
        )
        .order_by("-id")
    )
    return rows if environment is None else rows.filter(environment=environment)


def execution_events(*, execution: Execution, after: int = 0) -> QuerySet[ExecutionEvent]:
    """Return an execution's log, oldest first; ``after`` is the id of the last line already read."""
    return ExecutionEvent.objects.filter(execution=execution, pk__gt=after).order_by("pk")


def records(*, environment: Environment | None = None) -> QuerySet[ExecutionRecord]:
    """Return execution records, newest first."""
    rows = ExecutionRecord.objects.select_related("environment", "execution__report").order_by("-id")
    return rows if environment is None else rows.filter(environment=environment)


def record_named(text: str) -> ExecutionRecord:
    """Return the record with this id. Raise Refused UNKNOWN_RECORD."""
    try:
        record = records().filter(record_id=UUID(text)).first()
    except ValueError:
        record = None
    if record is None:
        raise Refused("UNKNOWN_RECORD", f"there is no record {text!r}")
    return record
