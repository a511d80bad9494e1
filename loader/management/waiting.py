"""Waiting in commands for load runs and executions, and jobs in a command's own process."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from architecture.models import Execution, ExecutionOperation
from architecture.services.executions import cancel_execution
from elevata.core.database import retried
from elevata.core.processes import process_name
from elevata.jobs.models import Job
from elevata.jobs.registry import handler_of, live_workers
from elevata.jobs.waiting import follow_job
from loader.contract.refusals import Refusal
from loader.models import LoadRun
from loader.runner.supervisor import Runner
from loader.services.loads.load_runs import request_cancel


def follow(
    run: LoadRun, show: Callable[[LoadRun, list], None], *, has_worker: Callable[[], Any] = live_workers
) -> LoadRun:
    """Show a load run and its datasets until it is finished, and return it, as ``follow_job`` does."""

    def show_datasets(run: LoadRun) -> None:
        show(run, retried(partial(list, run.datasets.order_by("ordinal"))))

    return follow_job(run, show=show_datasets, cancel=lambda run: request_cancel(run=run), has_worker=has_worker)


def follow_execution(
    execution: Execution,
    show: Callable[[Execution, list], None],
    *,
    user: Any,
    has_worker: Callable[[], Any] = live_workers,
) -> Execution:
    """Show an execution and its steps until it is finished, and return it, as ``follow_job`` does."""

    def show_steps(execution: Execution) -> None:
        show(execution, retried(partial(list, execution.operations.order_by("ordinal"))))

    cancel = partial(cancel_execution, user=user)
    return follow_job(
        execution, show=show_steps, cancel=lambda execution: cancel(execution=execution), has_worker=has_worker
    )


class StepLines:
    """Output of an execution: a line for each change of its state or phase, and for each finished step."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._shown: dict[int, str] = {}
        self._last = ""

    def show(self, execution: Execution, rows: Iterable[ExecutionOperation]) -> None:
        now = f"execution {execution.pk} {execution.status}" + (f": {execution.phase}" if execution.phase else "")
        if now != self._last:
            self._last = now
            self._say(now)
        for row in rows:
            if row.status != ExecutionOperation.Status.PLANNED and self._shown.get(row.ordinal) != row.status:
                self._shown[row.ordinal] = row.status
                subject = f"{row.qualified_name}.{row.column_name}" if row.column_name else row.qualified_name
                spent = f" ({row.seconds:.1f} s)" if row.seconds is not None else ""
                self._say(f"  {row.status} {row.op} {subject}{spent}{f': {row.error}' if row.error else ''}")


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


def perform_here(job_pk: int) -> str:
    """Perform a queued job with a runner in this process; return an error message, or an empty string."""
    name = process_name()
    runner = Runner(holder=f"manage.py, {name}")
    try:
        runner.start()
        handler_of(Job.objects.get(pk=job_pk).kind).perform(job_pk, worker=name, runner=runner)
    except Refusal as error:
        return error.one_line()
    except OSError as error:
        return str(error)
    finally:
        runner.close()
    return ""
