"""Details of reports for pages and the API beyond their rows: operations, approvals, steps by table."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from architecture.domain import operations as ops
from architecture.domain.operations import Operation
from architecture.domain.policy import RULES
from architecture.domain.reports import workflow
from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Need, Refused
from architecture.domain.steps.step import Step, TableShape
from architecture.models import Approval, ChangeReport, Environment, Execution, Preview
from architecture.report_places import place_of_report
from architecture.services.policies.policies import policy_of
from architecture.services.reports.previews import steps_in
from architecture.services.reports.reports import decisions_on, operations_of
from metadata.domain.roles import Permission
from metadata.models import SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.permissions import Where, may, may_somewhere

_FIXES = {rule.code: rule.fix for rule in RULES}
# Who has a part in the workflow may make reports; those who only read may not.
BUILDERS = (Permission.CHANGE_METADATA, Permission.APPROVE_REPORTS, Permission.EXECUTE_REPORTS)


def may_build(user: Any) -> bool:
    """Return whether the user may create reports: with permission to edit, approve or execute."""
    return any(may_somewhere(user, permission) for permission in BUILDERS)


# --- lists -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportRow:
    """A report in a list."""

    report: ChangeReport
    scope: str
    operation_count: int
    said_yes: int
    execution: Execution | None


def report_rows(page: Any) -> list[ReportRow]:
    """The reports of one page of a list, with how many operations each has and what became of it."""
    reports = list(page)
    pks = [report.pk for report in reports]
    documents = dict(ChangeReport.objects.filter(pk__in=pks).values_list("pk", "document__operations"))
    newest = {one.report_id: one for one in Execution.objects.filter(report__in=pks).order_by("pk")}
    return [
        ReportRow(
            report,
            scope_of(report),
            len(documents[report.pk] or ()),
            sum(one.decision == workflow.YES for one in report.approvals.all()),
            newest.get(report.pk),
        )
        for report in reports
    ]


def scope_of(report: ChangeReport) -> str:
    """A report's scope as people read it."""
    return Scope(**report.scope).describe()


def environments() -> QuerySet[Environment]:
    """Environments with how many reports each has."""
    return Environment.objects.annotate(report_count=Count("reports")).order_by("name")


# --- one report ------------------------------------------------------------------------------


@dataclass(frozen=True)
class OperationRow:
    """An operation as a page shows it. ``what`` is its change, ``fix`` what can be done instead."""

    number: int
    operation: Operation
    what: str
    message: str
    fix: str
    described: UUID | None

    @property
    def on_history(self) -> bool:
        return self.operation.side == ops.HISTORY


def operation_rows(report: ChangeReport, *, limit: int | None = None) -> list[OperationRow]:
    """A report's operations (the first ones) in its order. Datasets that metadata still describes can be linked to."""
    operations = operations_of(report)[:limit]
    keys = {operation.dataset_key for operation in operations}
    described = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    return [_operation_row(number, operation, described) for number, operation in enumerate(operations, start=1)]


def _operation_row(number: int, operation: Operation, described: set[UUID]) -> OperationRow:
    fix = _FIXES.get(operation.code, "") if operation.decision in (ops.BLOCKED, ops.NEEDS_APPROVAL) else ""
    message = operation.message.removesuffix(f"; {fix}") if fix else operation.message
    key = UUID(operation.dataset_key)
    return OperationRow(number, operation, what_changes(operation), message, fix, key if key in described else None)


def what_changes(operation: Operation) -> str:
    """``full_name → display_name``, ``elevation: integer → bigint``, ``lid``; empty for a whole table."""
    if operation.columns and not operation.column:
        return ", ".join(f"{before} → {after}" for _, before, after in operation.columns)
    if operation.from_ and operation.to:
        subject = f"{operation.column}: " if operation.column and operation.op != ops.RENAME_COLUMN else ""
        return f"{subject}{operation.from_} → {operation.to}"
    return operation.column


@dataclass(frozen=True)
class Standing:
    """State of a report for one user. ``authors`` cannot approve it; ``need`` is the environment's.

    ``cannot_decide`` and ``cannot_execute`` are why this person cannot, None where they can.
    """

    need: Need
    approvals: tuple[Approval, ...]
    missing: int
    authors: tuple[str, ...]
    approver_may_execute: bool
    cannot_approve: Refused | Mapping[str, Any] | None
    cannot_reject: Refused | None
    cannot_execute: Refused | Mapping[str, Any] | None

    @property
    def may_say_something(self) -> bool:
        """True if the user may still approve or reject it."""
        return not (self.cannot_approve and self.cannot_reject)


