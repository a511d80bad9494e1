"""Verification of an execution's whole scope before the first statement of an attempt.

The first attempt computes report and preview again and compares fingerprints. A later attempt cannot, because finished
steps changed the warehouse: it checks that metadata, policy and approvals are unchanged, and that every table matches
its finished steps.
"""

from dataclasses import dataclass

from django.db import transaction

from architecture.domain.refusals import Refused
from architecture.domain.states.flat_states import as_row, flat
from architecture.domain.steps.resumption import steps_left
from architecture.domain.steps.step import Step
from architecture.models import Execution, ExecutionOperation
from architecture.permissions import must_still_be_permitted, place_of_execution
from architecture.selectors.authors import carried_out
from architecture.services.change_policy import policy_in_force
from architecture.services.executions import current_requester, refuse_unapproved
from architecture.services.observations import last_observations
from architecture.services.previews import (
    execution_rows,
    plan_preview,
    steps_in,
)
from architecture.services.report_basis import Basis
from architecture.services.reports import basis_of, operations_of, refuse_stale, tables_of, what_moved
from architecture.services.row_signatures import (
    refuse_unproven_execution,
    refuse_unproven_preview,
    sign_execution,
)
from architecture.services.undo import mark_before
from elevata.accounts.roles import Permission

_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED


@dataclass(frozen=True)
class Todo:
    """All steps of an execution, and the ordinals of the remaining ones (``left``)."""

    steps: tuple[Step, ...]
    left: tuple[int, ...]


def tables_of_execution(execution: Execution) -> frozenset[str]:
    """Return the stable keys of the tables to observe before the execution. Raise Refused EXECUTION_UNPROVEN."""
    refuse_unproven_execution(execution)
    assert execution.report is not None
    assert execution.preview is not None
    known = tables_of(execution.report, begun=bool(execution.planned))
    return known | {step.table.key for step in steps_in(execution.preview)}


@transaction.atomic
def verify(execution: Execution) -> Todo:
    """Return the steps to run. Raise Refused or StepProblem if anything changed since the approval.

    Also if the user who requested or resumed it may not execute the report any more.
    """
    refuse_unproven_execution(execution)
    must_still_be_permitted(current_requester(execution), Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    report, preview = execution.report, execution.preview
    assert report is not None
    assert preview is not None
    refuse_unapproved(report, execution.requested_by)
    refuse_unproven_preview(report, preview)
    rows = list(execution.operations.order_by("ordinal"))
    if list(map(_identity, rows)) != list(map(_identity, execution_rows(execution, preview, operations_of(report)))):
        raise Refused("EXECUTION_UNPROVEN", "its steps are not those of the report and the preview")
    if not execution.planned:
        basis = refuse_stale(report)
        if plan_preview(report, basis).fingerprint != preview.fingerprint:
            raise Refused("PREVIEW_STALE")
        _store_plan(execution, basis)
    else:
        _refuse_moved(execution)
    steps = steps_in(preview)
    finished = {row.ordinal for row in rows if row.status == _SUCCEEDED}
    observed = last_observations(environment=execution.environment).tables
    return Todo(steps, steps_left(steps, finished=finished, observed=observed))


def _identity(row: ExecutionOperation) -> tuple[object, ...]:
    """Return the columns of a step's row that determine its effect on applied state."""
    keys = (str(row.dataset_key), str(row.table_key))
    return (row.ordinal, row.operation, row.op, *keys, row.qualified_name, row.column_name)


def _store_plan(execution: Execution, basis: Basis) -> None:
    """Store the execution's plan, which later attempts, the record and an undo use."""
    before, report = basis.before(), execution.report
    assert report is not None
    rows = [operation.as_row() for operation in operations_of(report)]
    keys = {row["dataset_key"] for row in rows}
    execution.planned = planned_of(
        rows=rows,
        basis=basis,
        through=report.through if report.undo_of_id is None else mark_before(report),
        scope=report.scope,
        before={key: before.get(key) for key in keys},
    )
    sign_execution(execution)


def planned_of(*, rows: list[dict], basis: Basis, through: int, scope: dict, before: dict, **more: object) -> dict:
    """Return the plan to store: operations, and the states of their datasets before and desired.

    ``through`` is the datasets' new mark after all operations; the plan also contains the current ``marks``.
    """
    keys = {row["dataset_key"] for row in rows}
    desired = {state.key: as_row(flat(state)) for state in basis.desired if state.key in keys}
    marks = carried_out(basis.environment, keys)
    common = {"rows": rows, "desired": desired, "scope": scope, "before": before, "marks": marks, "through": through}
    return {**common, **more}


def _refuse_moved(execution: Execution) -> None:
    """Refuse a changed metadata or policy. Tables are checked by their steps."""
    report = execution.report
    assert report is not None
    if policy_in_force(report.environment).as_json() != report.content["policy"]:
        raise Refused("POLICY_MOVED")
    made = basis_of(report, begun=True).report()
    if what_moved(report.content, made.content) == "REPORT_STALE":
        raise Refused("REPORT_STALE")
