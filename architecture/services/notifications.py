"""Notifications about reports, executions and drift. Called in the transaction of the work."""

from collections.abc import Collection, Iterable
from typing import Any

from django.urls import reverse

from architecture.domain.reports import workflow
from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Need
from architecture.domain.states.drift import DatasetDrift
from architecture.models import Approval, ChangeReport, Environment, Execution, PolicyProposal
from elevata.jobs import states
from metadata.domain.notices import Kind
from metadata.domain.roles import Permission, Place, Role
from metadata.permissions import people_who_may, roles_of
from metadata.services.notices import active_people, tell

_NAMED = 20


def tell_report_waiting(report: ChangeReport, need: Need) -> None:
    """A report was made that needs approvals: those are told whose yes would count."""
    place = Place(environment=report.environment.name)
    asked = [
        person
        for person in people_who_may(Permission.APPROVE_REPORTS, place)
        if person.get_username() not in report.authors
        and (not need.role or {need.role, Role.ADMIN} & roles_of(person, place))
    ]
    by = f" by {', '.join(report.authors)}" if report.authors else ""
    said = f"The report of {_scope(report)} in {report.environment}{by} waits for approval"
    _tell_of_report(Kind.REPORT_WAITING, report, said, asked)


def tell_decided(report: ChangeReport, approval: Approval) -> None:
    """A report was approved by all who were needed, or rejected: those whose it is are told, but who decided."""
    rejected = approval.decision == workflow.NO
    note = f": {approval.note}" if approval.note else ""
    verb = "rejected" if rejected else "approved"
    said = f"{approval.person_name} {verb} the report of {_scope(report)} in {report.environment}{note}"
    people = [person for person in _whose(report) if person.pk != approval.person_id]
    kind = Kind.REPORT_REJECTED if rejected else Kind.REPORT_APPROVED
    _tell_of_report(kind, report, said, people, decided_by=approval.person_name)


def tell_execution_ended(execution: Execution) -> None:
    """An execution of a report succeeded, failed or was lost. A load run's own is told with the run."""
    report = execution.report
    if report is None or execution.status not in (states.SUCCEEDED, states.FAILED, states.LOST):
        return
    succeeded = execution.status == states.SUCCEEDED
    error = {} if succeeded else execution.error or {}
    became = {states.SUCCEEDED: "was executed", states.FAILED: "failed", states.LOST: "lost its worker"}
    message = f": {error['message']}" if error.get("message") else ""
    said = f"The report of {_scope(report)} in {report.environment} {became[execution.status]}"
    if not succeeded:
        said = f"The execution of {_scope(report)} in {report.environment} {became[execution.status]}{message}"
    tell(
        event=Kind.REPORT_EXECUTED if succeeded else Kind.EXECUTION_FAILED,
        subject_kind="execution",
        subject_key=str(execution.pk),
        subject_name=str(execution),
        title=said,
        link=reverse("execution_page", args=[execution.pk]),
        people=[*_whose(report), execution.requested_by],
        environment=report.environment.name,
        facts={"report_id": str(report.report_id), "status": str(execution.status), "error": error.get("code", "")},
    )


def tell_drift(environment: Environment, found: Collection[DatasetDrift]) -> None:
    """Tables are not as they were left, and were when they were looked at before: operators are told."""
    names = [one.dataset for one in found]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    tell(
        event=Kind.DRIFT_FOUND,
        subject_kind="environment",
        subject_key=environment.name,
        subject_name=environment.name,
        title=f"Drift in {environment}: {', '.join(names[:3])}{more}",
        link=reverse("drift_page"),
        people=people_who_may(Permission.EXECUTE_REPORTS, Place(environment=environment.name)),
        environment=environment.name,
        facts={"datasets": names[:_NAMED], "count": len(names)},
    )


def tell_policy_proposed(proposal: PolicyProposal) -> None:
    """Tell everybody who manages the policies of the environment, but who proposed it, that a looser one waits."""
    said = f"{proposal.proposed_by} proposed a looser policy for {proposal.environment}"
    _tell_of_policy(Kind.POLICY_PROPOSED, proposal, f"{said}: a second person accepts or rejects it", ())


def tell_policy_decided(proposal: PolicyProposal) -> None:
    """Tell who proposed a looser policy and who else manages policies what became of it, but who decided."""
    note = f": {proposal.note}" if proposal.note else ""
    by = proposal.proposed_by
    said = (
        f"{proposal.decided_by} {'withdrew' if proposal.status == 'withdrawn' else proposal.status} the looser policy"
    )
    title = f"{said} that {by} proposed for {proposal.environment}{note}"
    _tell_of_policy(Kind.POLICY_DECIDED, proposal, title, (by,))


def _tell_of_policy(kind: Kind, proposal: PolicyProposal, title: str, people: Iterable[Any]) -> None:
    name = proposal.environment.name
    acted = proposal.decided_by_id or proposal.proposed_by_id
    managers = people_who_may(Permission.MANAGE_POLICIES, Place(environment=name))
    tell(
        event=kind,
        subject_kind="policy",
        subject_key=name,
        subject_name=f"policy of {name}",
        title=title,
        link=reverse("policy_page", args=[name]),
        people=[person for person in (*people, *managers) if person.pk != acted],
        environment=name,
        facts={"proposal": str(proposal.proposal_id), "status": str(proposal.status), "looser": proposal.looser},
    )


def _whose(report: ChangeReport) -> Iterable[Any]:
    """Return the authors of what the report changes, and its creator."""
    return [*active_people(report.authors), report.created_by]


def _tell_of_report(kind: Kind, report: ChangeReport, title: str, people: Iterable[Any], **facts: Any) -> None:
    tell(
        event=kind,
        subject_kind="report",
        subject_key=str(report.report_id),
        subject_name=f"report of {_scope(report)}",
        title=title,
        link=reverse("report_page", args=[report.report_id]),
        people=people,
        environment=report.environment.name,
        facts={
            "fingerprint": report.fingerprint,
            "risk": str(report.risk),
            "destructive": report.destructive,
            "authors": list(report.authors),
            **facts,
        },
    )


def _scope(report: ChangeReport) -> str:
    return Scope(**report.scope).describe()
