"""The inbox "waiting for me": which reports ask something of a person, and what.

The count in the top bar stands on every page, so it is one query, and one more for each environment
where something may wait. Whether reports still hold is found out by the inbox itself (``checked``);
what it found out is known everywhere until something moves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

from architecture import report_validity
from architecture.domain.policy import PolicySet
from architecture.domain.reports import waiting_reasons, workflow
from architecture.domain.reports.waiting_reasons import Facts, Person
from architecture.domain.reports.workflow import Decided
from architecture.models import ChangeReport, PolicyProposal
from architecture.report_details import ReportRow, may_build, report_rows
from architecture.report_places import place_of_environment, place_of_report
from architecture.selectors import reports_in_play
from architecture.services.policies.policies import default_policy
from architecture.services.reports.reports import Gathered
from metadata.domain.roles import PEOPLE_ONLY, Permission, Role
from metadata.permissions import MODEL_BACKEND, granted_to, may, may_somewhere, people_who_may, roles_of

# For how long the inbox makes reports again before it answers; the rest is for the next time it asks.
_PATIENCE = 1.5  # seconds
_OWN = ("pk", "report_id", "status", "risk", "fingerprint", "authors", "created_by_id", "environment_id", "live")
_LONG = ("document", "content")
_NEEDED = {
    waiting_reasons.DECIDE: Permission.APPROVE_REPORTS,
    waiting_reasons.EXECUTE: Permission.EXECUTE_REPORTS,
    waiting_reasons.RESUME: Permission.EXECUTE_REPORTS,
}
_APPROVALS = tuple(f"approvals__{name}" for name in ("person_name", "decision", "fingerprint", "roles"))
# What a service account decided, its owner did.
_OWNER = "approvals__person__service_account__owner__username"


@dataclass(frozen=True)
class Ask:
    """A report and what it asks of the person; ``refusal`` is why it does not hold any more.

    ``is_checked``: somebody has found out whether it holds, as things are now.
    """

    ask: str
    pk: int
    facts: Facts
    refusal: Mapping[str, Any]
    is_checked: bool


def waiting_for(user: Any) -> tuple[Ask, ...]:
    """Return the requests that wait for the user, and those of the user that wait for others.

    Known outdated reports count.
    """
    if not may_build(user):
        return ()
    known = list(_facts(user.pk))
    person = _person(user, needs_roles=any(facts.need.role for *_, facts in known))
    signals: dict[int, str] = {}
    found = []
    for pk, report_id, environment, facts in known:
        refusal: dict[str, Any] | None = {}
        if waiting_reasons.asked_of(facts, person) and _may_be_stale(facts):
            if environment not in signals:
                signals[environment] = report_validity.signal(environment)
            refusal = report_validity.known_refusal(report_id, signals[environment])
            facts = replace(facts, stale=(refusal or {}).get("code", ""))
        ask = waiting_reasons.asked_of(facts, person)
        if ask and _is_theirs(user, ask, pk):
            found.append(Ask(ask, pk, facts, refusal or {}, refusal is not None))
    return tuple(sorted(found, key=lambda one: (waiting_reasons.ASKS.index(one.ask), one.pk)))


def count_for(user: Any) -> int:
    """Return the number of requests that wait for the user."""
    return count(waiting_for(user)) + sum(not one.own for one in policies_waiting(user))


@dataclass(frozen=True)
class PolicyAsk:
    """A looser policy that waits for a second person; ``whom`` are all who are asked, ``own`` is the user's own."""

    proposal: PolicyProposal
    own: bool
    whom: tuple[str, ...]


def policies_waiting(user: Any) -> tuple[PolicyAsk, ...]:
    """Return the proposals that wait for this user to accept or reject, and the user's own."""
    if not may_somewhere(user, Permission.MANAGE_POLICIES):
        return ()
    waiting_now = PolicyProposal.objects.filter(status=PolicyProposal.Status.PROPOSED).order_by("pk")
    found = []
    for proposal in waiting_now.select_related("environment", "proposed_by"):
        place = place_of_environment(proposal.environment)
        if may(user, Permission.MANAGE_POLICIES, place):
            managers = people_who_may(Permission.MANAGE_POLICIES, place)
            whom = tuple(one.get_username() for one in managers if one.pk != proposal.proposed_by_id)
            found.append(PolicyAsk(proposal, proposal.proposed_by_id == user.pk, whom))
    return tuple(found)


def count(asks: Iterable[Ask]) -> int:
    return sum(one.ask != waiting_reasons.OTHERS for one in asks)


def checked(user: Any) -> tuple[Ask, ...]:
    """Return the waiting requests after checking which reports are still up to date, within a time limit."""
    open_ = [one.pk for one in waiting_for(user) if not one.is_checked]
    found = ChangeReport.objects.filter(pk__in=open_).select_related("environment").defer("document", "content")
    signals: dict[int, str] = {}
    gathered, began = Gathered(), None
    for report in found.order_by("pk"):
        if report.environment_id not in signals:
            signals[report.environment_id] = report_validity.signal(report.environment_id)
        report_validity.refusal_of(report, signals[report.environment_id], gathered)
        # To gather takes longer than all that follows from it: the patience is for that.
        began = began or monotonic()
        if monotonic() - began > _PATIENCE:
            break
    return waiting_for(user)


def _may_be_stale(facts: Facts) -> bool:
    return facts.status in (workflow.OPEN, workflow.APPROVED) and not facts.execution


