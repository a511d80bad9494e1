"""Decisions on reports and runs, the approvals that they need, and the checks before a decision and an execution.

Pages, REST and commands share these checks.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from architecture.domain.refusals import Refused
from architecture.domain.report_states import APPROVED, refuse_closed
from elevata.accounts.roles import Role
from elevata.core.words import counted

YES, NO = "approve", "reject"
# Consequences of a report that an approval can accept.
ACCEPTABLE = ("readers_lost", "contracts_broken")


@dataclass(frozen=True)
class Decided:
    """Recorded decision of a user on a fingerprint. ``roles`` are the roles for which it counts.

    ``readers_lost``: the user accepts that tables lose readers.
    """

    user: str
    decision: str
    fingerprint: str
    roles: tuple[str, ...] = ()
    readers_lost: bool = False


@dataclass(frozen=True)
class Need:
    """Required number of approvals, and the approvers' role (empty: any)."""

    count: int = 0
    role: str = ""


def approvers(
    decisions: Iterable[Decided], *, fingerprint: str, need: Need, authors: Collection[str]
) -> tuple[str, ...]:
    """Return the users whose approvals count, each once, sorted.

    An approval counts if it is of this fingerprint, by a user with the role (or an admin), and not by an author.
    """
    return tuple(
        sorted(
            {
                decision.user
                for decision in decisions
                if decision.decision == YES
                and decision.fingerprint == fingerprint
                and decision.user not in authors
                and (not need.role or need.role in decision.roles or Role.ADMIN in decision.roles)
            }
        )
    )


def approvals_missing(decisions: Iterable[Decided], *, fingerprint: str, need: Need, authors: Collection[str]) -> int:
    """Return the number of missing approvals, never below 0."""
    return max(0, need.count - len(approvers(decisions, fingerprint=fingerprint, need=need, authors=authors)))


def refuse_decision(
    *, status: str, user: str, decision: str, authors: Collection[str], decided: Iterable[Decided], needed: int
) -> None:
    """Raise Refused unless the user may decide on the report now. An author may always reject."""
    refuse_closed(status)
    if status == APPROVED:
        raise Refused("ALREADY_DECIDED", "the report is approved")
    if any(decision.user == user for decision in decided):
        raise Refused("ALREADY_DECIDED", f"{user} has decided on this report already")
    if decision == YES and needed == 0:
        raise Refused("NO_APPROVAL_NEEDED")
    if decision == YES and user in authors:
        raise Refused("OWN_CHANGE", f"{user} is an author of these changes")


def accepts_lost_readers(decisions: Iterable[Decided], fingerprint: str) -> bool:
    """Return True if every user who approved the report accepts that tables lose readers."""
    approvals = [item for item in decisions if (item.decision, item.fingerprint) == (YES, fingerprint)]
    accepted = [approval.readers_lost for approval in approvals]
    return bool(accepted) and all(accepted)


def refuse_execution(
    *,
    status: str,
    decisions: Iterable[Decided],
    fingerprint: str,
    need: Need,
    authors: Collection[str],
    user: str,
    approver_may_execute: bool,
) -> None:
    """Raise Refused unless the user may execute the report in its current state."""
    refuse_closed(status)
    decisions = tuple(decisions)
    if any(decision.decision == NO and decision.fingerprint == fingerprint for decision in decisions):
        raise Refused("REPORT_REJECTED")
    missing = approvals_missing(decisions, fingerprint=fingerprint, need=need, authors=authors)
    if missing:
        role = f" by the role {need.role}" if need.role else ""
        raise Refused("NOT_APPROVED", f"{counted(missing, 'more approval')}{role} needed")
    if (
        need.count
        and not approver_may_execute
        and any(decision.user == user and decision.decision == YES for decision in decisions)
    ):
        raise Refused("NOT_PERMITTED", f"{user} approved the report and may not execute it in this environment")
