"""Previews, dry runs and results of dry runs.

The fingerprint of a preview is over the report's fingerprint, the environment, the steps with their statements and
assumed structure, and the statements of datasets that are views. Sizes and Delta versions are not part of it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from architecture.domain import workflow
from architecture.domain.operations import Operation
from architecture.domain.report import Scope
from architecture.domain.steps import report_steps
from architecture.domain.steps import step as steps_of
from architecture.domain.steps.statements import statement_text
from architecture.domain.steps.step import Step
from architecture.domain.views import changed_views
from architecture.domain.workflow import Refused
from architecture.models import ChangeReport, DryRun, Environment, Execution, ExecutionOperation, Preview
from architecture.permissions import must_be_permitted, place_of_report
from architecture.services.proof import refuse_unproven, sign_preview
from architecture.services.reports import (
    Basis,
    build_on_basis,
    decisions_on,
    operations_of,
    record_why_of,
    refuse_stale,
)
from architecture.services.states import Seen
from architecture.services.undo import undo_steps
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import ProductError
from elevata.jobs import states
from elevata.jobs.services import Attempt, Submitted
from metadata.domain.sensitivity import MASK
from metadata.models import TargetDataset
from metadata.selectors.classification import classifications

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
def make_preview(*, report: ChangeReport, user: Any, seen: Seen | None = None) -> Preview:
    """Create the preview of a report that can still be executed, or return the existing one with the same statements.

    Raises Refused if the report is closed, outdated or executing; StepProblem if a step has no statement.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(report))
    preview = _make_preview(report, user, lambda row: refuse_stale(row, seen))
    record_why_of(report, "previewed")
    return preview


def _make_preview(report: ChangeReport, user: Any, basis_for: Callable[[ChangeReport], Basis]) -> Preview:
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    workflow.refuse_closed(row.status)
    refuse_unproven(row)
    execution = row.executions.exclude(status=states.ABANDONED).first()
    if execution is not None:
        raise Refused("ALREADY_EXECUTED" if execution.status == states.SUCCEEDED else "ALREADY_RUNNING")
    basis = basis_for(row)
    planned = plan_preview(row, basis)
    touched = sorted({step.table.key for step in planned.steps})
    sizes = {key: basis.seen.sizes[key] for key in touched if key in basis.seen.sizes}
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
    if report.status in (workflow.OPEN, workflow.APPROVED) and not report.executions.exists():
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
    needs_approval = report.status == workflow.OPEN and basis.policy.approvals[report.risk].count
    if is_own and needs_approval and preview.document["steps"] and not preview.dry_runs.exists():
        _queue_dry_run(preview, user).wake_after_commit()


def plan_preview(report: ChangeReport, basis: Basis) -> Planned:
    """Return the preview of a report for the current state."""
    if report.undo_of_id is not None:
        steps = undo_steps(report, basis)
    else:
        lost = workflow.accepts_lost_readers(decisions_on(report), report.fingerprint)
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
    return _plain(report_steps.as_row(step))


def steps_in(preview: Preview) -> tuple[Step, ...]:
    """Return the steps of a preview, in order."""
    rows = ({key: value for key, value in row.items() if key != "statement"} for row in preview.document["steps"])
    return tuple(report_steps.of_row(row) for row in rows)


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


# Dry runs: a preview's steps on shallow clones, with a comparison before and after. The loader executes them.


class RequestedDryRun(Submitted[DryRun]):
    """Result of requesting a dry run: a queued one, or the one that is active already."""

    @property
    def dry_run(self) -> DryRun:
        return self.job


def request_dry_run(*, preview: Preview, user: Any) -> RequestedDryRun:
    """Request a dry run, or return the one that is queued or running."""
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(preview.report))
    workflow.refuse_closed(preview.report.status)
    requested = _queue_dry_run(preview, user)
    if requested.requested:
        record_why_of(preview.report, "dry_run")
    return requested


def _queue_dry_run(preview: Preview, user: Any) -> RequestedDryRun:
    exclusive = f"dry run of preview {preview.pk}"
    try:
        with transaction.atomic():
            dry_run = DryRun.objects.create(
                preview=preview,
                requested_by=user,
                exclusive=exclusive,
                environment_name=preview.report.environment.name,
            )
    except IntegrityError:
        return RequestedDryRun(DryRun.objects.get(exclusive=exclusive), requested=False)
    return RequestedDryRun(dry_run)


@transaction.atomic
def end_dry_run(*, attempt: Attempt, result: dict | None = None, error: dict | None = None) -> bool:
    """Store the result or error of a dry run. Return False if the attempt is not the current one."""
    ended = attempt.end(wanted=states.FAILED if error else states.SUCCEEDED, error=error)
    if ended is not None:
        DryRun.objects.filter(pk=attempt.job_pk).update(result=result)
    return ended is not None


# Result of a dry run for its page: each table before and after, broken queries, errors.


