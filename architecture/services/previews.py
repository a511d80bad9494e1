"""Previews of reports.

The fingerprint of a preview is over the report's fingerprint, the environment, the steps with their statements and
assumed structure, and the statements of datasets that are views. Sizes and Delta versions are not part of it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction

from architecture.domain import decisions, report_states
from architecture.domain.operations import Operation
from architecture.domain.refusals import Refused
from architecture.domain.steps import step as steps_of
from architecture.domain.steps import step_json
from architecture.domain.steps.statements import statement_text
from architecture.domain.steps.step import Step
from architecture.domain.views import changed_views
from architecture.models import ChangeReport, Environment, Execution, ExecutionOperation, Preview
from architecture.permissions import must_be_permitted, place_of_report
from architecture.services.dry_runs import queue_dry_run
from architecture.services.observations import Observations
from architecture.services.report_basis import Basis
from architecture.services.reports import build_on_basis, decisions_on, operations_of, record_why_of, refuse_stale
from architecture.services.row_signatures import refuse_unproven, sign_preview
from architecture.services.undo_options import undo_steps
from elevata.accounts.roles import Permission
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import ProductError
from elevata.jobs import states
from metadata.domain.scope import Scope

log = logging.getLogger(__name__)

FORMAT = "execution-preview/v1"
_READING = frozenset({steps_of.CHECK_NOT_NULL})


@dataclass(frozen=True)
class Planned:
    """Planned preview, before it is stored."""

    document: dict[str, Any]
    fingerprint: str
    steps: tuple[Step, ...]


@transaction.atomic
def make_preview(*, report: ChangeReport, user: Any, observations: Observations | None = None) -> Preview:
    """Create the preview of a report that can still be executed, or return the existing one with the same statements.

    Raises Refused if the report is closed, outdated or executing; StepProblem if a step has no statement.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(report))
    preview = _make_preview(report, user, lambda row: refuse_stale(row, observations))
    record_why_of(report, "previewed")
    return preview


def _make_preview(report: ChangeReport, user: Any, basis_for: Callable[[ChangeReport], Basis]) -> Preview:
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    report_states.refuse_closed(row.status)
    refuse_unproven(row)
    execution = row.executions.exclude(status=states.ABANDONED).first()
    if execution is not None:
        raise Refused("ALREADY_EXECUTED" if execution.status == states.SUCCEEDED else "ALREADY_RUNNING")
    basis = basis_for(row)
    planned = plan_preview(row, basis)
    touched = sorted({step.table.key for step in planned.steps})
    sizes = {key: basis.observations.sizes[key] for key in touched if key in basis.observations.sizes}
    values = {
        "document": planned.document,
        "sizes": sizes,
        "estimate": estimate(planned.steps, sizes),
        "observed_at": basis.observed_at(),
        "created_by": user,
        "signature": sign_preview(row, planned.fingerprint),
    }
    return Preview.objects.update_or_create(report=row, fingerprint=planned.fingerprint, defaults=values)[0]


@transaction.atomic
def build_previewed_report(*, environment: Environment, scope: Scope | None = None, user: Any = None) -> ChangeReport:
    """Create the report of a scope with its preview, so that approvers see the statements before they decide.

    A report that waits for approvals is dry run, too. The user needs no permission to execute.
    """
    _, report, basis = build_on_basis(environment, scope or Scope(), user)
    if report.status in (report_states.OPEN, report_states.APPROVED) and not report.executions.exists():
        preview_new_report(report, basis, user)
    return report


def preview_new_report(report: ChangeReport, basis: Basis, user: Any) -> None:
    """Create the preview of a new report, and queue a dry run of it if the report needs approvals.

    A report whose steps have no statement gets none: a requested preview says why.
    """
    try:
        with transaction.atomic():
            preview = _make_preview(report, user, lambda _: basis)
    except ProductError as problem:
        log.warning("%s has no preview: %s", report, problem.one_line())
        return
    is_own = report.environment.name == settings.ENVIRONMENT
    needs_approval = report.status == report_states.OPEN and basis.policy.approvals[report.risk].count
    if is_own and needs_approval and preview.document["steps"] and not preview.dry_runs.exists():
        queue_dry_run(preview, user).wake_after_commit()


def plan_preview(report: ChangeReport, basis: Basis) -> Planned:
    """Return the preview of a report for the current state."""
    if report.undo_of_id is not None:
        steps = undo_steps(report, basis)
    else:
        lost = decisions.accepts_lost_readers(decisions_on(report), report.fingerprint)
        steps = basis.steps(operations_of(report), readers_lost=lost)
    warehouse = report.environment.warehouse
    document = {
        "format": FORMAT,
        "report": report.fingerprint,
        "environment": report.environment.name,
        "steps": [{**step_row(step), "statement": statement_text(step, warehouse)} for step in steps],
    }
    if views := _views(report, basis):
        document["views"] = views
    return Planned(document, sha256_hex(document), steps)


def _views(report: ChangeReport, basis: Basis) -> list[dict[str, Any]]:
    """Return the datasets that are views and that the report creates or changes, with their statements."""
    keys = {operation.dataset_key for operation in operations_of(report)}
    before = {state.key: state for state in basis.applied}
    after = before | {state.key: state for state in basis.desired if state.key in keys}
    statements = changed_views(before.values(), after.values())
    return [
        {"key": key, "name": after[key].qualified_name, "statement": text, "new": key not in before}
        for key, text in statements.items()
    ]


def step_row(step: Step) -> dict[str, Any]:
    """Return a step as values for canonical JSON."""
    return _plain(step_json.as_row(step))


def steps_in(preview: Preview) -> tuple[Step, ...]:
    """Return the steps of a preview, in order."""
    rows = ({key: value for key, value in row.items() if key != "statement"} for row in preview.document["steps"])
    return tuple(step_json.of_row(row) for row in rows)


def newest_preview(report: ChangeReport) -> Preview | None:
    return report.previews.order_by("-made_at", "-pk").first()


def execution_rows(execution: Execution, preview: Preview, operations: Iterable[Operation]) -> list[ExecutionOperation]:
    """Return the rows of an execution: one for each step, then one for each operation without a step."""
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
    """Return the rows of operations without a step of their own; they only advance applied state.

    They change no table (logic, retirement), or an earlier operation's step changes it for them too.
    """
    taken = {row.operation for row in rows}
    waiting = [(place, operation) for place, operation in enumerate(operations) if place not in taken]
    return [
        ExecutionOperation(
            execution=execution,
            ordinal=ordinal,
            operation=place,
            op=operation.op,
            dataset_key=operation.dataset_key,
            table_key=operation.dataset_key,
            qualified_name=operation.dataset,
            column_name=operation.column,
        )
        for ordinal, (place, operation) in enumerate(waiting, start=len(rows))
    ]


def estimate(steps: Iterable[Step], sizes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the tables that are rewritten or read completely, with their sizes if known."""
    sizes_by_side: dict[str, Any] = {"rewritten": {}, "read": {}}
    for step in steps:
        side = "rewritten" if step.overwrites or step.narrows else "read" if step.op in _READING else ""
        if side:
            sizes_by_side[side][step.table.qualified_name] = dict(sizes.get(step.table.key) or {})
    return sizes_by_side


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
