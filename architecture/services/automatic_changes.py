"""Changes that a load executes without a report.

Planner and change policy are the same as for reports. The changes are executed with a record of their own. A change
that needs approval blocks the load; the error names the report to create. Table features that some readers lack block
no load: only reports drop them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from architecture.domain import execution_log, policy_rules
from architecture.domain.change_policy import is_applied_by_loads
from architecture.domain.operations import Operation, Warning
from architecture.domain.planning.plan import plan
from architecture.domain.scope import scope_document
from architecture.domain.states.flat_states import of_row
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.statements import statement_text
from architecture.domain.steps.step import Step
from architecture.models import AppliedDataset, Environment, Execution, ExecutionOperation
from architecture.services.change_policy import policy_in_force
from architecture.services.execution_attempts import ExecutionAttempt, note_on
from architecture.services.execution_checks import planned_of
from architecture.services.execution_records import seal
from architecture.services.observations import Observations, last_observations
from architecture.services.previews import (
    operation_row,
    rows_without_step,
    step_row,
)
from architecture.services.report_basis import Basis
from architecture.services.row_signatures import (
    proven_followed,
    proven_states,
    refuse_altered_metadata,
    refuse_unproven_row,
    sign_execution,
)
from architecture.services.states import write_applied
from elevata.core.canonical_json import sha256_hex
from metadata.domain.load_policy import with_rules_of
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset

FORMAT = "automatic-changes/v1"


@dataclass(frozen=True)
class Pending:
    """Pending changes of some datasets.

    ``needing`` lists the changes that need a user's decision, one line each. ``steps`` are set only if there are none.
    ``warnings`` are those of its operations, which a load shows, since it executes them without a report.
    """

    basis: Basis
    operations: tuple[Operation, ...] = ()
    steps: tuple[Step, ...] = ()
    needing: tuple[str, ...] = ()
    warnings: tuple[Warning, ...] = ()


def pending_changes(
    *,
    environment: Environment,
    states: Iterable[DatasetState],
    keys: Collection[str],
    observations: Observations,
    through: int,
) -> Pending:
    """Return the pending operations on the datasets with these keys; ``observations`` are their observed tables.

    ``through`` is the last link of the audit chain sealed before ``states`` were read. Raises Refused
    POLICY_UNPROVEN, APPLIED_UNPROVEN or CHANGED_OUTSIDE if the database was changed outside the product.
    """
    refuse_altered_metadata(TargetDataset.objects.filter(key__among=keys))
    states, policy = tuple(states), policy_in_force(environment)
    applied = proven_states(environment=environment)
    desired = tuple(state for state in states if state.key in keys)
    own = tuple(state for state in applied if state.key in keys)
    followed = proven_followed(environment=environment, states=(*states, *applied))
    common: dict[str, Any] = {"through": through, "followed": followed}
    whole = basis = Basis(environment, Scope(), desired, own, observations, policy, **common)
    planned = plan(basis.current, desired, policy, plans_feature_drops=False)
    if planned.operations:  # datasets that are not loaded may use a name
        others = last_observations(environment=environment)
        whole = Basis(
            environment, Scope(), states, applied, _merge_observations(others, observations), policy, **common
        )
        planned = plan(whole.current, states, policy, keys, plans_feature_drops=False)
    operations = planned.operations
    needing = _changes_to_decide(operations, basis)
    steps = () if needing else whole.steps(operations)
    warnings = tuple(warning for warning in planned.warnings if warning.code == policy_rules.NOT_NULL_ADDED)
    return Pending(basis, operations, steps, needing, warnings)


def _views_never_applied(operations: tuple[Operation, ...], basis: Basis) -> list[str]:
    """Return views that were never applied and have no operation, as when retired or with an ambiguous name."""
    known = {state.key for state in basis.applied} | {operation.dataset_key for operation in operations}
    views = (state for state in basis.desired if state.materialization == "view" and state.key not in known)
    return sorted(state.qualified_name for state in views)


def _merge_observations(others: Observations, observations: Observations) -> Observations:
    tables = {key: table for key, table in others.tables.items() if key not in observations.keys}
    return Observations({**tables, **observations.tables}, others.keys | observations.keys, observations.at)


def _changes_to_decide(operations: tuple[Operation, ...], basis: Basis) -> tuple[str, ...]:
    """Return one line for each change that is not safe, or for all if the environment has safe ones approved, too."""
    unsafe = [operation for operation in operations if not is_applied_by_loads(operation, basis.policy)]
    parts = [f"{item.describe()} ({item.message})" if item.message else item.describe() for item in unsafe]
    parts += [
        f"{name}: the view was never applied; take it into use by a report"
        for name in _views_never_applied(operations, basis)
    ]
    # Differences without an operation also need a user's decision; a report contains warnings about them.
    planned = {operation.dataset_key for operation in operations}
    differences = plan_steps(basis.tables({state.key for state in basis.desired}), basis.observations.tables)
    return tuple(parts + [step.describe() for step in differences if step.table.dataset_key not in planned])


def record_rules(pending: Pending) -> None:
    """Record the rules of datasets of which an older release recorded none: those that the load follows.

    Raise Refused APPLIED_UNPROVEN for a row that was changed outside the product.
    """
    desired = {state.key: state for state in pending.basis.desired}
    keys = {state.key for state in pending.basis.applied if not state.rules_recorded} & desired.keys()
    if not keys:
        return
    environment = pending.basis.environment
    rows = AppliedDataset.objects.select_for_update().filter(environment=environment, dataset_key__among=keys)
    with transaction.atomic():
        for row in rows.order_by("pk"):
            refuse_unproven_row(row)
            state = of_row(row.state)
            if not state.rules_recorded:
                known = {"versions": row.table_versions, "execution": row.execution, "through": row.through}
                write_applied(environment=environment, state=with_rules_of(state, desired[state.key]), **known)


@transaction.atomic
def begin_execution(
    *,
    pending: Pending,
    reason: str,
    user: Any = None,
    scope: Scope | None = None,
) -> Execution:
    """Create an execution of pending changes, with a row for each step, in order (ordinals from 0).

    ``scope`` is the scope of the load, for its record; default: that of the inputs.
    """
    basis, now = pending.basis, timezone.now()
    rows = [operation.as_row() for operation in pending.operations]
    before = basis.before()
    content = {
        "format": FORMAT,
        "environment": basis.environment.name,
        "operations": [_plain_row(row) for row in rows],
        "steps": [step_row(step) for step in pending.steps],
        "policy": basis.policy.as_json(),
    }
    execution = Execution.objects.create(
        environment=basis.environment,
        environment_name=basis.environment.name,
        status=Execution.Status.RUNNING,
        attempt=1,
        reason=reason[:200],
        command="load",
        requested_by=user,
        started_at=now,
        planned=planned_of(
            rows=rows,
            basis=basis,
            through=basis.through,
            scope=scope_document(scope or basis.scope, (state.qualified_name for state in basis.desired)),
            before={row["dataset_key"]: before.get(row["dataset_key"]) for row in rows},
            report={"report_id": None, "fingerprint": sha256_hex(content), "content": content},
        ),
    )
    sign_execution(execution)
    warehouse = basis.environment.warehouse
    steps = [
        operation_row(execution, ordinal, step, statement_text(step, warehouse))
        for ordinal, step in enumerate(pending.steps)
    ]
    rows_of_steps = steps + rows_without_step(execution, pending.operations, steps)
    ExecutionOperation.objects.bulk_create(rows_of_steps)
    note_on(execution, execution_log.begun_by_load(execution.reason, len(rows_of_steps)))
    return execution


def attempt_of_load(execution: Execution) -> ExecutionAttempt:
    """Return the attempt of a load run's execution. There is only one, because the run itself is fenced."""
    return ExecutionAttempt(execution.pk, 1)


@transaction.atomic
def finish_execution(*, execution: Execution) -> Execution:
    """End a load run's execution and write its record, if it has not ended yet. It succeeded if all steps did."""
    unfinished = execution.operations.exclude(status=ExecutionOperation.Status.SUCCEEDED).exists()
    status = Execution.Status.FAILED if unfinished else Execution.Status.SUCCEEDED
    ended = attempt_of_load(execution).end(wanted=status)
    execution.refresh_from_db()
    if ended is not None:
        note_on(execution, execution_log.ended(execution.status, execution.seconds, execution.error, 0))
        seal(execution)
    return execution


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "columns": [list(column) for column in row["columns"]]}