def standing(report: ChangeReport, user: Any, authors: frozenset[str]) -> Standing:
    """Return the state of a report for this user. ``authors`` changed what it brings to the warehouse."""
    policy = policy_of(report.environment)
    need = policy.approvals[report.risk]
    approvals, decided = tuple(report.approvals.order_by("pk")), decisions_on(report)
    # Pages are shown to people, who answer for themselves.
    name, place = user.get_username(), place_of_report(report)

    def decide(decision: str) -> None:
        workflow.refuse_decision(
            status=report.status,
            person=name,
            decision=decision,
            authors=authors,
            decided=decided,
            needed=need.count,
        )

    def execute() -> None:
        workflow.refuse_execution(
            status=report.status,
            decisions=decided,
            fingerprint=report.fingerprint,
            need=need,
            authors=authors,
            person=name,
            approver_may_execute=policy.approver_may_execute,
        )

    deciding = (user, Permission.APPROVE_REPORTS, place, "your account may read reports, but not decide on them")
    said = "your account may read reports, but not preview or execute them"
    executing = (user, Permission.EXECUTE_REPORTS, place, said)
    return Standing(
        need=need,
        approvals=approvals,
        missing=workflow.approvals_missing(decided, fingerprint=report.fingerprint, need=need, authors=authors),
        authors=tuple(sorted(authors)),
        approver_may_execute=policy.approver_may_execute,
        cannot_approve=_why_not(lambda: decide(workflow.YES), *deciding),
        cannot_reject=_why_not(lambda: decide(workflow.NO), *deciding),
        cannot_execute=_why_not(execute, *executing),
    )


def _why_not(asking: Callable[[], None], user: Any, permission: Permission, place: Where, said: str) -> Refused | None:
    """Return why the workflow refuses the user, or that the permission is missing; None if it is allowed."""
    try:
        asking()
    except Refused as refused:
        return refused
    return None if may(user, permission, place) else Refused("NOT_PERMITTED", said)


def against(standing: Standing, refusal: Mapping[str, Any]) -> Standing:
    """Return the state of an outdated report: it can only be rejected."""
    if not refusal:
        return standing
    return replace(
        standing,
        cannot_approve=standing.cannot_approve or refusal,
        cannot_execute=standing.cannot_execute or refusal,
    )


def names_of(keys: Collection[str]) -> dict[str, str]:
    """Return the present names of datasets and columns with these stable keys; undescribed keys are left out."""
    found: dict[str, str] = {}
    for model, parts in _NAMED.items():
        for key, *names in model.objects.filter(key__among=keys).values_list("key", *parts):
            found[str(key)] = ".".join(names)
    return found


_NAMED: dict[Any, tuple[str, ...]] = {
    TargetDataset: ("schema__name", "name"),
    SourceDataset: ("system__short_name", "name"),
    TargetColumn: ("dataset__schema__name", "dataset__name", "name"),
    SourceColumn: ("dataset__system__short_name", "dataset__name", "name"),
}


# --- a preview -------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepRow:
    """A step of a preview with its statements as one text."""

    number: int
    step: Step
    statement: str


@dataclass
class TableSteps:
    """The steps on one table, the structure that the first assumes, and how big the table is."""

    key: str
    name: str
    assumes: TableShape | None
    size: Mapping[str, int]
    rewritten: bool
    read: bool
    steps: list[StepRow] = field(default_factory=list)


def steps_by_table(preview: Preview) -> list[TableSteps]:
    """A preview's steps, table by table in the order in which each is first touched."""
    estimate = preview.estimate or {}
    found: dict[str, TableSteps] = {}
    rows = zip(steps_in(preview), preview.document["steps"], strict=True)
    for number, (step, row) in enumerate(rows, start=1):
        table, name = step.table, step.table.qualified_name
        if table.key not in found:
            found[table.key] = TableSteps(
                table.key,
                step.assumes.qualified_name if step.assumes else name,
                step.assumes,
                preview.sizes.get(table.key) or {},
                rewritten=False,
                read=False,
            )
        known = found[table.key]
        known.rewritten = known.rewritten or name in estimate.get("rewritten", {})
        known.read = known.read or name in estimate.get("read", {})
        known.steps.append(StepRow(number, step, row["statement"]))
    return list(found.values())


@dataclass(frozen=True)
class Touched:
    """Total size of the tables that a preview changes; None where a table's size is not known."""

    tables: int
    steps: int
    rows: int | None
    size: int | None
    rewritten_rows: int | None
    rewritten_size: int | None
    rewritten_tables: int


def touched(preview: Preview, tables: list[TableSteps]) -> Touched:
    """Return the size of the tables that steps change, and of those that are rewritten."""
    rewritten = [table for table in tables if table.rewritten]
    return Touched(
        tables=len(tables),
        steps=len(preview.document["steps"]),
        rows=_sum(tables, "rows"),
        size=_sum(tables, "bytes"),
        rewritten_rows=_sum(rewritten, "rows"),
        rewritten_size=_sum(rewritten, "bytes"),
        rewritten_tables=len(rewritten),
    )


def _sum(tables: list[TableSteps], what: str) -> int | None:
    """Tables that are only made now hold nothing."""
    sizes = [0 if table.assumes is None else table.size.get(what) for table in tables]
    return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
