"""Writing an execution's log: lines are added in the transaction of what they tell of, and stay as they are."""

from collections.abc import Collection

from architecture.domain.execution_log import Line, Subject
from architecture.models import Environment, Execution, ExecutionEvent, ExecutionOperation
from architecture.selectors import dataset_names


def note(execution_pk: int, attempt: int, line: Line) -> None:
    """Add a line; ``attempt`` is the one under way, or the last one."""
    ExecutionEvent.objects.create(
        execution_id=execution_pk, attempt=attempt, level=line.level, step=line.step, message=line.message
    )


def note_on(execution: Execution, line: Line) -> None:
    """Add a line to an execution as it is known here."""
    note(execution.pk, execution.attempt, line)


def subject(row: ExecutionOperation) -> Subject:
    """Return the subject of a log line about a step."""
    count = ExecutionOperation.objects.filter(execution_id=row.execution_id).count()
    name = f"{row.qualified_name}.{row.column_name}" if row.column_name else row.qualified_name
    return Subject(row.ordinal, count, row.op, name)


def names_of(keys: Collection[str], environment: Environment) -> list[str]:
    """The names of datasets that are leased."""
    return list(dataset_names([str(key) for key in keys if key], environment=environment).values())
