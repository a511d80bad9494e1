"""Before the first statement of an attempt everything is checked once more, for the whole scope.

The first attempt makes report and preview again and compares fingerprints. A later one cannot: what
was done already is part of what is there. It checks that metadata, policy and approvals still
stand, and that every table is where its finished steps left it.
"""

from dataclasses import dataclass

from django.db import transaction

from architecture.authors import carried_out
from architecture.domain.reports.workflow import Refused
from architecture.domain.states.flat import as_row, flat
from architecture.domain.steps.resume import steps_left
from architecture.domain.steps.step import Step
from architecture.models import Execution, ExecutionOperation
from architecture.services.executions.executions import refuse_unapproved
from architecture.services.executions.proof import refuse_unproven_execution, refuse_unproven_preview, sign_execution
from architecture.services.policies.policies import policy_in_force
from architecture.services.reports.previews import execution_rows, plan_preview, steps_in
from architecture.services.reports.report_inputs import Basis
from architecture.services.reports.reports import basis_of, operations_of, refuse_stale, tables_of, what_moved
from architecture.services.reports.undo_reports import mark_before
from architecture.services.states.observed_states import last_seen

_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED


@dataclass(frozen=True)
class Todo:
    """All steps of an execution, and the ordinals of those that are still to be run."""

    steps: tuple[Step, ...]
    left: tuple[int, ...]


def tables_of_execution(execution: Execution) -> frozenset[str]:
    """Stable keys of the tables to look at before anything is run. Refused EXECUTION_UNPROVEN."""
    refuse_unproven_execution(execution)
    known = tables_of(execution.report, begun=bool(execution.planned))
    return known | {step.table.key for step in steps_in(execution.preview)}


@transaction.atomic
def verify(execution: Execution) -> Todo:
    """Return the steps left to run.

    Raise Refused or StepProblem, with nothing run, if anything changed since the approval.
    """
    refuse_unproven_execution(execution)
    report, preview = execution.report, execution.preview
    refuse_unapproved(report, execution.requested_by)
    refuse_unproven_preview(report, preview)
    rows = list(execution.operations.order_by("ordinal"))
    if list(map(_place, rows)) != list(map(_place, execution_rows(execution, preview, operations_of(report)))):
        raise Refused("EXECUTION_UNPROVEN", "its steps are not those of the report and the preview")
    if not execution.planned:
        basis = refuse_stale(report)
        if plan_preview(report, basis).fingerprint != preview.fingerprint:
            raise Refused("PREVIEW_STALE")
        _settle(execution, basis)
    else:
        _refuse_moved(execution)
    steps = steps_in(preview)
    finished = {row.ordinal for row in rows if row.status == _SUCCEEDED}
    observed = last_seen(environment=execution.environment).tables
    return Todo(steps, steps_left(steps, finished=finished, observed=observed))


def _place(row: ExecutionOperation) -> tuple[object, ...]:
    """Return what a step is about, which says what it does to applied state."""
    keys = (str(row.dataset_key), str(row.table_key))
    return (row.ordinal, row.operation, row.op, *keys, row.qualified_name, row.column_name)


def _settle(execution: Execution, basis: Basis) -> None:
    """Keep what the execution is about, for later attempts, the record and an undo."""
    rows = [operation.as_row() for operation in operations_of(execution.report)]
    keys = {row["dataset_key"] for row in rows}
    before, report = basis.before(), execution.report
    execution.planned = planned_of(
        rows=rows,
        basis=basis,
        through=report.through if report.undo_of_id is None else mark_before(report),
        scope=execution.report.scope,
        before={key: before.get(key) for key in keys},
    )
    sign_execution(execution)


def planned_of(*, rows: list[dict], basis: Basis, through: int, scope: dict, before: dict, **more: object) -> dict:
    """Return what an execution keeps of its plan: operations, and the states of their datasets before and as desired.

    ``marks`` are those of the datasets before, ``through`` the one that they get when nothing is left to do.
    """
    keys = {row["dataset_key"] for row in rows}
    desired = {state.key: as_row(flat(state)) for state in basis.desired if state.key in keys}
    kept = {"before": before, "marks": carried_out(basis.environment, keys), "through": through}
    return {"rows": rows, "desired": desired, "scope": scope, **kept, **more}


def _refuse_moved(execution: Execution) -> None:
    """Metadata and policy must still be those of the report; the tables are looked at step by step."""
    report = execution.report
    if policy_in_force(report.environment).as_json() != report.content["policy"]:
        raise Refused("POLICY_MOVED")
    made = basis_of(report, begun=True).report()
    if what_moved(report.content, made.content) == "REPORT_STALE":
        raise Refused("REPORT_STALE")
