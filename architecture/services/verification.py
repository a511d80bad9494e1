"""Before the first statement of an attempt everything is checked once more, for the whole scope.

The first attempt makes report and preview again and compares fingerprints. A later one cannot: what
was done already is part of what is there. It checks that metadata, policy and approvals still
stand, and that every table is where its finished steps left it.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from architecture.authors import carried_out
from architecture.domain.states.flat import as_row, flat
from architecture.domain.steps.resume import steps_left
from architecture.domain.steps.step import Step
from architecture.domain.workflow import Refused
from architecture.models import ChangeReport, Execution, ExecutionOperation
from architecture.services.basis import Basis
from architecture.services.executions import refuse_unapproved
from architecture.services.observing import last_seen
from architecture.services.policies import policy_of
from architecture.services.previews import plan_preview, steps_in
from architecture.services.reports import basis_of, operations_of, refuse_stale, tables_of, what_moved
from architecture.services.undo import described_before

_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED


@dataclass(frozen=True)
class Todo:
    """All steps of an execution, and the ordinals of those that are still to be run."""

    steps: tuple[Step, ...]
    left: tuple[int, ...]


def tables_of_execution(execution: Execution) -> frozenset[str]:
    """Stable keys of the tables that have to be looked at before anything is run."""
    known = tables_of(execution.report, begun=bool(execution.planned))
    return known | {step.table.key for step in steps_in(execution.preview)}


@transaction.atomic
def verify(execution: Execution) -> Todo:
    """What is left to do. Refused or StepProblem, with nothing run, if anything is not as it was agreed to."""
    report, preview = execution.report, execution.preview
    refuse_unapproved(report, execution.requested_by)
    if not execution.planned:
        basis = refuse_stale(report)
        if plan_preview(report, basis).fingerprint != preview.fingerprint:
            raise Refused("PREVIEW_STALE")
        _settle(execution, basis)
    else:
        _refuse_moved(execution)
    steps = steps_in(preview)
    finished = set(execution.operations.filter(status=_SUCCEEDED).values_list("ordinal", flat=True))
    observed = last_seen(environment=execution.environment).tables
    return Todo(steps, steps_left(steps, finished=finished, observed=observed))


def _settle(execution: Execution, basis: Basis) -> None:
    """Keep what the execution is about, for later attempts, the record and an undo."""
    rows = [operation.as_row() for operation in operations_of(execution.report)]
    keys = {row["dataset_key"] for row in rows}
    before = basis.before()
    execution.planned = planned_of(
        rows=rows,
        basis=basis,
        described_at=_described_at(execution.report).isoformat(),
        scope=execution.report.scope,
        before={key: before.get(key) for key in keys},
    )
    Execution.objects.filter(pk=execution.pk).update(planned=execution.planned)


def _described_at(report: ChangeReport) -> datetime:
    """After an undo, what it took back waits to be carried out again, and those who edited it have a hand in that."""
    return report.created_at if report.undo_of_id is None else described_before(report)


def planned_of(*, rows: list[dict], basis: Basis, described_at: str, scope: dict, before: dict, **more: object) -> dict:
    """What an execution keeps of its plan: operations, and the states of their datasets before and as desired.

    ``since`` is when what was carried out of each before had been described, ``described_at`` the same of now.
    """
    keys = {row["dataset_key"] for row in rows}
    desired = {state.key: as_row(flat(state)) for state in basis.desired if state.key in keys}
    known = carried_out(basis.environment, keys)
    since = {key: at.isoformat() if at is not None else None for key, at in known.items()}
    kept = {"before": before, "since": since, "described_at": described_at}
    return {"rows": rows, "desired": desired, "scope": scope, **kept, **more}


def _refuse_moved(execution: Execution) -> None:
    """Metadata and policy must still be those of the report; the tables are looked at step by step."""
    report = execution.report
    if policy_of(report.environment).as_json() != report.content["policy"]:
        raise Refused("POLICY_MOVED")
    made = basis_of(report, begun=True).report()
    if what_moved(report.content, made.content) == "REPORT_STALE":
        raise Refused("REPORT_STALE")
