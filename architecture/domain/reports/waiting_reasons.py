"""Next action that a report asks of a user: the rule behind the inbox.

A report asks one thing of a person at a time, the one that is next.
"""

from dataclasses import dataclass

from architecture.domain.reports import workflow
from architecture.domain.reports.workflow import Decided, Need, Refused
from elevata.jobs import states
from metadata.domain.roles import Role

RESUME, EXECUTE, DECIDE = "resume", "execute", "decide"
REPAIR, RENEW, FOLLOW = "repair", "renew", "follow"
# Nothing is asked of the person: the report is theirs, and others are to act.
OTHERS = "others"
# In the order in which they are shown: what stopped half-way comes first.
ASKS = (RESUME, EXECUTE, DECIDE, REPAIR, RENEW, FOLLOW, OTHERS)


@dataclass(frozen=True)
class Person:
    """User whose inbox is computed. ``pk`` identifies the creator of a report, the name the authors of its changes."""

    pk: int
    name: str
    may_approve: bool
    may_execute: bool
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Facts:
    """Stored facts about a report.

    ``execution`` is the state of the one that counts, empty without one. ``stale`` is the code of what
    moved, empty if nothing did or nobody asked.
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
        """Number of approvals still missing."""
        return workflow.approvals_missing(
            self.decided, fingerprint=self.fingerprint, need=self.need, authors=self.authors
        )

    @property
    def approved_by(self) -> tuple[str, ...]:
        return workflow.approvers(self.decided, fingerprint=self.fingerprint, need=self.need, authors=self.authors)


def asked_of(facts: Facts, person: Person) -> str:
    """One of ``ASKS``, or nothing.

    Of each scope only the newest report is asked about, and superseded ones whose newer one is still to
    be carried out (``architecture.selectors.reports_in_play``).
    """
    own = person.name in facts.authors or facts.made_by == person.pk
    if facts.status == workflow.SUPERSEDED:
        return FOLLOW if facts.made_by == person.pk else ""
    if facts.status in (workflow.OPEN, workflow.APPROVED):
        return _next_step(facts, person, own) or (OTHERS if own else "")
    asks = {workflow.BLOCKED: REPAIR, workflow.REJECTED: RENEW}
    return asks.get(facts.status, "") if own else ""


def _next_step(facts: Facts, person: Person, own: bool) -> str:
    if facts.execution:
        return RESUME if facts.execution in states.RESTARTABLE and _may_execute(facts, person) else ""
    if facts.stale:
        return RENEW if own else ""
    if _may_execute(facts, person):
        return EXECUTE
    return DECIDE if _may_decide(facts, person) else ""


def _may_execute(facts: Facts, person: Person) -> bool:
    if not person.may_execute:
        return False
    try:
        workflow.refuse_execution(
            status=facts.status,
            decisions=facts.decided,
            fingerprint=facts.fingerprint,
            need=facts.need,
            authors=facts.authors,
            person=person.name,
            approver_may_execute=facts.approver_may_execute,
        )
    except Refused:
        return False
    return True


def _may_decide(facts: Facts, person: Person) -> bool:
    """Return whether the user's approval would count; a user of another role may give one, but is not asked."""
    role = facts.need.role
    if not person.may_approve or not facts.missing or (role and not {role, Role.ADMIN} & person.roles):
        return False
    try:
        workflow.refuse_decision(
            status=facts.status,
            person=person.name,
            decision=workflow.YES,
            authors=facts.authors,
            decided=facts.decided,
            needed=facts.need.count,
        )
    except Refused:
        return False
    return True
