"""Notifications about reports, executions, drift and change policies, sent in the transaction of the change."""

from collections.abc import Collection, Iterable
from typing import Any

from django.urls import reverse

from architecture.domain import decisions
from architecture.domain.decisions import Need
from architecture.domain.states.dataset_drift import DatasetDrift
from architecture.models import Approval, ChangeReport, Environment, Execution, PolicyProposal
from elevata.accounts.access import holders
from elevata.accounts.permissions import roles_of
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.core.errors import MESSAGES_OF_SPARK
from elevata.jobs import states
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Event, Notice
from elevata.notifications.services import active_users, mark_settled, tell

_NAMED = 20
# Kinds of notices that ask for a decision, or for another report.
_ASKING = (Kind.REPORT_WAITING, Kind.REPORT_OUTDATED)


def tell_report_waiting(report: ChangeReport, need: Need) -> None:
    """Notify users whose approval would count that a report needs approvals."""
    place = Place(environment=report.environment.name)
    asked = [
        user
        for user in holders(Permission.APPROVE_REPORTS, place)
        if user.get_username() not in report.authors
        and (not need.role or {need.role, Role.ADMIN} & roles_of(user, place))
    ]
    by = f" by {', '.join(report.authors)}" if report.authors else ""
    message = f"The report of {report.title} in {report.environment}{by} waits for approval"
    _tell_of_report(Kind.REPORT_WAITING, report, message, asked)


def tell_outdated(report: ChangeReport, reason: str) -> None:
    """Notify a report's owners, and users who were asked to approve it, that it became outdated."""
    waiting = Event.objects.filter(kind=Kind.REPORT_WAITING, subject_kind="report", subject_key=str(report.report_id))
    asked = [notice.user for notice in Notice.objects.filter(event__in=waiting).select_related("user")]
    settle(report)
    message = f"The report of {report.title} in {report.environment} is outdated, create it again: {reason}"
    _tell_of_report(Kind.REPORT_OUTDATED, report, message, [*_whose(report), *asked])


def settle(report: ChangeReport, *, kinds: Collection[Kind] = _ASKING, user: Any = None) -> None:
    """Mark the notices that asked for a decision on a report, or those of ``kinds``, as read: all users', or one's."""
    mark_settled(subject_kind="report", subject_key=str(report.report_id), kinds=kinds, user=user)


def settle_report(report: ChangeReport) -> None:
    """Mark all notices about a report as read that was executed or replaced."""
    settle(report, kinds=(*_ASKING, Kind.REPORT_APPROVED, Kind.REPORT_REJECTED))


def settle_execution(execution: Execution) -> None:
    """Mark the notices about failures of an execution as read that succeeded or was abandoned."""
    mark_settled(subject_kind="execution", subject_key=str(execution.pk), kinds=(Kind.EXECUTION_FAILED,))


def tell_decided(report: ChangeReport, approval: Approval) -> None:
    """Notify a report's owners, except the deciding user, that it was approved or rejected."""
    settle(report)
    rejected = approval.decision == decisions.NO
    note = f": {approval.note}" if approval.note else ""
    verb = "rejected" if rejected else "approved"
    message = f"{approval.person_name} {verb} the report of {report.title} in {report.environment}{note}"
    people = [user for user in _whose(report) if user.pk != approval.person_id]
    kind = Kind.REPORT_REJECTED if rejected else Kind.REPORT_APPROVED
    _tell_of_report(kind, report, message, people, decided_by=approval.person_name)


def tell_execution_ended(execution: Execution) -> None:
    """Notify that a report's execution succeeded, failed or was lost. Those of load runs are notified with the run."""
    report = execution.report
    if report is None or execution.status not in (states.SUCCEEDED, states.FAILED, states.LOST):
        return
    succeeded = execution.status == states.SUCCEEDED
    error = {} if succeeded else execution.error or {}
    became = {states.SUCCEEDED: "was executed", states.FAILED: "failed", states.LOST: "lost its worker"}
    # Spark's messages can have values of rows.
    has_message = error.get("message") and error.get("code") not in MESSAGES_OF_SPARK
    message = f": {error['message']}" if has_message else ""
    if succeeded:
        settle_report(report)
        settle_execution(execution)
    title = f"The report of {report.title} in {report.environment} {became[execution.status]}"
    if not succeeded:
        title = f"The execution of {report.title} in {report.environment} {became[execution.status]}{message}"
    tell(
        event=Kind.REPORT_EXECUTED if succeeded else Kind.EXECUTION_FAILED,
        subject_kind="execution",
        subject_key=str(execution.pk),
        subject_name=str(execution),
        title=title,
        link=reverse("execution_page", args=[execution.pk]),
        users=[*_whose(report), execution.requested_by],
        environment=report.environment.name,
        facts={"report_id": str(report.report_id), "status": str(execution.status), "error": error.get("code", "")},
    )


