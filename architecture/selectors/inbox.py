"""Inbox, and the check that a report is up to date.

The count in the top bar is on every page, so it takes one query, and one more for each environment with open tasks.
The inbox itself checks whether reports are up to date (``checked``); the result is cached until an input changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from time import monotonic
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from architecture.domain import workflow
from architecture.domain.change_policy import PolicySet
from architecture.domain.workflow import Decided, Facts, Refused, UserRights
from architecture.models import AppliedDataset, ChangeReport, Environment, Observation, PolicyProposal
from architecture.permissions import place_of_environment, place_of_report
from architecture.selectors.environments import reports_in_play
from architecture.selectors.report_details import ReportRow, may_build, report_rows
from architecture.services.change_policy import default_policy, policy_of
from architecture.services.reports import Gathered, authors_of_report, is_stale
from elevata.accounts.permissions import MODEL_BACKEND, granted_to, may, may_somewhere, roles_of, users_who_may
from elevata.accounts.roles import USERS_ONLY, Permission, Role
from elevata.audit.models import ChangeLogEntry
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError

# Open pages request these checks every few seconds. A check creates the report again, which reads the whole metadata,
# so one query first compares a signal of all inputs, and the result is shared by all users.


# Logged actions that change neither metadata nor applied state.
_NO_CHANGE = ("execution", "lease", "report", "token", "user")
_KEPT = 3600  # seconds


def signal(environment_pk: int) -> str:
    """Return a text that changes whenever an input of the environment's reports changes.

    It combines the newest entry of the change log, the observations and applied states, and the policy. It may
    change although a report is still up to date, but never stays the same for an outdated one.
    """
    entries = ChangeLogEntry.objects.exclude(subject_kind__in=_NO_CHANGE).order_by("-pk")
    here = {"environment": OuterRef("pk")}
    row = (
        Environment.objects.filter(pk=environment_pk)
        .annotate(
            entry=Subquery(entries.values("pk")[:1]),
            seen=_newest(Observation.objects.filter(**here), "observed_at"),
            seen_count=_count(Observation.objects.filter(**here)),
            applied=_newest(AppliedDataset.objects.filter(**here), "updated_at"),
            applied_count=_count(AppliedDataset.objects.filter(**here)),
        )
        .get()
    )
    moved = (row.entry, row.seen, row.seen_count, row.applied, row.applied_count)
    return sha256_hex([policy_of(row).as_json(), [str(one) for one in moved]])[:24]


def _newest(rows: QuerySet, time: str) -> Subquery:
    return Subquery(rows.order_by(f"-{time}").values(time)[:1])


def _count(rows: QuerySet) -> Subquery:
    return Subquery(rows.order_by().values("environment").annotate(n=Count("pk")).values("n"))


def known_refusal(report_id: UUID, signal: str) -> dict[str, Any] | None:
    """Return the cached result for this signal: a refusal, {} for an up-to-date report, None if it was not checked."""
    return cache.get(_place(report_id, signal))


def refusal_of(report: ChangeReport, signal: str, gathered: Gathered | None = None) -> dict[str, Any]:
    """Return why the report is outdated; {} if it is up to date.

    ``signal`` is taken before ``gathered``, so a change during the check is detected next time.
    """
    known = known_refusal(report.report_id, signal)
    if known is None:
        known = _asked(report, gathered)
        cache.set(_place(report.report_id, signal), known, _KEPT)
    return known


def authors(report: ChangeReport, signal: str) -> frozenset[str]:
    """Return the authors of the report's changes, for its page; a decision computes them again."""
    place = f"report-authors:{report.report_id}:{signal}"
    known = cache.get(place)
    if known is None:
        known = authors_of_report(report)
        cache.set(place, known, _KEPT)
    return known


def _asked(report: ChangeReport, gathered: Gathered | None) -> dict[str, Any]:
    try:
        code = is_stale(report, gathered)
    except MetadataError as problem:  # a dataset of its scope was removed
        return {**problem.as_json(), "message": problem.one_line()}
    return dict(Refused(code).as_json()) if code else {}


