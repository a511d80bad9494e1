"""Next action that a report needs from a user, as listed in the inbox: at most one per report and user."""

from dataclasses import dataclass

from architecture.domain.decisions import (
    YES,
    Decided,
    Need,
    approvals_missing,
    approvers,
    refuse_decision,
    refuse_execution,
)
from architecture.domain.refusals import Refused
from architecture.domain.report_states import APPROVED, BLOCKED, OPEN, REJECTED, SUPERSEDED
from elevata.accounts.roles import Role
from elevata.jobs import states

RESUME, EXECUTE, DECIDE = "resume", "execute", "decide"
REPAIR, RENEW, FOLLOW = "repair", "renew", "follow"
# The report is the user's own and waits for others.
OTHERS = "others"
# In display order: interrupted work comes first.
ASKS = (RESUME, EXECUTE, DECIDE, REPAIR, RENEW, FOLLOW, OTHERS)


@dataclass(frozen=True)
class UserRights:
    """User whose inbox is computed. ``pk`` identifies the creator of a report, the name the authors of its changes."""

    pk: int
    name: str
    may_approve: bool
    may_execute: bool
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """Stored facts about a report.

    ``execution`` is the state of the current execution, empty without one. ``stale`` is the code of the outdated
    part, empty if the report is up to date or was not checked.
    """

    status: str
    fingerprint: str
    need: Need
    authors: frozenset[str] = frozenset()
    made_by: int | None = None
    decided: tuple[Decided, ...] = ()
    approver_may_execute: bool = True
    execution: str = ""
    stale: str = ""

    @property
    def missing(self) -> int:
        """Return the number of missing approvals."""
        return approvals_missing(self.decided, fingerprint=self.fingerprint, need=self.need, authors=self.authors)

    @property
    def approved_by(self) -> tuple[str, ...]:
        return approvers(self.decided, fingerprint=self.fingerprint, need=self.need, authors=self.authors)


def asked_of(facts: Facts, user: UserRights) -> str:
    """Return the action that a report needs from the user: one of ``ASKS``, or an empty text.

    Call it only for reports of ``architecture.selectors.reports.reports_in_play``.
    """
    own = user.name in facts.authors or facts.made_by == user.pk
    if facts.status == SUPERSEDED:
        return FOLLOW if facts.made_by == user.pk else ""
    if facts.status in (OPEN, APPROVED):
        return _next_step(facts, user, own) or (OTHERS if own else "")
    asks = {BLOCKED: REPAIR, REJECTED: RENEW}
    return asks.get(facts.status, "") if own else ""


def _next_step(facts: Facts, user: UserRights, own: bool) -> str:
    if facts.execution:
        return RESUME if facts.execution in states.RESTARTABLE and _may_execute(facts, user) else ""
    if facts.stale:
        return RENEW if own else ""
    if _may_execute(facts, user):
        return EXECUTE
    return DECIDE if _may_decide(facts, user) else ""


def _may_execute(facts: Facts, user: UserRights) -> bool:
    if not user.may_execute:
        return False
    try:
        refuse_execution(
            status=facts.status,
            decisions=facts.decided,
            fingerprint=facts.fingerprint,
            need=facts.need,
            authors=facts.authors,
            user=user.name,
            approver_may_execute=facts.approver_may_execute,
        )
    except Refused:
        return False
    return True


def _may_decide(facts: Facts, user: UserRights) -> bool:
    """Return True if the user's approval would count. A user with another role may approve, too, but has no task."""
    role = facts.need.role
    if not user.may_approve or not facts.missing or (role and not {role, Role.ADMIN} & user.roles):
        return False
    try:
        refuse_decision(
            status=facts.status,
            user=user.name,
            decision=YES,
            authors=facts.authors,
            decided=facts.decided,
            needed=facts.need.count,
        )
    except Refused:
        return False
    return True
