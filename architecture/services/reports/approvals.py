"""Deciding on a report: one person's recorded yes or no to one fingerprint."""

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from architecture.domain.policy import PolicySet
from architecture.domain.reports import workflow
from architecture.domain.reports.workflow import Refused
from architecture.models import Approval, ChangeReport
from architecture.report_places import place_of_report
from architecture.services.actors import must_be_permitted, role_names, who_answers
from architecture.services.executions.proof import refuse_unproven
from architecture.services.notifications import tell_decided
from architecture.services.policies.policies import policy_in_force, policy_of
from architecture.services.reports.reports import authors_of_report, decisions_on, record_why_of, refuse_stale
from elevata.jobs import states
from metadata.domain.roles import Permission
from metadata.services import chain


def approve(*, report: ChangeReport, person: Any, note: str = "") -> Approval:
    """Say yes. The report is approved once enough people did. Refused with a code of ``workflow.CODES``."""
    return _decide(report, person, workflow.YES, note)


def reject(*, report: ChangeReport, person: Any, note: str = "") -> Approval:
    """Say no, which ends the report. Authors may do so, too."""
    return _decide(report, person, workflow.NO, note)


def approvals_missing(report: ChangeReport) -> int:
    """Return the number of approvals the report still needs in its environment."""
    return _missing(report, policy_of(report.environment))


def _missing(report: ChangeReport, policy: PolicySet) -> int:
    return workflow.approvals_missing(
        decisions_on(report),
        fingerprint=report.fingerprint,
        need=policy.approvals[report.risk],
        authors=authors_of_report(report),
    )


@transaction.atomic
def _decide(report: ChangeReport, person: Any, decision: str, note: str) -> Approval:
    must_be_permitted(person, Permission.APPROVE_REPORTS, on=place_of_report(report))
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    refuse_unproven(row)
    policy = policy_in_force(row.environment)
    workflow.refuse_decision(
        status=row.status,
        person=who_answers(person),
        decision=decision,
        authors=authors_of_report(row),
        decided=decisions_on(row),
        needed=policy.approvals[row.risk].count,
    )
    if decision == workflow.YES:
        refuse_stale(row)
    try:
        with transaction.atomic():
            approval = _record(row, person, decision, note)
    except IntegrityError:  # the same person, in this very moment
        raise Refused("ALREADY_DECIDED") from None
    record_why_of(row, "rejected" if decision == workflow.NO else "approved")
    if decision == workflow.NO:
        _become(row, workflow.REJECTED)
        tell_decided(row, approval)
    elif not _missing(row, policy):
        _become(row, workflow.APPROVED)
        tell_decided(row, approval)
    report.refresh_from_db()
    return approval


def _record(row: ChangeReport, person: Any, decision: str, note: str) -> Approval:
    approval = Approval.objects.create(
        report=row,
        fingerprint=row.fingerprint,
        person=person,
        person_name=person.get_username(),
        roles=role_names(person, on=place_of_report(row)),
        decision=decision,
        note=note.strip(),
        at=timezone.now(),
    )
    chain.append(approval)
    return approval


def _become(row: ChangeReport, target: str) -> None:
    from_ = states.may_become(target, workflow.REPORT_STEPS)
    if not ChangeReport.objects.filter(pk=row.pk, status__in=from_).update(status=target):
        raise Refused("ALREADY_DECIDED")
