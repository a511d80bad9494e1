"""Change reports: their lists, a report by its id, and reports without an execution."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Subquery

from architecture.domain import decisions, report_states
from architecture.domain.refusals import Refused
from architecture.models import (
    Approval,
    ChangeReport,
    Environment,
    Execution,
)
from elevata.jobs import states as job_states
from metadata.domain.scope import Scope


def reports(*, environment: Environment | None = None) -> QuerySet[ChangeReport]:
    """Return change reports, newest first, without their long documents."""
    rows = ChangeReport.objects.select_related("environment", "created_by", "undo_of").defer("document", "content")
    rows = rows.prefetch_related(Prefetch("approvals", Approval.objects.order_by("pk")))
    return rows if environment is None else rows.filter(environment=environment)


def report_named(text: str) -> ChangeReport:
    """Return the report whose id or fingerprint starts with this text (at least 8 digits).

    Of several reports with one fingerprint, the newest is returned. Raises Refused UNKNOWN_REPORT, or AMBIGUOUS_REPORT
    if the text is the beginning of several ids or fingerprints.
    """
    rows = ChangeReport.objects.select_related("environment", "created_by", "undo_of").order_by("-pk")
    digits = text.strip().lower().replace("-", "")
    if len(digits) < 8 or not set(digits) <= set("0123456789abcdef"):
        raise Refused("UNKNOWN_REPORT", f"there is no report {text!r}")
    lowest, highest = (UUID(digits[:32].ljust(32, filler)) for filler in "0f")
    by_id = list(rows.filter(report_id__range=(lowest, highest))[:2]) if len(digits) <= 32 else []
    alike = rows.filter(fingerprint__startswith=digits)
    fingerprints = alike.order_by().values_list("fingerprint", flat=True).distinct()[:2]
    by_fingerprint = [alike.filter(fingerprint=fingerprint).first() for fingerprint in fingerprints]
    named = {report.pk: report for report in (*by_id, *by_fingerprint) if report is not None}
    if not named:
        raise Refused("UNKNOWN_REPORT", f"there is no report {text!r}")
    if len(named) > 1:
        raise Refused("AMBIGUOUS_REPORT", f"several reports begin with {text!r}")
    (report,) = named.values()
    return report


_UNFINISHED = (report_states.OPEN, report_states.APPROVED, report_states.BLOCKED, report_states.REJECTED)


def reports_in_play(person_pk: int) -> QuerySet[ChangeReport]:
    """Return the reports that may need an action of a user, newest first.

    These are the newest reports of their scopes that were neither executed nor closed, and the user's own reports
    that were superseded by another user's report not executed yet. One record may have several open undo reports.
    The annotation ``live`` is the state of the newest execution.
    """
    same_scope = ChangeReport.objects.filter(
        environment=OuterRef("environment"),
        scope_hash=OuterRef("scope_hash"),
        undo_of__isnull=True,
        pk__gt=OuterRef("pk"),
    )
    same_undo = ChangeReport.objects.filter(
        undo_of=OuterRef("undo_of"), scope_hash=OuterRef("scope_hash"), pk__gt=OuterRef("pk")
    )
    is_undo = Q(undo_of__isnull=False)
    newest = (~is_undo & ~Exists(same_scope)) | (is_undo & (Q(status=report_states.OPEN) | ~Exists(same_undo)))
    own = Q(created_by=person_pk, status=report_states.SUPERSEDED) & ~Exists(same_scope.filter(created_by=person_pk))
    successors = same_scope.filter(status__in=(report_states.OPEN, report_states.APPROVED), executions__isnull=True)
    executions_ = Execution.objects.filter(report=OuterRef("pk")).order_by("-pk")
    return (
        ChangeReport.objects.annotate(live=Subquery(executions_.values("status")[:1]))
        .filter((Q(status__in=_UNFINISHED) & newest) | (own & Exists(successors)))
        .filter(Q(live__isnull=True) | Q(live__in=job_states.RESTARTABLE))
        .order_by("-pk")
    )


def reports_to_execute() -> QuerySet[ChangeReport]:
    """Return the open and approved reports without an execution, except abandoned ones, without their long columns."""
    rows = ChangeReport.objects.filter(status__in=(report_states.OPEN, report_states.APPROVED))
    return rows.exclude(executions__status__in=_DECIDING).select_related("environment").defer("document", "content")


# States of executions after which a report cannot be executed again.
_DECIDING = sorted(job_states.STEPS.keys() - {job_states.ABANDONED})


@dataclass(frozen=True)
class ReportRow:
    """Report in a list."""

    report: ChangeReport
    scope: str
    operation_count: int
    approval_count: int
    execution: Execution | None


def report_rows(page: Any) -> list[ReportRow]:
    """Return the rows of one page of a list of reports."""
    reports = list(page)
    pks = [report.pk for report in reports]
    documents = dict(ChangeReport.objects.filter(pk__in=pks).values_list("pk", "document__operations"))
    newest = {execution.report_id: execution for execution in Execution.objects.filter(report__in=pks).order_by("pk")}
    return [
        ReportRow(
            report,
            scope_of(report),
            len(documents[report.pk] or ()),
            sum(approval.decision == decisions.YES for approval in report.approvals.all()),
            newest.get(report.pk),
        )
        for report in reports
    ]


def scope_of(report: ChangeReport) -> str:
    """Return a report's scope in words."""
    return str(Scope.from_json(report.scope))