def _place(report_id: UUID, signal: str) -> str:
    return f"report-holds:{report_id}:{signal}"


# Time limit of checks per page; the rest is checked by the next request.
_PATIENCE = 1.5  # seconds
_OWN = ("pk", "report_id", "status", "risk", "fingerprint", "authors", "created_by_id", "environment_id", "live")
_LONG = ("document", "content")
_NEEDED = {
    workflow.DECIDE: Permission.APPROVE_REPORTS,
    workflow.EXECUTE: Permission.EXECUTE_REPORTS,
    workflow.RESUME: Permission.EXECUTE_REPORTS,
}
_APPROVALS = tuple(f"approvals__{name}" for name in ("person_name", "decision", "fingerprint", "roles"))
# Decisions of a service account count as its owner's.
_OWNER = "approvals__person__service_account__owner__username"


@dataclass(frozen=True)
class Ask:
    """Report with the action it asks of the user; ``refusal`` is why it is outdated.

    ``is_checked``: the current inputs were checked.
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
    rights = _rights_of(user, needs_roles=any(facts.need.role for *_, facts in known))
    signals: dict[int, str] = {}
    found = []
    for pk, report_id, environment, facts in known:
        refusal: dict[str, Any] | None = {}
        if workflow.asked_of(facts, rights) and _may_be_stale(facts):
            if environment not in signals:
                signals[environment] = signal(environment)
            refusal = known_refusal(report_id, signals[environment])
            facts = replace(facts, stale=(refusal or {}).get("code", ""))
        ask = workflow.asked_of(facts, rights)
        if ask and _is_theirs(user, ask, pk):
            found.append(Ask(ask, pk, facts, refusal or {}, refusal is not None))
    return tuple(sorted(found, key=lambda one: (workflow.ASKS.index(one.ask), one.pk)))


def count_for(user: Any) -> int:
    """Return the number of requests that wait for the user."""
    return count(waiting_for(user)) + sum(not one.own for one in policies_waiting(user))


@dataclass(frozen=True)
class PolicyAsk:
    """Looser policy that waits for a second user; ``whom`` are all who may decide, ``own`` marks the user's own."""

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
            managers = users_who_may(Permission.MANAGE_POLICIES, place)
            whom = tuple(manager.get_username() for manager in managers if manager.pk != proposal.proposed_by_id)
            found.append(PolicyAsk(proposal, proposal.proposed_by_id == user.pk, whom))
    return tuple(found)


def count(asks: Iterable[Ask]) -> int:
    return sum(ask.ask != workflow.OTHERS for ask in asks)


def checked(user: Any) -> tuple[Ask, ...]:
    """Return the waiting requests after checking which reports are still up to date, within a time limit."""
    open_ = [one.pk for one in waiting_for(user) if not one.is_checked]
    found = ChangeReport.objects.filter(pk__in=open_).select_related("environment").defer("document", "content")
    signals: dict[int, str] = {}
    gathered, began = Gathered(), None
    for report in found.order_by("pk"):
        if report.environment_id not in signals:
            signals[report.environment_id] = signal(report.environment_id)
        refusal_of(report, signals[report.environment_id], gathered)
        # To gather takes longer than all that follows from it: the patience is for that.
        began = began or monotonic()
        if monotonic() - began > _PATIENCE:
            break
    return waiting_for(user)


def _may_be_stale(facts: Facts) -> bool:
    return facts.status in (workflow.OPEN, workflow.APPROVED) and not facts.execution


def _rights_of(user: Any, *, needs_roles: bool) -> UserRights:
    return UserRights(
        user.pk,
        user.get_username(),
        may_approve=may_somewhere(user, Permission.APPROVE_REPORTS),
        may_execute=may_somewhere(user, Permission.EXECUTE_REPORTS),
        roles=_roles(user) if needs_roles else frozenset(),
    )


def _roles(user: Any) -> frozenset[str]:
    """Return the user's roles, global and limited ones; ``_is_theirs`` checks the place."""
    return frozenset(role.value for role in (*roles_of(user), *(one.role for one in granted_to(user))))


