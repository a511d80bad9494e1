"""Inbox of a user.

The count in the top bar is on every page, so it takes one query, and one more for each environment with open tasks.
The inbox page checks whether reports are up to date (``checked``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q

from architecture.domain import decisions, next_action, report_states
from architecture.domain.change_policy import PolicySet
from architecture.domain.decisions import Decided
from architecture.domain.next_action import Facts, UserRights
from architecture.models import ChangeReport, PolicyProposal
from architecture.permissions import may_build, place_of_environment, place_of_report
from architecture.selectors.outdated_reports import known_refusal, refusals_of, signal
from architecture.selectors.reports import ReportRow, report_rows, reports_in_play
from architecture.services.change_policy import default_policy
from elevata.accounts.access import holders
from elevata.accounts.permissions import MODEL_BACKEND, granted_to, may, may_somewhere, roles_of
from elevata.accounts.roles import USERS_ONLY, Permission, Role

_OWN = ("pk", "report_id", "status", "risk", "fingerprint", "authors", "created_by_id", "environment_id", "live")
_LONG = ("document", "content")
_NEEDED = {
    next_action.DECIDE: Permission.APPROVE_REPORTS,
    next_action.EXECUTE: Permission.EXECUTE_REPORTS,
    next_action.RESUME: Permission.EXECUTE_REPORTS,
}
_APPROVALS = tuple(f"approvals__{name}" for name in ("person_name", "decision", "fingerprint", "roles"))
# Decisions of a service account count as its owner's.
_OWNER = "approvals__person__service_account__owner__username"


@dataclass(frozen=True)
class Ask:
    """Report with the action that it needs from the user.

    ``refusal`` is the reason why it is outdated. ``is_checked``: it was checked with the current inputs.
    """

    ask: str
    pk: int
    report_id: UUID
    facts: Facts
    refusal: Mapping[str, Any]
    is_checked: bool


def waiting_for(user: Any) -> tuple[Ask, ...]:
    """Return the tasks of the user, and the user's own reports that wait for others.

    A report that is known to be outdated is a task of its own kind; nothing is checked here.
    """
    if not may_build(user):
        return ()
    known = list(_facts(user.pk))
    rights = _rights_of(user, needs_roles=any(facts.need.role for *_, facts in known))
    signals: dict[int, str] = {}
    asks = []
    for pk, report_id, environment, facts in known:
        refusal: dict[str, Any] | None = {}
        if next_action.asked_of(facts, rights) and _may_be_stale(facts):
            if environment not in signals:
                signals[environment] = signal(environment)
            refusal = known_refusal(report_id, signals[environment])
            facts = replace(facts, stale=(refusal or {}).get("code", ""))
        ask = next_action.asked_of(facts, rights)
        if ask and _is_theirs(user, ask, pk):
            asks.append(Ask(ask, pk, report_id, facts, refusal or {}, refusal is not None))
    return tuple(sorted(asks, key=lambda task: (next_action.ASKS.index(task.ask), task.pk)))


@dataclass(frozen=True)
class Tasks:
    """Tasks of a user: their number, and the report of the only one, if it is one about a report."""

    count: int
    report_id: UUID | None


def tasks_of(user: Any) -> Tasks:
    """Return the number of the user's tasks, and the report of the only one."""
    asks = [ask for ask in waiting_for(user) if ask.ask != next_action.OTHERS]
    number = len(asks) + sum(not ask.own for ask in policies_waiting(user))
    return Tasks(number, asks[0].report_id if number == len(asks) == 1 else None)


@dataclass(frozen=True)
class PolicyAsk:
    """Looser change policy that waits for a second user. ``whom`` are the users who may decide.

    ``own``: the user proposed it.
    """

    proposal: PolicyProposal
    own: bool
    whom: tuple[str, ...]


def policies_waiting(user: Any) -> tuple[PolicyAsk, ...]:
    """Return the proposals that the user may accept or reject, and the user's own."""
    if not may_somewhere(user, Permission.MANAGE_POLICIES):
        return ()
    proposals = PolicyProposal.objects.filter(status=PolicyProposal.Status.PROPOSED).order_by("pk")
    asks = []
    for proposal in proposals.select_related("environment", "proposed_by"):
        place = place_of_environment(proposal.environment)
        if may(user, Permission.MANAGE_POLICIES, place):
            managers = holders(Permission.MANAGE_POLICIES, place)
            whom = tuple(manager.get_username() for manager in managers if manager.pk != proposal.proposed_by_id)
            asks.append(PolicyAsk(proposal, proposal.proposed_by_id == user.pk, whom))
    return tuple(asks)


def count(asks: Iterable[Ask]) -> int:
    return sum(ask.ask != next_action.OTHERS for ask in asks)


def checked(user: Any) -> tuple[Ask, ...]:
    """Return the user's tasks after checking within a time limit which reports are up to date."""
    unchecked = [ask.pk for ask in waiting_for(user) if not ask.is_checked]
    reports = ChangeReport.objects.filter(pk__in=unchecked).select_related("environment").defer("document", "content")
    refusals_of(reports.order_by("pk"), check=True)
    return waiting_for(user)


def _may_be_stale(facts: Facts) -> bool:
    return facts.status in (report_states.OPEN, report_states.APPROVED) and not facts.execution


