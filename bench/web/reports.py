"""Applied states, and past reports with their approvals and executions, each about one dataset in an earlier state.

They use the product's own planner, statements and seals; only observation, approval and execution are
simulated.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.db import transaction

from architecture.domain import report_states
from architecture.domain.data_contracts import FIRST_VERSION, desired_contract
from architecture.domain.states.flat_states import as_row, flat
from architecture.domain.steps.step import shape_of_spec
from architecture.domain.tables import ObservedTable, TableSpec, tables_of
from architecture.models import (
    AppliedDataset,
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
from architecture.services.observations import Observations, store_observations
from architecture.services.previews import execution_rows, plan_preview
from architecture.services.report_basis import Basis
from architecture.services.reports import operations_of, store_report
from architecture.services.row_signatures import sign_execution
from architecture.services.states import sign_applied
from bench.web.size import Size
from elevata.audit.services import chain
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState
from metadata.selectors.dataset_states import dataset_states

# Outcomes of reports, in turns.
_ENDS = ("executed", "executed", "executed", "executed", "rejected", "failed", "executed", "superseded", "open")


def apply(environment: Environment, size: Size) -> list[str]:
    """Write applied states and observations; return the keys of datasets that are to be edited since."""
    random = Random(size.seed + 2)
    chain.seal()
    through = chain.sealed_through()
    states = [_in_force(state) for state in dataset_states()]
    tables = [state.key for state in states if state.layer == "rawcore"]
    chosen = random.sample(tables, min(len(tables), size.pending + size.drifted))
    AppliedDataset.objects.bulk_create(
        sign_applied(
            AppliedDataset(
                environment=environment,
                dataset_key=state.key,
                qualified_name=state.qualified_name,
                state=as_row(state),
                table_versions={table.key: 20 for table in tables_of(state)},
                through=through,
            )
        )
        for state in states
    )
    seen = {table.key: asdict(_observed(table)) for state in states for table in tables_of(state)}
    for key in chosen[size.pending :]:
        seen[key]["columns"] = seen[key]["columns"][:-4] + seen[key]["columns"][-3:]
    sizes = {key: {"rows": random.randrange(10**7), "bytes": random.randrange(10**10), "files": 40} for key in seen}
    store_observations(environment=environment, keys=seen, tables=seen, sizes=sizes)
    return chosen[: size.pending]


def _in_force(state: DatasetState) -> DatasetState:
    """Return a dataset with its contract, if it has one, in force."""
    promise = desired_contract(state)
    return state if promise is None else replace(state, contract=replace(promise, version=FIRST_VERSION))


def _observed(table: TableSpec, version: int = 20) -> ObservedTable:
    """Return a table as observed in a warehouse after its creation."""
    shape = shape_of_spec(table)
    return ObservedTable(table.key, shape.qualified_name, shape.columns, version, partition_by=shape.partition_by)


def everything_anew(environment: Environment, states: Sequence[DatasetState], author: Any) -> ChangeReport:
    """Return the report that creates every dataset of an environment."""
    asked = frozenset(table.key for state in states for table in tables_of(state))
    observations = Observations({}, asked, environment.created_at)
    basis = Basis(environment, Scope(), tuple(states), (), observations, policy_of(environment))
    with transaction.atomic():
        return store_report(basis, basis.report(), author)


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
            # The last one is not superseded by another about its dataset.
            _past(basis, people, "open" if number == size.reports - 1 else _ENDS[number % len(_ENDS)], at)


def _past(basis: Basis, people: Sequence[Any], end: str, at: datetime) -> None:
    author, approver, operator = people
    report = store_report(basis, basis.report(), author)
    if end == "superseded":
        # The last column was removed from it before any decision.
        (state,) = basis.desired
        fewer = replace(basis, desired=(replace(state, columns=state.columns[:-1]),))
        _change(store_report(fewer, fewer.report(), author), created_at=at + timedelta(minutes=5))
    if end in ("executed", "failed"):
        _decide(report, approver, Approval.Decision.APPROVE, report_states.APPROVED, at)
        report.refresh_from_db()
        _execute(report, basis, operator, "succeeded" if end == "executed" else "abandoned", at)
    if end == "open":
        _preview(report, basis, operator, at)
    if end == "rejected":
        _decide(report, approver, Approval.Decision.REJECT, report_states.REJECTED, at)
    _change(report, created_at=at)


def _basis(environment: Environment, state: DatasetState, random: Random, *, adds: bool) -> Basis:
    """Return the basis of a report in which an attribute of the dataset is added or renamed."""
    column = random.choice(state.attributes)
    if adds:
        columns, desired = tuple(other for other in state.columns if other != column), state
    else:
        former = replace(column, name=f"{column.name}_old")
        renamed = replace(column, former_names=(former.name,))
        columns = tuple(former if current == column else current for current in state.columns)
        desired = replace(state, columns=tuple(renamed if current == column else current for current in state.columns))
    before = replace(state, columns=columns)
    tables = {table.key: _observed(table, 19) for table in tables_of(before)}
    observations = Observations(tables, frozenset(tables), environment.created_at)
    scope = Scope("dataset", state.qualified_name, True)
    return Basis(environment, scope, (desired,), (flat(before),), observations, policy_of(environment))


def _change(report: ChangeReport, **values: Any) -> None:
    ChangeReport.objects.filter(pk=report.pk).update(**values)


def _decide(report: ChangeReport, user: Any, decision: str, status: str, at: datetime) -> None:
    approval = Approval.objects.create(
        report=report,
        fingerprint=report.fingerprint,
        person=user,
        person_name=user.get_username(),
        roles=["approver"],
        decision=decision,
        note="As agreed.",
        at=at + timedelta(minutes=10),
    )
    chain.append(approval)
    _change(report, status=status)


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
    planned, before = [operation.as_row() for operation in operations], basis.before()
    kept = {row["dataset_key"]: before.get(row["dataset_key"]) for row in planned}
    execution.planned = planned_of(rows=planned, basis=basis, through=0, scope=report.scope, before=kept)
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
