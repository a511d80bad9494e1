"""Review of a report: the approvals that it needs and has, and the steps that a user may take."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain import decisions
from architecture.domain.decisions import Need
from architecture.domain.refusals import Refused
from architecture.models import Approval, ChangeReport
from architecture.permissions import place_of_report
from architecture.services.change_policy import policy_of
from architecture.services.reports import decisions_on
from elevata.accounts.permissions import Where, may
from elevata.accounts.roles import Permission


@dataclass(frozen=True)
class ReviewStatus:
    """State of a report for one user. ``authors`` cannot approve it; ``need`` are the required approvals.

    ``cannot_approve``, ``cannot_reject`` and ``cannot_execute`` are the reasons for refusal, None if the user may.
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
        """Return True if the user may still approve or reject it."""
        return not (self.cannot_approve and self.cannot_reject)


def review_status(report: ChangeReport, user: Any, authors: frozenset[str]) -> ReviewStatus:
    """Return the state of a report for this user. ``authors`` are the authors of its changes."""
    policy = policy_of(report.environment)
    need = policy.approvals[report.risk]
    approvals, decided = tuple(report.approvals.order_by("pk")), decisions_on(report)
    # Pages are for signed-in users, not for service accounts, so the name is the user's own.
    name, place = user.get_username(), place_of_report(report)

    def decide(decision: str) -> None:
        decisions.refuse_decision(
            status=report.status,
            user=name,
            decision=decision,
            authors=authors,
            decided=decided,
            needed=need.count,
        )

    def execute() -> None:
        decisions.refuse_execution(
            status=report.status,
            decisions=decided,
            fingerprint=report.fingerprint,
            need=need,
            authors=authors,
            user=name,
            approver_may_execute=policy.approver_may_execute,
        )

    deciding = (user, Permission.APPROVE_REPORTS, place, "your account may read reports, but not decide on them")
    message = "your account may read reports, but not preview or execute them"
    executing = (user, Permission.EXECUTE_REPORTS, place, message)
    return ReviewStatus(
        need=need,
        approvals=approvals,
        missing=decisions.approvals_missing(decided, fingerprint=report.fingerprint, need=need, authors=authors),
        authors=tuple(sorted(authors)),
        approver_may_execute=policy.approver_may_execute,
        cannot_approve=_refusal(lambda: decide(decisions.YES), *deciding),
        cannot_reject=_refusal(lambda: decide(decisions.NO), *deciding),
        cannot_execute=_refusal(execute, *executing),
    )


def _refusal(
    check: Callable[[], None], user: Any, permission: Permission, place: Where, message: str
) -> Refused | None:
    """Return the refusal of the workflow, or of a user without permission; None if the user may."""
    try:
        check()
    except Refused as refused:
        return refused
    return None if may(user, permission, place) else Refused("NOT_PERMITTED", message)


def against(status: ReviewStatus, refusal: Mapping[str, Any]) -> ReviewStatus:
    """Return the state of an outdated report: it can only be rejected."""
    if not refusal:
        return status
    return replace(
        status,
        cannot_approve=status.cannot_approve or refusal,
        cannot_execute=status.cannot_execute or refusal,
    )
