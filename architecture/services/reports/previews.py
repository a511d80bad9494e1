"""Previews: the exact statements of a report against the tables as they were seen, with a fingerprint of its own.

What is hashed is the report's fingerprint, the environment and the steps with their statements and
the structure that each assumes. Sizes and Delta versions are shown, not hashed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from architecture.domain.operations import Operation
from architecture.domain.reports import workflow
from architecture.domain.reports.workflow import Refused
from architecture.domain.steps import rows as step_rows
from architecture.domain.steps import step as steps_of
from architecture.domain.steps.rendering import statement_text
from architecture.domain.steps.step import Step
from architecture.models import ChangeReport, Execution, ExecutionOperation, Preview
from architecture.report_places import place_of_report
from architecture.services.actors import must_be_permitted
from architecture.services.executions.proof import refuse_unproven, sign_preview
from architecture.services.reports.report_inputs import Basis
from architecture.services.reports.reports import operations_of, record_why_of, refuse_stale
from architecture.services.reports.undo_reports import undo_steps
from architecture.services.states.observed_states import Seen
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states
from metadata.domain.roles import Permission

FORMAT = "execution-preview/v1"
# These write every row of their table anew; all others change its log only, or read it.
_REWRITING = frozenset({steps_of.REBUILD_TABLE, steps_of.RETYPE_COLUMN})
_READING = frozenset({steps_of.CHECK_NOT_NULL})


@dataclass(frozen=True)
class Planned:
    """A preview before it is stored."""

    document: dict[str, Any]
    fingerprint: str
    steps: tuple[Step, ...]


@transaction.atomic
def make_preview(*, report: ChangeReport, person: Any, seen: Seen | None = None) -> Preview:
    """Make the preview of a report that may still be executed. The same statements are the same preview.

    Refused where the report is closed, stale or under way; StepProblem where no statement does it.
    """
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_report(report))
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    workflow.refuse_closed(row.status)
    refuse_unproven(row)
    execution = row.executions.exclude(status=states.ABANDONED).first()
    if execution is not None:
        raise Refused("ALREADY_EXECUTED" if execution.status == states.SUCCEEDED else "ALREADY_RUNNING")
    basis = refuse_stale(row, seen)
    planned = plan_preview(row, basis)
    touched = sorted({step.table.key for step in planned.steps})
    sizes = {key: basis.seen.sizes[key] for key in touched if key in basis.seen.sizes}
    values = {
        "document": planned.document,
        "sizes": sizes,
        "estimate": estimate(planned.steps, sizes),
        "observed_at": basis.seen.at,
        "created_by": person,
        "signature": sign_preview(row, planned.fingerprint),
    }
    preview, _ = Preview.objects.update_or_create(report=row, fingerprint=planned.fingerprint, defaults=values)
    record_why_of(row, "previewed")
    return preview


def plan_preview(report: ChangeReport, basis: Basis) -> Planned:
    """Return the plan for a report as things are now."""
    steps = undo_steps(report, basis) if report.undo_of_id is not None else basis.steps(operations_of(report))
    warehouse = report.environment.warehouse
    document = {
        "format": FORMAT,
        "report": report.fingerprint,
        "environment": report.environment.name,
        "steps": [{**step_row(step), "statement": statement_text(step, warehouse)} for step in steps],
    }
    return Planned(document, sha256_hex(document), steps)


def step_row(step: Step) -> dict[str, Any]:
    """A step as canonical JSON takes it."""
    return _plain(step_rows.as_row(step))


def steps_in(preview: Preview) -> tuple[Step, ...]:
    """The steps of a preview, in order."""
    rows = ({key: value for key, value in row.items() if key != "statement"} for row in preview.document["steps"])
    return tuple(step_rows.of_row(row) for row in rows)


def newest_preview(report: ChangeReport) -> Preview | None:
    return report.previews.order_by("-made_at", "-pk").first()


def execution_rows(execution: Execution, preview: Preview, operations: Iterable[Operation]) -> list[ExecutionOperation]:
    """The rows of an execution: a row for each step, then one for each operation that takes no step."""
    rows = [
        operation_row(execution, ordinal, step, described["statement"])
        for ordinal, (step, described) in enumerate(zip(steps_in(preview), preview.document["steps"], strict=True))
    ]
    return rows + rows_without_step(execution, operations, rows)


def operation_row(execution: Execution, ordinal: int, step: Step, statement: str = "") -> ExecutionOperation:
    return ExecutionOperation(
        execution=execution,
        ordinal=ordinal,
        operation=step.operation,
        op=step.op,
        dataset_key=step.table.dataset_key,
        table_key=step.table.key,
        qualified_name=step.table.qualified_name,
        column_name=step.column.name if step.column else "",
        statement=statement,
    )


def rows_without_step(
    execution: Execution, operations: Iterable[Operation], rows: list[ExecutionOperation]
) -> list[ExecutionOperation]:
    """Operations that change no table (logic, retirement) have a row, too: applied state moves with it."""
    taken = {row.operation for row in rows}
    waiting = [(place, one) for place, one in enumerate(operations) if place not in taken]
    return [
        ExecutionOperation(
            execution=execution,
            ordinal=ordinal,
            operation=place,
            op=one.op,
            dataset_key=one.dataset_key,
            table_key=one.dataset_key,
            qualified_name=one.dataset,
            column_name=one.column,
        )
        for ordinal, (place, one) in enumerate(waiting, start=len(rows))
    ]


def estimate(steps: Iterable[Step], sizes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the tables that are rewritten or read whole, with their sizes where known."""
    found: dict[str, Any] = {"rewritten": {}, "read": {}}
    for step in steps:
        side = "rewritten" if step.op in _REWRITING else "read" if step.op in _READING else ""
        if side:
            found[side][step.table.qualified_name] = dict(sizes.get(step.table.key) or {})
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