def _rights_of(user: Any, *, needs_roles: bool) -> UserRights:
    return UserRights(
        user.pk,
        user.get_username(),
        may_approve=may_somewhere(user, Permission.APPROVE_REPORTS),
        may_execute=may_somewhere(user, Permission.EXECUTE_REPORTS),
        roles=_roles(user) if needs_roles else frozenset(),
    )


def _roles(user: Any) -> frozenset[str]:
    """Return the user's global and limited roles; ``_is_theirs`` checks the limits."""
    return frozenset(role.value for role in (*roles_of(user), *(grant.role for grant in granted_to(user))))


def _is_theirs(user: Any, ask: str, pk: int) -> bool:
    """Return True if the user may do this with the report. Only users with a limited role need a query."""
    permission = _NEEDED.get(ask)
    if permission is None or may(user, permission):
        return True
    report = ChangeReport.objects.select_related("environment").get(pk=pk)
    return may(user, permission, place_of_report(report))


def _facts(person_pk: int) -> Iterable[tuple[int, UUID, int, Facts]]:
    """Yield pk, id, environment and facts of the reports that may need an action, with one query."""
    reports = reports_in_play(person_pk).order_by("-pk", "approvals__pk")
    policies: dict[int, PolicySet] = {}
    values = reports.values_list(*_OWN, "environment__policies", *_APPROVALS, _OWNER, named=True)
    for _, group in groupby(values, key=lambda row: row.pk):
        rows = list(group)
        row = rows[0]
        if row.environment_id not in policies:
            policies[row.environment_id] = PolicySet.from_json(row.environment__policies, default_policy())
        policy = policies[row.environment_id]
        facts = Facts(
            status=row.status,
            fingerprint=row.fingerprint,
            need=policy.approvals[row.risk],
            authors=frozenset(row.authors),
            made_by=row.created_by_id,
            decided=tuple(map(_decided, filter(_is_decided, rows))),
            approver_may_execute=policy.approver_may_execute,
            execution=row.live or "",
        )
        yield row.pk, row.report_id, row.environment_id, facts


def _is_decided(row: Any) -> bool:
    """Return True if the row has a decision that counts; approvals of service accounts do not."""
    by_service_account = getattr(row, _OWNER) is not None and row.approvals__decision == decisions.YES
    return row.approvals__person_name is not None and not by_service_account


def _decided(row: Any) -> Decided:
    fingerprint, roles = row.approvals__fingerprint, tuple(row.approvals__roles)
    return Decided(getattr(row, _OWNER) or row.approvals__person_name, row.approvals__decision, fingerprint, roles)


@dataclass(frozen=True)
class InboxRow:
    """Task with its report. ``whom`` are all users with the same task, including the current one."""

    ask: Ask
    row: ReportRow
    whom: tuple[str, ...]

    @property
    def rejection(self) -> Any:
        """Return the rejection that closed the report."""
        return next(
            (approval for approval in self.row.report.approvals.all() if approval.decision == decisions.NO), None
        )


@dataclass(frozen=True)
class Section:
    """Tasks of the same kind."""

    ask: str
    rows: tuple[InboxRow, ...]


def sections(asks: Iterable[Ask]) -> list[Section]:
    """Return the tasks by kind, with everything that the page shows, in a constant number of queries."""
    asks = list(asks)
    related = ("environment", "created_by", "undo_of", "superseded_by")
    rows = ChangeReport.objects.filter(pk__in=[ask.pk for ask in asks]).select_related(*related)
    rows = rows.prefetch_related("approvals").defer(*_LONG, *(f"superseded_by__{name}" for name in _LONG))
    by_pk = {report_row.report.pk: report_row for report_row in report_rows(rows)}
    users = _TaskUsers()
    inbox_rows = [InboxRow(ask, by_pk[ask.pk], users.of_task(ask)) for ask in asks]
    return [Section(ask, tuple(group)) for ask, group in groupby(inbox_rows, key=lambda row: row.ask.ask)]


class _TaskUsers:
    """Names of the users with a task. Users are queried once per permission and role."""

    def __init__(self) -> None:
        self._names: dict[tuple[Permission, str], tuple[str, ...]] = {}

    def of_task(self, task: Ask) -> tuple[str, ...]:
        """Return the names of all users with this task, sorted."""
        facts = task.facts
        if task.ask in (next_action.EXECUTE, next_action.RESUME) or self._is_executable(facts):
            excluded = facts.approved_by if facts.need.count and not facts.approver_may_execute else ()
            return tuple(name for name in self._users_with(Permission.EXECUTE_REPORTS) if name not in excluded)
        if task.ask in (next_action.DECIDE, next_action.OTHERS):
            involved = facts.authors | {decided.user for decided in facts.decided}
            may_approve = self._users_with(Permission.APPROVE_REPORTS, facts.need.role)
            return tuple(name for name in may_approve if name not in involved)
        return tuple(sorted(facts.authors))

    def _is_executable(self, facts: Facts) -> bool:
        return facts.status in (report_states.OPEN, report_states.APPROVED) and not facts.missing and not facts.stale

    def _users_with(self, permission: Permission, role: str = "") -> tuple[str, ...]:
        if (permission, role) not in self._names:
            users = User.objects.with_perm(str(permission), backend=MODEL_BACKEND).order_by("username")
            if permission in USERS_ONLY:
                users = users.filter(service_account=None)
            if role:
                users = users.filter(Q(groups__name__in=(role, Role.ADMIN.value)) | Q(is_superuser=True)).distinct()
            self._names[permission, role] = tuple(users.values_list("username", flat=True))
        return self._names[permission, role]
