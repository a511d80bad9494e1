"""Applied state, which changes only with finished operations."""

from typing import Any

from architecture.domain.operations import Operation, operation_of
from architecture.domain.states.applied_state import advance, follows_history, is_reached
from architecture.domain.states.flat_states import as_row, of_row
from architecture.models import AppliedDataset, Environment, Execution, ExecutionOperation, KeptHistory
from architecture.services.row_signatures import refuse_unproven_execution, refuse_unproven_row, signature_of
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState

# The mark of a dataset whose operations were never all executed: all users who edited it are authors.
NOTHING = 0


def apply_finished(step: ExecutionOperation) -> None:
    """Advance applied state if this step was the last of its operation, in the caller's transaction.

    Raises Refused EXECUTION_UNPROVEN or APPLIED_UNPROVEN if the plan or the previous applied state was changed outside
    the product.
    """
    execution = step.execution
    pending = execution.operations.filter(operation=step.operation).exclude(status=ExecutionOperation.Status.SUCCEEDED)
    if step.operation is None or pending.exists():
        return
    refuse_unproven_execution(execution)
    operation = operation_of(execution.planned["rows"][step.operation])
    rows = execution.operations.filter(operation=step.operation, version_after__isnull=False).order_by("ordinal")
    versions = {str(row.table_key): row.version_after for row in rows if row.version_after is not None}
    desired = execution.planned["desired"].get(operation.dataset_key)
    rest = execution.operations.filter(dataset_key=operation.dataset_key)
    whole = not rest.exclude(status=ExecutionOperation.Status.SUCCEEDED).exists()
    advance_dataset(
        execution=execution,
        operation=operation,
        desired=None if desired is None else of_row(desired),
        versions=versions,
        whole=whole,
    )


def advance_dataset(
    *,
    execution: Execution,
    operation: Operation,
    desired: DatasetState | None,
    versions: dict[str, int],
    whole: bool,
) -> None:
    """Write the applied state of the operation's dataset after it; delete it once the table is dropped.

    The dataset gets the plan's mark if all its operations are done (``whole``) and the desired state is reached.
    Otherwise it keeps the older mark, and so its authors.
    """
    environment = execution.environment
    rows = AppliedDataset.objects.select_for_update().filter(environment=environment)
    row = rows.filter(dataset_key=operation.dataset_key).first()
    if row is not None:
        refuse_unproven_row(row)
    before = of_row(row.state) if row is not None else None
    state = advance(before, operation, desired)
    note_history(environment=environment, before=before, after=state)
    known = row.table_versions if row is not None else {}
    if row is not None and (state is None or state.key != str(row.dataset_key)):
        row.delete()
    if state is not None:
        write_applied(
            environment=environment,
            state=state,
            versions={**known, **versions},
            execution=execution,
            through=_mark(execution, row, reached=whole and desired is not None and is_reached(state, desired)),
        )


def _mark(execution: Execution, row: AppliedDataset | None, *, reached: bool) -> int:
    planned = execution.planned.get("through", NOTHING)
    if reached:
        return planned
    return NOTHING if row is None else min(row.through, planned)


def note_history(*, environment: Environment, before: DatasetState | None, after: DatasetState | None) -> None:
    """Store the last logic of a history when loads stop writing it; delete it when they write the history again."""
    was_written, is_written = follows_history(before), follows_history(after)
    if was_written == is_written:
        return
    written = before if was_written else after
    assert written is not None
    if written.history_key is not None:
        KeptHistory.objects.filter(environment=environment, history_key=written.history_key).delete()
    if was_written and before is not None and before.history_key is not None:
        row = KeptHistory(environment=environment, history_key=before.history_key, state=as_row(before))
        row.signature = signature_of(row)
        row.save(force_insert=True)


def write_applied(
    *,
    environment: Environment,
    state: DatasetState,
    versions: dict[str, int],
    execution: Execution | None,
    through: int,
) -> AppliedDataset:
    """Write and sign the applied state of a dataset."""
    values: dict[str, Any] = {
        "qualified_name": state.qualified_name,
        "state": as_row(state),
        "table_versions": versions,
        "execution": execution,
        "through": through,
    }
    signed = sign_applied(AppliedDataset(environment=environment, dataset_key=state.key, **values))
    values |= {"digest": signed.digest, "signature": signed.signature}
    row, _ = AppliedDataset.objects.update_or_create(environment=environment, dataset_key=state.key, defaults=values)
    return row


def sign_applied(row: AppliedDataset) -> AppliedDataset:
    """Set the digest and signature of a row before it is stored; return the row."""
    row.digest = sha256_hex(row.state)
    row.signature = signature_of(row)
    return row