def has_unread_drift(environment: Environment) -> bool:
    """Return True if a user has an unread notice about drift."""
    unread = Notice.objects.filter(event__kind=Kind.DRIFT_FOUND, read_at__isnull=True)
    return unread.filter(event__subject_key=environment.name).exists()


def settle_drift(environment: Environment) -> None:
    """Mark the notices about drift as read once no table has any."""
    mark_settled(subject_kind="environment", subject_key=environment.name, kinds=(Kind.DRIFT_FOUND,))


def tell_drift(environment: Environment, drifts: Collection[DatasetDrift]) -> None:
    """Notify operators of tables that have drifted since the last observation."""
    names = [drift.dataset for drift in drifts]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    tell(
        event=Kind.DRIFT_FOUND,
        subject_kind="environment",
        subject_key=environment.name,
        subject_name=environment.name,
        title=f"Drift in {environment}: {', '.join(names[:3])}{more}",
        link=reverse("drift_page"),
        users=holders(Permission.EXECUTE_REPORTS, Place(environment=environment.name)),
        environment=environment.name,
        facts={"datasets": names[:_NAMED], "count": len(names)},
    )


def tell_policy_proposed(proposal: PolicyProposal) -> None:
    """Notify the users who manage the environment's policies, except the proposer, of a looser proposal."""
    message = f"{proposal.proposed_by} proposed a looser policy for {proposal.environment}"
    _tell_of_policy(Kind.POLICY_PROPOSED, proposal, f"{message}: a second user accepts or rejects it", ())


def tell_policy_decided(proposal: PolicyProposal) -> None:
    """Notify the proposer and the other managers of policies, except the deciding user, of the decision."""
    mark_settled(subject_kind="policy", subject_key=proposal.environment.name, kinds=(Kind.POLICY_PROPOSED,))
    note = f": {proposal.note}" if proposal.note else ""
    by = proposal.proposed_by
    message = (
        f"{proposal.decided_by} {'withdrew' if proposal.status == 'withdrawn' else proposal.status} the looser policy"
    )
    title = f"{message} that {by} proposed for {proposal.environment}{note}"
    _tell_of_policy(Kind.POLICY_DECIDED, proposal, title, (by,))


def _tell_of_policy(kind: Kind, proposal: PolicyProposal, title: str, users: Iterable[Any]) -> None:
    name = proposal.environment.name
    acted = proposal.decided_by_id or proposal.proposed_by_id
    managers = holders(Permission.MANAGE_POLICIES, Place(environment=name))
    tell(
        event=kind,
        subject_kind="policy",
        subject_key=name,
        subject_name=f"policy of {name}",
        title=title,
        link=reverse("policy_page", args=[name]),
        users=[user for user in (*users, *managers) if user.pk != acted],
        environment=name,
        facts={"proposal": str(proposal.proposal_id), "status": str(proposal.status), "looser": proposal.looser},
    )


def _whose(report: ChangeReport) -> Iterable[Any]:
    """Return the authors of the report's changes, and its creator, unless a command without a token created it."""
    return [*active_users(report.authors), *([report.created_by] if report.created_by is not None else [])]


def _tell_of_report(kind: Kind, report: ChangeReport, title: str, users: Iterable[Any], **facts: Any) -> None:
    tell(
        event=kind,
        subject_kind="report",
        subject_key=str(report.report_id),
        subject_name=f"report of {report.title}",
        title=title,
        link=reverse("report_page", args=[report.report_id]),
        users=users,
        environment=report.environment.name,
        facts={
            "fingerprint": report.fingerprint,
            "risk": str(report.risk),
            "destructive": report.destructive,
            "authors": list(report.authors),
            **facts,
        },
    )
