"""Past reports with their approvals and executions, each about one dataset in an earlier state.

They use the product's own planner, statements and seals; only observation, approval and execution are
simulated.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.db import transaction

from architecture.domain import report_states
from architecture.domain.states.flat_states import flat
from architecture.domain.tables import tables_of
from architecture.models import (
    Approval,
    ChangeReport,
    Environment,
    Execution,
    ExecutionEvent,
    ExecutionOperation,
    Preview,
)
from architecture.services.change_policy import policy_of
from architecture.services.execution_checks import planned_of
from architecture.services.execution_records import seal
from architecture.services.observations import Seen
from architecture.services.previews import execution_rows, plan_preview
from architecture.services.proof import sign_execution
from architecture.services.report_basis import Basis
from architecture.services.reports import operations_of, store_report
from bench.web.applied import observed
from bench.web.size import Size
from elevata.audit.services import chain
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState

# Outcomes of reports, in turns.
_ENDS = ("executed", "executed", "executed", "executed", "rejected", "failed", "executed", "superseded", "open")


def decide(
    environment: Environment, states: Sequence[DatasetState], people: Sequence[Any], size: Size, *, now: datetime
) -> None:
    """Write past reports; ``people`` are an author, an approver and an operator."""
    random = Random(size.seed + 3)
    tables = [state for state in states if state.layer == "rawcore"]
    step = timedelta(days=300) / max(1, size.reports)
    for number in range(size.reports):
        at = now - timedelta(days=301) + number * step
        with transaction.atomic():
            basis = _basis(environment, random.choice(tables), random, adds=number % 2 == 0)
            _past(basis, people, _ENDS[number % len(_ENDS)], at)


def everything_anew(environment: Environment, states: Sequence[DatasetState], author: Any) -> ChangeReport:
    """Return the report that creates every dataset of an environment."""
    asked = frozenset(table.key for state in states for table in tables_of(state))
    seen = Seen({}, asked, environment.created_at)
    basis = Basis(environment, Scope(), tuple(states), (), seen, policy_of(environment))
    with transaction.atomic():
        return store_report(basis, basis.report(), author)


def _past(basis: Basis, people: Sequence[Any], end: str, at: datetime) -> None:
    author, approver, operator = people
    report = store_report(basis, basis.report(), author)
    if end == "superseded":
        # The last column was removed from it before any decision.
        (state,) = basis.desired
        fewer = replace(basis, desired=(replace(state, columns=state.columns[:-1]),))
        _dated(store_report(fewer, fewer.report(), author), at + timedelta(minutes=5))
    if end in ("executed", "failed"):
        _approve(report, approver, Approval.Decision.APPROVE, at)
        report.refresh_from_db()
        _execute(report, basis, operator, "succeeded" if end == "executed" else "abandoned", at)
    if end == "open":
        _preview(report, basis, operator, at)
    if end == "rejected":
        _approve(report, approver, Approval.Decision.REJECT, at)
    _dated(report, at)


def _basis(environment: Environment, state: DatasetState, random: Random, *, adds: bool) -> Basis:
    """Return the basis of a report in which an attribute of the dataset is added or renamed."""
    column = random.choice(state.attributes)
    if adds:
        columns = tuple(other for other in state.columns if other != column)
        desired = state
    else:
        former = replace(column, name=f"{column.name}_old")
        columns = tuple(former if current == column else current for current in state.columns)
        renamed = replace(column, former_names=(former.name,))
        desired = replace(state, columns=tuple(renamed if current == column else current for current in state.columns))
    before = replace(state, columns=columns)
    seen = {table.key: observed(table, 19) for table in tables_of(before)}
    scope = Scope("dataset", state.qualified_name, True)
    at = environment.created_at
    return Basis(
        environment, scope, (desired,), (flat(before),), Seen(seen, frozenset(seen), at), policy_of(environment)
    )


def _dated(report: ChangeReport, at: datetime) -> None:
    ChangeReport.objects.filter(pk=report.pk).update(created_at=at)


def _approve(report: ChangeReport, user: Any, decision: str, at: datetime) -> None:
    approval = Approval.objects.create(
        report=report,
        fingerprint=report.fingerprint,
        person=user,
        person_name=user.get_username(),
        roles=["approver"],
        decision=decision,
        note="As agreed." if decision == Approval.Decision.APPROVE else "Not before the month's end.",
        at=at + timedelta(minutes=10),
    )
    chain.append(approval)
    status = report_states.APPROVED if decision == Approval.Decision.APPROVE else report_states.REJECTED
    ChangeReport.objects.filter(pk=report.pk).update(status=status)


def _execute(report: ChangeReport, basis: Basis, operator: Any, status: str, at: datetime) -> None:
    preview = _preview(report, basis, operator, at)
    execution = Execution.objects.create(
        environment=report.environment,
        report=report,
        preview=preview,
        status=status,
        requested_by=operator,
        requester=operator.get_username(),
        command="page",
        attempt=1,
        started_at=at + timedelta(minutes=20),
        finished_at=at + timedelta(minutes=21),
        reason="the table was locked by another tool" if status == "abandoned" else "",
    )
    operations = operations_of(report)
    execution.planned = _planned(report, basis, at)
    sign_execution(execution)
    rows = execution_rows(execution, preview, operations)
    for row in rows if status == "succeeded" else rows[:-1]:
        row.status, row.attempt, row.seconds = ExecutionOperation.Status.SUCCEEDED, 1, 2.5
        row.version_before, row.version_after = 19, 20
    ExecutionOperation.objects.bulk_create(rows)
    events = ExecutionEvent.objects.bulk_create(
        ExecutionEvent(execution=execution, attempt=1, message=f"{row.op} {row.qualified_name}") for row in rows
    )
    chain.append(*events)
    seal(execution)


def _preview(report: ChangeReport, basis: Basis, operator: Any, at: datetime) -> Preview:
    planned = plan_preview(report, basis)
    return Preview.objects.create(
        report=report, document=planned.document, fingerprint=planned.fingerprint, observed_at=at, created_by=operator
    )


def _planned(report: ChangeReport, basis: Basis, at: datetime) -> dict[str, Any]:
    before = basis.before()
    rows = [operation.as_row() for operation in operations_of(report)]
    kept = {row["dataset_key"]: before.get(row["dataset_key"]) for row in rows}
    return planned_of(rows=rows, basis=basis, through=0, scope=report.scope, before=kept)
