"""Approvals, rejections and withdrawals of change reports."""

from collections.abc import Collection
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from architecture.domain import decisions, report_states
from architecture.domain.change_policy import PolicySet
from architecture.domain.data_contracts import BREAKS_CONTRACT, contract_document, contracts_text
from architecture.domain.operations import Operation
from architecture.domain.policy_rules import REWRITE_TABLE
from architecture.domain.refusals import Refused
from architecture.models import Approval, ChangeReport
from architecture.permissions import (
    must_be_permitted,
    on_behalf_of,
    place_of_report,
    role_names,
    who_answers,
)
from architecture.services.change_policy import policy_in_force, policy_of
from architecture.services.notifications import settle, settle_report, tell_decided
from architecture.services.reports import authors_of_report, decisions_on, operations_of, record_decision, refuse_stale
from architecture.services.row_signatures import refuse_unproven
from elevata.accounts.permissions import may, must_write
from elevata.accounts.roles import Permission
from elevata.audit.services import chain
from elevata.jobs import states


def approve(
    *, report: ChangeReport, user: Any, note: str = "", readers_lost: bool = False, contracts_broken: bool = False
) -> Approval:
    """Record the user's approval; the report is approved once it has enough. Raise Refused (``refusals.CODES``).

    ``readers_lost``: the user accepts that tables lose readers instead of being rewritten. This has an effect if every
    approver accepts it, and makes earlier previews outdated. ``contracts_broken``: the user accepts that contracts are
    broken; without it, a report that breaks one cannot be approved. The approval names them with their consumers.
    """
    if readers_lost and not rewrites_tables(report):
        raise Refused("NO_READER_LOST")
    broken = broken_contracts(report)
    if broken and not contracts_broken:
        raise Refused("CONTRACT_BROKEN", f"the report breaks {contracts_text(broken)}")
    if contracts_broken and not broken:
        raise Refused("NO_CONTRACT_BROKEN")
    named = [contract_document(operation) for operation in broken]
    return _decide(report, user, decisions.YES, note, readers_lost=readers_lost, contracts_broken=named)


def rewrites_tables(report: ChangeReport) -> bool:
    """Return True if the report has operations that rewrite a table to keep its readers."""
    return any(row.get("code") == REWRITE_TABLE for row in report.document["rows"])


def broken_contracts(report: ChangeReport) -> tuple[Operation, ...]:
    """Return the operations of a report that break a contract."""
    return tuple(operation for operation in operations_of(report) if operation.code == BREAKS_CONTRACT)


def reject(*, report: ChangeReport, user: Any, note: str = "") -> Approval:
    """Reject the report, which closes it. Authors may reject it, too."""
    return _decide(report, user, decisions.NO, note)


def may_withdraw(report: ChangeReport, user: Any, authors: Collection[str]) -> bool:
    """Return True if the user is an author of the report's changes, created it, or may approve it."""
    own = who_answers(user) in authors or report.created_by_id == user.pk
    return own or may(user, Permission.APPROVE_REPORTS, place_of_report(report))


@transaction.atomic
def withdraw_report(*, report: ChangeReport, user: Any, reason: str) -> ChangeReport:
    """Withdraw a blocked report, which closes it. Raise Refused unless the user is an author or may approve it."""
    if user is None or not user.is_authenticated or not user.is_active:
        raise Refused("NO_PERSON")
    must_write()
    if not reason.strip():
        raise Refused("NO_REASON")
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    if row.status != report_states.BLOCKED:
        report_states.refuse_closed(row.status)
        raise Refused("NOT_WITHDRAWABLE")
    if not may_withdraw(row, user, authors_of_report(row)):
        message = f"{user.get_username()} is no author of the report and may not approve it"
        raise Refused("NOT_PERMITTED", message, "ask an author or an approver to withdraw it")
    _set_status(row, report_states.WITHDRAWN)
    settle_report(row)
    with on_behalf_of(user):
        record_decision(row, "withdrawn", reason.strip())
    report.refresh_from_db()
    return report


def approvals_missing(report: ChangeReport) -> int:
    """Return the number of approvals that the report still needs by its environment's change policy."""
    return _missing(report, policy_of(report.environment))


def _missing(report: ChangeReport, policy: PolicySet) -> int:
    return decisions.approvals_missing(
        decisions_on(report),
        fingerprint=report.fingerprint,
        need=policy.approvals[report.risk],
        authors=authors_of_report(report),
    )


@transaction.atomic
def _decide(report: ChangeReport, user: Any, decision: str, note: str, **accepted: Any) -> Approval:
    must_be_permitted(user, Permission.APPROVE_REPORTS, on=place_of_report(report))
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    refuse_unproven(row)
    policy = policy_in_force(row.environment)
    decisions.refuse_decision(
        status=row.status,
        user=who_answers(user),
        decision=decision,
        authors=authors_of_report(row),
        decided=decisions_on(row),
        needed=policy.approvals[row.risk].count,
    )
    if decision == decisions.YES:
        refuse_stale(row)
    try:
        with transaction.atomic():
            approval = _record(row, user, decision, note, **accepted)
    except IntegrityError:  # concurrent decision of the same user
        raise Refused("ALREADY_DECIDED") from None
    with on_behalf_of(user):
        record_decision(row, "rejected" if decision == decisions.NO else "approved", note.strip())
    if decision == decisions.NO:
        _set_status(row, report_states.REJECTED)
        tell_decided(row, approval)
    elif not _missing(row, policy):
        _set_status(row, report_states.APPROVED)
        tell_decided(row, approval)
    else:
        settle(row, user=user)
    report.refresh_from_db()
    return approval


def _record(row: ChangeReport, user: Any, decision: str, note: str, **accepted: Any) -> Approval:
    approval = Approval.objects.create(
        report=row,
        fingerprint=row.fingerprint,
        person=user,
        person_name=user.get_username(),
        roles=role_names(user, on=place_of_report(row)),
        decision=decision,
        note=note.strip(),
        at=timezone.now(),
        **accepted,
    )
    chain.append(approval)
    return approval


def _set_status(row: ChangeReport, target: str) -> None:
    from_ = states.may_become(target, report_states.REPORT_STEPS)
    if not ChangeReport.objects.filter(pk=row.pk, status__in=from_).update(status=target):
        raise Refused("ALREADY_DECIDED")