SAMPLES_SHOWN = 5


@dataclass(frozen=True)
class ColumnPair:
    """Column before and after (``name type``); None if it does not exist."""

    before: str | None
    after: str | None

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Side:
    """Table before or after: its name, size and a sample of rows."""

    name: str
    rows: int | None
    size: int | None
    columns: tuple[str, ...]
    samples: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class TablePair:
    """Table before and after; None if it does not exist."""

    key: str
    before: Side | None
    after: Side | None
    columns: tuple[ColumnPair, ...]

    @property
    def name(self) -> str:
        side = self.after or self.before
        return side.name if side is not None else ""

    @property
    def sides(self) -> tuple[tuple[Side | None, str], ...]:
        return ((self.before, "before"), (self.after, "after"))

    @property
    def differing(self) -> tuple[ColumnPair, ...]:
        return tuple(pair for pair in self.columns if pair.differs)

    @property
    def lost_rows(self) -> bool:
        """Return True if the number of rows differs, which no operation explains."""
        return self.before is not None and self.after is not None and self.before.rows != self.after.rows


@dataclass(frozen=True)
class DryRunResult:
    """Result of a dry run. ``broken`` are (name, Spark's message) of queries that the report breaks."""

    succeeded: bool
    error: dict[str, Any] | None
    steps: int
    tables: tuple[TablePair, ...]
    broken: tuple[tuple[str, str], ...]
    queries: int


def readable_result(dry_run: DryRun, user: Any) -> dict[str, Any] | None:
    """Return the result of a dry run, without rows if the user may not read the data.

    Rows of a table with a column that was classified since are left out for all users.
    """
    result = dry_run.result
    if result is None:
        return None
    may_read = may(user, Permission.READ_DATA, on=place_of_report(dry_run.preview.report))
    tables = result.get("tables", {})
    withheld = _classified_since(tables) if may_read else set(tables)
    if may_read and not withheld:
        return result
    tables = {
        key: {name: side and ({**side, "samples": []} if key in withheld else side) for name, side in sides.items()}
        for key, sides in tables.items()
    }
    error = result.get("error")
    return {**result, "tables": tables, "error": error and {**error, "samples": []}}


def _classified_since(tables: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the keys of tables whose samples contain unmasked values of columns that are sensitive now."""
    sides = [(key, side) for key, both in tables.items() for side in both.values() if side]
    keys = {side["name"]: key for key, side in sides}
    rows = TargetDataset.objects.filter(name__in={name.rpartition(".")[2] for name in keys}).select_related("schema")
    bases = {keys[str(row)]: row.history_of_id or row.pk for row in rows if str(row) in keys}
    by_dataset = classifications(set(bases.values()))
    return {key for key, side in sides if key in bases and _unmasked(side) & by_dataset[bases[key]].sensitive_names}


def _unmasked(side: Mapping[str, Any]) -> set[str]:
    names = [column["name"].lower() for column in side["columns"]]
    return {name for row in side.get("samples", ()) for name, value in zip(names, row, strict=False) if value != MASK}


def dry_run_result(dry_run: DryRun | None, user: Any) -> DryRunResult | None:
    """Return the part of a dry run's result that the user may read; None while there is none."""
    if dry_run is None or dry_run.status != states.SUCCEEDED or dry_run.result is None:
        return None
    result = readable_result(dry_run, user) or {}
    queries = result.get("queries", [])
    return DryRunResult(
        succeeded=bool(result.get("succeeded")),
        error=result.get("error"),
        steps=len(result.get("steps", [])),
        tables=tuple(_pair(key, sides) for key, sides in result.get("tables", {}).items()),
        broken=tuple((query["name"], query["after"]) for query in queries if query["breaks"]),
        queries=len(queries),
    )


def _pair(key: str, sides: Mapping[str, Any]) -> TablePair:
    before, after = sides.get("before"), sides.get("after")
    return TablePair(key, _side(before), _side(after), _columns(before, after))


def _side(side: Mapping[str, Any] | None) -> Side | None:
    if side is None:
        return None
    names = tuple(column["name"] for column in side["columns"])
    samples = tuple(tuple(row) for row in side.get("samples", [])[:SAMPLES_SHOWN])
    return Side(side["name"], side.get("rows"), side.get("bytes"), names, samples)


def _columns(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[ColumnPair, ...]:
    """Return the columns matched by stable key, or without one by name; removed columns last."""
    was, now = _by_identity(before), _by_identity(after)
    kept = [ColumnPair(was.get(identity), text) for identity, text in now.items()]
    return (*kept, *(ColumnPair(text, None) for identity, text in was.items() if identity not in now))


def _by_identity(side: Mapping[str, Any] | None) -> dict[str, str]:
    columns = side["columns"] if side is not None else []
    return {column.get("key") or f"name:{column['name']}": f"{column['name']} {column['type']}" for column in columns}