def _is_theirs(user: Any, ask: str, pk: int) -> bool:
    """Return whether the user may do this in that place.

    Only checked for users with a limited role.
    """
    permission = _NEEDED.get(ask)
    if permission is None or may(user, permission):
        return True
    report = ChangeReport.objects.select_related("environment").get(pk=pk)
    return may(user, permission, place_of_report(report))


def _facts(person_pk: int) -> Iterable[tuple[int, UUID, int, Facts]]:
    """Return each report in play with its approvals: pk, id, environment and facts, in one query."""
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
    """Return whether users decided; an approval by a service account never counts."""
    by_program = getattr(row, _OWNER) is not None and row.approvals__decision == workflow.YES
    return row.approvals__person_name is not None and not by_program


def _decided(row: Any) -> Decided:
    fingerprint, roles = row.approvals__fingerprint, tuple(row.approvals__roles)
    return Decided(getattr(row, _OWNER) or row.approvals__person_name, row.approvals__decision, fingerprint, roles)


# --- rows of the page --------------------------------------------------------------------------


@dataclass(frozen=True)
class InboxRow:
    """Task with its report; ``whom`` are all users with the same task, the current one included."""

    ask: Ask
    row: ReportRow
    whom: tuple[str, ...]

    @property
    def rejection(self) -> Any:
        """Return the rejection that closed the report."""
        return next(
            (approval for approval in self.row.report.approvals.all() if approval.decision == workflow.NO), None
        )


@dataclass(frozen=True)
class Section:
    """Tasks of the same kind."""

    ask: str
    rows: tuple[InboxRow, ...]


def sections(asks: Iterable[Ask]) -> list[Section]:
    """Return tasks by kind with all values the page shows, in a constant number of queries."""
    asks = list(asks)
    related = ("environment", "created_by", "undo_of", "superseded_by")
    rows = ChangeReport.objects.filter(pk__in=[ask.pk for ask in asks]).select_related(*related)
    rows = rows.prefetch_related("approvals").defer(*_LONG, *(f"superseded_by__{name}" for name in _LONG))
    shown = {report_row.report.pk: report_row for report_row in report_rows(rows)}
    whom = _Whom()
    made = [InboxRow(ask, shown[ask.pk], whom.asked(ask)) for ask in asks]
    return [Section(ask, tuple(group)) for ask, group in groupby(made, key=lambda row: row.ask.ask)]


class _Whom:
    """Users by permission, queried once."""

    def __init__(self) -> None:
        self._names: dict[tuple[Permission, str], tuple[str, ...]] = {}

    def asked(self, one: Ask) -> tuple[str, ...]:
        """Return the names of all users with this task, sorted."""
        facts = one.facts
        if one.ask in (workflow.EXECUTE, workflow.RESUME) or self._is_executable(facts):
            kept = facts.approved_by if facts.need.count and not facts.approver_may_execute else ()
            return tuple(name for name in self._who_may(Permission.EXECUTE_REPORTS) if name not in kept)
        if one.ask in (workflow.DECIDE, workflow.OTHERS):
            out = facts.authors | {decided.user for decided in facts.decided}
            may_approve = self._who_may(Permission.APPROVE_REPORTS, facts.need.role)
            return tuple(name for name in may_approve if name not in out)
        return tuple(sorted(facts.authors))

    def _is_executable(self, facts: Facts) -> bool:
        return facts.status in (workflow.OPEN, workflow.APPROVED) and not facts.missing and not facts.stale

    def _who_may(self, permission: Permission, role: str = "") -> tuple[str, ...]:
        if (permission, role) not in self._names:
            people = User.objects.with_perm(str(permission), backend=MODEL_BACKEND).order_by("username")
            if permission in USERS_ONLY:
                people = people.filter(service_account=None)
            if role:
                people = people.filter(Q(groups__name__in=(role, Role.ADMIN.value)) | Q(is_superuser=True)).distinct()
            self._names[permission, role] = tuple(people.values_list("username", flat=True))
        return self._names[permission, role]
