"""Changes that a load makes by itself: pending operations that are all safe, in an environment that allows it.

The same planner and the same policy as for reports. The changes are executed with a record of their
own; anything that needs a person blocks the load and says which report to make.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from architecture.domain import execution_log as said
from architecture.domain.operations import ALLOWED, METADATA_ONLY, Operation
from architecture.domain.planning.plan import plan
from architecture.domain.policy import SAFE
from architecture.domain.reports.scope import Scope
from architecture.domain.steps.rendering import statement_text
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.models import Environment, Execution, ExecutionOperation
from architecture.services.executions.attempts import ExecutionAttempt
from architecture.services.executions.execution_log import note_on
from architecture.services.executions.proof import proven_followed, proven_states, sign_execution
from architecture.services.executions.records import seal
from architecture.services.executions.verification import planned_of
from architecture.services.policies.policies import policy_in_force
from architecture.services.reports.previews import operation_row, rows_without_step, step_row
from architecture.services.reports.report_inputs import Basis
from architecture.services.states.observed_states import Seen, last_seen
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState

FORMAT = "automatic-changes/v1"


@dataclass(frozen=True)
class Pending:
    """Pending changes of some datasets.

    ``needing`` says, one line each, what a person has to decide on; steps are there only without it.
    """

    basis: Basis
    operations: tuple[Operation, ...] = ()
    steps: tuple[Step, ...] = ()
    needing: tuple[str, ...] = ()


def pending_changes(
    *, environment: Environment, states: Iterable[DatasetState], keys: Collection[str], seen: Seen, through: int
) -> Pending:
    """Return the pending operations on the datasets with these keys, ``seen`` being their tables as they are now.

    ``through`` is the last link of the audit chain that was sealed before ``states`` were read. Refused
    POLICY_UNPROVEN, APPLIED_UNPROVEN where the database was changed beside the product.
    """
    states, policy = tuple(states), policy_in_force(environment)
    applied = proven_states(environment=environment)
    chosen = tuple(state for state in states if state.key in keys)
    own = tuple(state for state in applied if state.key in keys)
    kept = {"through": through, "followed": proven_followed(environment=environment, states=(*states, *applied))}
    whole = basis = Basis(environment, Scope(), chosen, own, seen, policy, **kept)
    operations = plan(basis.current, chosen, policy).operations
    if operations:  # whether a name is free can depend on a dataset that is not loaded
        others = last_seen(environment=environment)
        whole = Basis(environment, Scope(), states, applied, _over(others, seen), policy, **kept)
        operations = plan(whole.current, states, policy, keys).operations
    needing = _needing(operations, basis)
    steps = () if needing else whole.steps(operations)
    return Pending(basis, operations, steps, needing)


def _never_applied(operations: tuple[Operation, ...], basis: Basis) -> list[str]:
    """Return views that a load would compute although no plan has compared them: retired, or of doubtful names."""
    known = {state.key for state in basis.applied} | {one.dataset_key for one in operations}
    views = (state for state in basis.desired if state.materialization == "view" and state.key not in known)
    return sorted(state.qualified_name for state in views)


def _over(others: Seen, seen: Seen) -> Seen:
    tables = {key: table for key, table in others.tables.items() if key not in seen.asked}
    return Seen({**tables, **seen.tables}, others.asked | seen.asked, seen.at)


def _needing(operations: tuple[Operation, ...], basis: Basis) -> tuple[str, ...]:
    """Everything that is not safe; all of it where the environment wants a person even for what is."""
    policy = basis.policy
    unasked = policy.automatic_safe_changes and not policy.approvals[SAFE].count
    found = [
        one for one in operations if not unasked or one.destructive or one.decision not in (ALLOWED, METADATA_ONLY)
    ]
    said = [f"{one.describe()} ({one.message})" if one.message else one.describe() for one in found]
    said += [
        f"{name}: the view was never applied; take it into use by a report"
        for name in _never_applied(operations, basis)
    ]
    # What differs and no operation speaks of is for a person, too: a report warns of it.
    planned = {one.dataset_key for one in operations}
    differing = plan_steps(basis.tables({state.key for state in basis.desired}), basis.seen.tables)
    return tuple(said + [step.describe() for step in differing if step.table.dataset_key not in planned])


@transaction.atomic
def begin_execution(
    *,
    pending: Pending,
    reason: str,
    user: Any = None,
    scope: Scope | None = None,
) -> Execution:
    """Open an execution of pending changes, with a row for each step, in order (ordinals from 0).

    ``scope`` is what the load was asked for, as its record says it; everything, if it is not given.
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
            scope=(scope or basis.scope).as_json(sorted(state.qualified_name for state in basis.desired)),
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
    note_on(execution, said.begun_by_load(execution.reason, len(rows_of_steps)))
    return execution


def attempt_of_load(execution: Execution) -> ExecutionAttempt:
    """The one attempt that a load run's execution has: the run itself is what is fenced."""
    return ExecutionAttempt(execution.pk, 1)


@transaction.atomic
def finish_execution(*, execution: Execution) -> Execution:
    """Close a load run's execution: it succeeded if every step did. Its record is sealed either way. Once only."""
    unfinished = execution.operations.exclude(status=ExecutionOperation.Status.SUCCEEDED).exists()
    status = Execution.Status.FAILED if unfinished else Execution.Status.SUCCEEDED
    ended = attempt_of_load(execution).end(wanted=status)
    execution.refresh_from_db()
    if ended is not None:
        note_on(execution, said.ended(execution.status, execution.seconds, execution.error, 0))
        seal(execution)
    return execution


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "columns": [list(column) for column in row["columns"]]}
