"""Comparison of two change policies: the rules, approvals and limits that the newer one loosens."""

from dataclasses import dataclass

from architecture.domain.change_policy import REVIEW, RISKS, SAFE, PolicySet
from architecture.domain.decisions import Need
from architecture.domain.policy_rules import ALLOW, APPROVE, RULES, SEVERITIES
from architecture.domain.steps.features import OPEN, SPARK
from elevata.core.words import counted


@dataclass(frozen=True)
class Loosening:
    """Loosened choice of a policy set; ``before`` and ``after`` are texts."""

    choice: str
    before: str
    after: str

    def as_json(self) -> dict[str, str]:
        return {"choice": self.choice, "before": self.before, "after": self.after}


def loosened(before: PolicySet, after: PolicySet) -> tuple[Loosening, ...]:
    """Return the choices of ``after`` that are looser than in ``before``; empty if it is at least as strict.

    A higher severity is looser if fewer approvals are needed: an allowed operation needs those of safe reports, an
    operation that needs approval those of reports to review.
    """
    loosenings = []
    for rule in RULES:
        was, now = before.severity(rule.code), after.severity(rule.code)
        lower = SEVERITIES.index(now) < SEVERITIES.index(was)
        raised = (was, now) == (ALLOW, APPROVE) and not _at_least(after.approvals[REVIEW], before.approvals[SAFE])
        if lower or raised:
            words = (f"{severity.replace('_', ' ')}" for severity in (was, now))
            loosenings.append(Loosening(f"severities.{rule.code}", *words))
    for risk in RISKS:
        was_needed, needed = before.approvals[risk], after.approvals[risk]
        if not _at_least(needed, was_needed):
            loosenings.append(Loosening(f"approvals.{risk}", _in_words(was_needed), _in_words(needed)))
    was_needed, needed = before.maintenance_need, after.maintenance_need
    if (before.maintenance or after.maintenance) and not _at_least(needed, was_needed):
        loosenings.append(Loosening("maintenance", _in_words(was_needed), _in_words(needed)))
    for name in ("approver_may_execute", "automatic_safe_changes"):
        if getattr(after, name) and not getattr(before, name):
            loosenings.append(Loosening(name, "no", "yes"))
    if (before.readers, after.readers) == (OPEN, SPARK):
        loosenings.append(Loosening("readers", before.readers, after.readers))
    return tuple(loosenings)


def _at_least(need: Need, other: Need) -> bool:
    """Return True if all approvals that meet ``need`` also meet ``other``."""
    return need.count >= other.count and (not other.count or other.role in ("", need.role))


def _in_words(need: Need) -> str:
    return f"{counted(need.count, 'approval')} by {f'the role {need.role}' if need.role else 'any approver'}"
