"""Execution on the terminal: followed, step by step, while a worker performs it."""

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from architecture.models import Execution, ExecutionOperation
from architecture.services.executions.executions import cancel_execution
from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.selectors import live_workers
from elevata.jobs.services import mark_lost
from loader.management.waiting import NoWorker

_LOOK_EVERY = 0.25


class StepLines:
    """Output of a line whenever the execution's state or phase changes, and of one for each step that ended."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._said: dict[int, str] = {}
        self._last = ""

    def show(self, execution: Execution, rows: Iterable[ExecutionOperation]) -> None:
        now = f"execution {execution.pk} {execution.status}" + (f": {execution.phase}" if execution.phase else "")
        if now != self._last:
            self._last = now
            self._say(now)
        for row in rows:
            if row.status != ExecutionOperation.Status.PLANNED and self._said.get(row.ordinal) != row.status:
                self._said[row.ordinal] = row.status
                subject = f"{row.qualified_name}.{row.column_name}" if row.column_name else row.qualified_name
                spent = f" ({row.seconds:.1f} s)" if row.seconds is not None else ""
                self._say(f"  {row.status} {row.op} {subject}{spent}{f': {row.error}' if row.error else ''}")


def follow_execution(
    execution: Execution,
    show: Callable[[Execution, list], None],
    *,
    person: Any,
    is_somebody_there: Callable[[], bool] = lambda: live_workers().exists(),
) -> Execution:
    """Show the execution until it is finished. The first Ctrl-C cancels it, the second stops following.

    A queued one is cancelled if no worker is alive for it; then raise NoWorker.
    """
    pause, canceled, seen = threading.Event(), False, time.monotonic()
    executions = Execution.objects.select_related("environment", "requested_by")
    while True:
        try:
            execution = retried(partial(executions.get, pk=execution.pk))
            show(execution, retried(partial(list, execution.operations.order_by("ordinal"))))
            if execution.is_finished:
                return execution
            if execution.status != states.QUEUED or retried(is_somebody_there):
                seen = time.monotonic()
            elif time.monotonic() - seen > states.WORKER_SILENT_AFTER.total_seconds():
                cancel_execution(execution=execution, person=person)
                raise NoWorker
            retried(partial(mark_lost, job_pk=execution.pk))
            pause.wait(_LOOK_EVERY)
        except KeyboardInterrupt:
            if canceled:
                raise
            canceled = True
            cancel_execution(execution=execution, person=person)


def described(execution: Execution) -> dict[str, Any]:
    record = getattr(execution, "record", None)
    return {
        "execution": execution.pk,
        "report": str(execution.report.report_id) if execution.report else None,
        "status": execution.status,
        "attempt": execution.attempt,
        "requested_by": execution.who,
        "seconds": execution.seconds,
        "error": execution.error,
        "record": str(record.record_id) if record is not None else None,
        "operations": [
            {
                "op": row.op,
                "dataset": row.qualified_name,
                "column": row.column_name,
                "status": row.status,
                "statement": row.statement,
                "version_before": row.version_before,
                "version_after": row.version_after,
                "seconds": row.seconds,
                "error": row.error,
            }
            for row in execution.operations.order_by("ordinal")
        ],
    }