def _person(user: Any, *, needs_roles: bool) -> Person:
    return Person(
        user.pk,
        user.get_username(),
        may_approve=may_somewhere(user, Permission.APPROVE_REPORTS),
        may_execute=may_somewhere(user, Permission.EXECUTE_REPORTS),
        roles=_roles(user) if needs_roles else frozenset(),
    )


def _roles(user: Any) -> frozenset[str]:
    """Everywhere, or for some place: whether it is the right one, ``_is_theirs`` asks."""
    return frozenset(role.value for role in (*roles_of(user), *(one.role for one in granted_to(user))))


def _is_theirs(user: Any, ask: str, pk: int) -> bool:
    """Return whether the user may do what is asked in that place.

    Only checked for users whose role is limited to one.
    """
    permission = _NEEDED.get(ask)
    if permission is None or may(user, permission):
        return True
    report = ChangeReport.objects.select_related("environment").get(pk=pk)
    return may(user, permission, place_of_report(report))


def _facts(person_pk: int) -> Iterable[tuple[int, UUID, int, Facts]]:
    """Each report in play with its approvals: pk, id, environment and facts, in one query."""
    rows = reports_in_play(person_pk).order_by("-pk", "approvals__pk")
    policies: dict[int, PolicySet] = {}
    named = rows.values_list(*_OWN, "environment__policies", *_APPROVALS, _OWNER, named=True)
    for _, group in groupby(named, key=lambda row: row.pk):
        its = list(group)
        row = its[0]
        if row.environment_id not in policies:
            policies[row.environment_id] = PolicySet.from_json(row.environment__policies, default_policy())
        policy = policies[row.environment_id]
        facts = Facts(
            status=row.status,
            fingerprint=row.fingerprint,
            need=policy.approvals[row.risk],
            authors=frozenset(row.authors),
            made_by=row.created_by_id,
            decided=tuple(map(_decided, filter(_is_decided, its))),
            approver_may_execute=policy.approver_may_execute,
            execution=row.live or "",
        )
        yield row.pk, row.report_id, row.environment_id, facts


def _is_decided(row: Any) -> bool:
    """A yes of a service account never counts."""
    by_program = getattr(row, _OWNER) is not None and row.approvals__decision == workflow.YES
    return row.approvals__person_name is not None and not by_program


def _decided(row: Any) -> Decided:
    fingerprint, roles = row.approvals__fingerprint, tuple(row.approvals__roles)
    return Decided(getattr(row, _OWNER) or row.approvals__person_name, row.approvals__decision, fingerprint, roles)


# --- as the page shows it ----------------------------------------------------------------------


@dataclass(frozen=True)
class InboxRow:
    """An ask with its report; ``whom`` are all who are asked for the same, the person among them."""

    ask: Ask
    row: ReportRow
    whom: tuple[str, ...]

    @property
    def rejection(self) -> Any:
        """The no that ended it."""
        return next((one for one in self.row.report.approvals.all() if one.decision == workflow.NO), None)


@dataclass(frozen=True)
class Section:
    """All that asks for the same."""

    ask: str
    rows: tuple[InboxRow, ...]


def sections(asks: Iterable[Ask]) -> list[Section]:
    """Asks with what the page shows of them, by what is asked, in a constant number of queries."""
    asks = list(asks)
    related = ("environment", "created_by", "undo_of", "superseded_by")
    rows = ChangeReport.objects.filter(pk__in=[one.pk for one in asks]).select_related(*related)
    rows = rows.prefetch_related("approvals").defer(*_LONG, *(f"superseded_by__{name}" for name in _LONG))
    shown = {one.report.pk: one for one in report_rows(rows)}
    whom = _Whom()
    made = [InboxRow(one, shown[one.pk], whom.asked(one)) for one in asks]
    return [Section(ask, tuple(group)) for ask, group in groupby(made, key=lambda row: row.ask.ask)]


class _Whom:
    """Users by permission, queried once."""

    def __init__(self) -> None:
        self._names: dict[tuple[Permission, str], tuple[str, ...]] = {}

    def asked(self, one: Ask) -> tuple[str, ...]:
        """Names of all who are asked, sorted."""
        facts = one.facts
        if one.ask in (waiting_reasons.EXECUTE, waiting_reasons.RESUME) or self._is_executable(facts):
            kept = facts.approved_by if facts.need.count and not facts.approver_may_execute else ()
            return tuple(name for name in self._who_may(Permission.EXECUTE_REPORTS) if name not in kept)
        if one.ask in (waiting_reasons.DECIDE, waiting_reasons.OTHERS):
            out = facts.authors | {decided.person for decided in facts.decided}
            may_approve = self._who_may(Permission.APPROVE_REPORTS, facts.need.role)
            return tuple(name for name in may_approve if name not in out)
        return tuple(sorted(facts.authors))

    def _is_executable(self, facts: Facts) -> bool:
        return facts.status in (workflow.OPEN, workflow.APPROVED) and not facts.missing and not facts.stale

    def _who_may(self, permission: Permission, role: str = "") -> tuple[str, ...]:
        if (permission, role) not in self._names:
            people = User.objects.with_perm(str(permission), backend=MODEL_BACKEND).order_by("username")
            if permission in PEOPLE_ONLY:
                people = people.filter(service_account=None)
            if role:
                people = people.filter(Q(groups__name__in=(role, Role.ADMIN.value)) | Q(is_superuser=True)).distinct()
            self._names[permission, role] = tuple(people.values_list("username", flat=True))
        return self._names[permission, role]
