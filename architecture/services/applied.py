"""Applied state: it moves with each finished operation, and with nothing else."""

from datetime import UTC, datetime
from typing import Any

from architecture.domain.advance import advance
from architecture.domain.operations import Operation, operation_of
from architecture.domain.states.flat import as_row, of_row
from architecture.models import AppliedDataset, Environment, Execution, ExecutionOperation
from metadata.domain.state import DatasetState

# Of a dataset that was never carried out as a whole: whoever described any of it has a hand in what is left.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def apply_finished(step: ExecutionOperation) -> None:
    """Advance applied state if this step was the last of its operation, in the caller's transaction."""
    execution = step.execution
    left = execution.operations.filter(operation=step.operation).exclude(status=ExecutionOperation.Status.SUCCEEDED)
    if step.operation is None or left.exists():
        return
    operation = operation_of(execution.planned["rows"][step.operation])
    rows = execution.operations.filter(operation=step.operation, version_after__isnull=False).order_by("ordinal")
    versions = {str(row.table_key): row.version_after for row in rows}
    desired = execution.planned["desired"].get(operation.dataset_key)
    rest = execution.operations.filter(dataset_key=operation.dataset_key)
    whole = not rest.exclude(status=ExecutionOperation.Status.SUCCEEDED).exists()
    advance_dataset(
        execution=execution,
        operation=operation,
        desired=None if desired is None else of_row(desired),
        versions=versions,
        described_at=datetime.fromisoformat(execution.planned["described_at"]) if whole else None,
    )


def advance_dataset(
    *,
    execution: Execution,
    operation: Operation,
    desired: DatasetState | None,
    versions: dict[str, int],
    described_at: datetime | None,
) -> None:
    """The applied row of the operation's dataset as it is after it; gone once its table is.

    ``described_at`` is None while more is to be done to the dataset: edits that wait keep their authors.
    """
    environment = execution.environment
    rows = AppliedDataset.objects.select_for_update().filter(environment=environment)
    row = rows.filter(dataset_key=operation.dataset_key).first()
    state = advance(of_row(row.state) if row is not None else None, operation, desired)
    known = row.table_versions if row is not None else {}
    if row is not None and (state is None or state.key != str(row.dataset_key)):
        row.delete()
    if state is not None:
        write_applied(
            environment=environment,
            state=state,
            versions={**known, **versions},
            execution=execution,
            described_at=described_at or (row.described_at if row is not None else NEVER),
        )


def write_applied(
    *,
    environment: Environment,
    state: DatasetState,
    versions: dict[str, int],
    execution: Execution | None,
    described_at: datetime,
) -> AppliedDataset:
    """Set what was applied of a dataset."""
    values: dict[str, Any] = {
        "qualified_name": state.qualified_name,
        "state": as_row(state),
        "table_versions": versions,
        "execution": execution,
        "described_at": described_at,
    }
    row, _ = AppliedDataset.objects.update_or_create(environment=environment, dataset_key=state.key, defaults=values)
    return row
