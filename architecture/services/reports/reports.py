"""Change reports: made for a scope, superseded by newer ones, found stale by making them again."""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce

from architecture.authors import authors, carried_out, since_when
from architecture.domain.operations import Operation, operation_of
from architecture.domain.reports import report as domain
from architecture.domain.reports import workflow
from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Decided, Refused
from architecture.domain.states.flat import of_row
from architecture.models import ChangeReport, Environment
from architecture.selectors import environment_named
from architecture.services.actors import who_answers
from architecture.services.executions.proof import sign_report
from architecture.services.notifications import tell_report_waiting
from architecture.services.reports.report_inputs import Basis, gather, table_keys, tables_in_scope
from architecture.services.states.environments import current_environment
from architecture.services.states.observed_states import CannotLook, Seen, look
from elevata.jobs import states
from metadata.permissions import must_write
from metadata.services import chain
from metadata.services.actor import current_actor
from metadata.services.changelog import record_why

log = logging.getLogger(__name__)

ANSWERS = Coalesce("person__service_account__owner__username", "person__username")

# Reports in these states may still be carried out, or need nothing.
STANDING = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.NO_CHANGES)


@transaction.atomic
def build_report(
    *, environment: Environment, scope: Scope | None = None, person: Any = None, seen: Seen | None = None
) -> ChangeReport:
    """Make the report of a scope (all, if none is given) from metadata, applied state and what was seen.

    The same report again is the same row, with its approvals. A different one supersedes the open
    ones of its scope. Without ``seen`` the last observation counts. Refused NOT_OBSERVED if there is none.
    """
    return _build(environment, scope or Scope(), person, seen)[1]


def plan_report(
    *, scope: Scope, environment: str = "", local: bool | None = None
) -> tuple[domain.ChangeReport, ChangeReport]:
    """Look at the warehouse, make the report and keep it; return it and the row that keeps it.

    The one who acts here and now asks for it.

    ``environment`` is a name, the installation's own if it is empty. Another one's warehouse cannot be
    looked at from here: its last observation counts, as it does where nobody can look.
    """
    own = not environment or environment == settings.ENVIRONMENT
    row = current_environment() if own else environment_named(environment)
    look_again(environment=row, keys=lambda: tables_in_scope(environment=row, scope=scope), local=local)
    with transaction.atomic():
        return _build(row, scope, current_actor().user, None)


def look_again(*, environment: Environment, keys: Callable[[], Collection[str]], local: bool | None = None) -> None:
    """Have tables looked at, if they are of this installation's own environment and somebody can.

    Else what was seen last counts. ``keys`` are found only where they are needed.
    """
    if environment.name != settings.ENVIRONMENT:
        return
    try:
        look(environment=environment, keys=keys(), local=local)
    except CannotLook as problem:
        log.warning("compared with what was seen last, for the warehouse cannot be looked at: %s", problem)


def _build(
    environment: Environment, scope: Scope, person: Any, seen: Seen | None
) -> tuple[domain.ChangeReport, ChangeReport]:
    Environment.objects.select_for_update().get(pk=environment.pk)  # reports of one environment come one by one
    basis = gather(environment=environment, scope=scope, seen=seen)
    made = basis.report()
    row = _standing(basis, made) or store_report(basis, made, person)
    record_why_of(row, "requested")
    return made, row


def store_report(
    basis: Basis, made: domain.ChangeReport, person: Any, *, undo_of: Any = None, extra: dict | None = None
) -> ChangeReport:
    """Keep a report. ``extra`` goes into its document, ``undo_of`` is the record that it takes back."""
    must_write()
    since = since_when(basis.environment, made.operations, basis.desired) if undo_of is None else {}
    hands = [who_answers(person)] if undo_of is not None else sorted(authors(basis.environment, since))
    rows = {"rows": [operation.as_row() for operation in made.operations], "since": since}
    row = ChangeReport(
        environment=basis.environment,
        scope=scope_row(basis.scope),
        document=made.as_json() | rows | (extra or {}),
        content=made.content,
        fingerprint=made.fingerprint,
        status=made.status,
        risk=made.risk,
        destructive=made.destructive,
        authors=hands,
        through=basis.through,
        observed_at=basis.seen.at,
        created_by=person,
        undo_of=undo_of,
    )
    row.signature = sign_report(row)
    row.save(force_insert=True)
    if undo_of is None:
        _supersede(row)
    need = basis.policy.approvals[row.risk]
    if row.status == workflow.OPEN and need.count:
        tell_report_waiting(row, need)
    return row


def record_why_of(report: ChangeReport, action: str) -> None:
    """Record the reason given for this action on a report; nothing if none was given."""
    key = str(report.report_id)
    name = f"{Scope(**report.scope).describe()} in {report.environment}"
    record_why(action=action, subject_kind="report", subject_key=key, subject_name=name)


def scope_row(scope: Scope) -> dict[str, Any]:
    """A scope for storage; ``Scope(**row)`` is the scope again."""
    return {"kind": scope.kind, "name": scope.name, "target_only": scope.target_only}


def operations_of(report: ChangeReport) -> tuple[Operation, ...]:
    """A report's operations, in its order."""
    return tuple(operation_of(row) for row in report.document["rows"])


def shown(report: ChangeReport) -> dict[str, Any]:
    """The report as everybody reads it, ``change-report/v1``."""
    hidden = ("rows", "since", "desired", "restores")
    return {name: value for name, value in report.document.items() if name not in hidden}


class Gathered:
    """Inputs of reports as they are now, read once per environment."""

    def __init__(self) -> None:
        self._known: dict[int, Basis] = {}

    def basis(self, environment: Environment, scope: Scope) -> Basis:
        if environment.pk not in self._known:
            self._known[environment.pk] = gather(environment=environment, scope=Scope())
        return self._known[environment.pk].within(scope)


def basis_of(
    report: ChangeReport, seen: Seen | None = None, *, begun: bool = False, gathered: Gathered | None = None
) -> Basis:
    """Return the inputs of the report as they are now; an undo's desired state is its own, not the metadata's.

    ``begun``: some of it was done. Then it stays about the datasets that it was about: its scope may name
    one as it was called before, or a schema that the last one has left. ``gathered`` serves many reports.
    """
    scope = Scope(**report.scope)
    if begun and not scope.everything:
        scope = replace(scope, keys=frozenset(report.content["scope"][-1]))
    if report.undo_of_id is None and gathered is not None:
        return gathered.basis(report.environment, scope)
    if report.undo_of_id is None:
        return gather(environment=report.environment, scope=scope, seen=seen)
    desired = [of_row(row) for row in report.document["desired"]["states"]]
    keys = set(report.document["desired"]["keys"])
    return gather(environment=report.environment, scope=scope, seen=seen, desired=desired, only=keys)


def tables_of(report: ChangeReport, *, begun: bool = False) -> frozenset[str]:
    """Stable keys of the tables to look at before the report is previewed or executed."""
    basis = basis_of(report, begun=begun)
    keys = basis.keys()
    return table_keys(state for state in (*basis.desired, *basis.applied) if state.key in keys)


def refuse_stale(report: ChangeReport, seen: Seen | None = None, gathered: Gathered | None = None) -> Basis:
    """Make the report again; Refused with what moved (POLICY_MOVED, REPORT_STALE, TABLE_MOVED) if it differs."""
    basis = basis_of(report, seen, gathered=gathered)
    made = basis.report()
    if made.fingerprint != report.fingerprint:
        raise Refused(what_moved(report.content, made.content))
    return basis


def is_stale(report: ChangeReport, gathered: Gathered | None = None) -> str:
    """The code of what moved since the report was made; empty if nothing did."""
    try:
        refuse_stale(report, gathered=gathered)
    except Refused as refused:
        return refused.code
    return ""


def what_moved(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The code for two contents that differ: policy first, then metadata; what is left is the warehouse."""
    if before["policy"] != now["policy"]:
        return "POLICY_MOVED"
    # Contents went through JSON on one side only.
    return "REPORT_STALE" if _plain(before["desired"]) != _plain(now["desired"]) else "TABLE_MOVED"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def decisions_on(report: ChangeReport) -> tuple[Decided, ...]:
    """Return the decisions on the report, oldest first. A yes of a service account never counts.

    A row that did not come by the product (``chain.proven``) is not among them.
    """
    by_people = report.approvals.exclude(decision=workflow.YES, person__service_account__isnull=False)
    approvals = list(by_people.annotate(who=ANSWERS).order_by("pk"))
    kept = chain.proven(*approvals)
    return tuple(
        Decided(one.who, one.decision, one.fingerprint, tuple(one.roles)) for one in approvals if one.pk in kept
    )


def authors_of_report(report: ChangeReport) -> frozenset[str]:
    """Return the authors of what the report changes: those found when it was created, and those found now."""
    known = frozenset(report.authors)
    if report.undo_of_id is not None:
        return known
    since = carried_out(report.environment, {operation.dataset_key for operation in operations_of(report)})
    for key, mark in report.document.get("since", {}).items():
        since[key] = min(mark, since.get(key, mark))
    return known | authors(report.environment, since)


def _standing(basis: Basis, made: domain.ChangeReport) -> ChangeReport | None:
    """The newest report of this scope, if it is this very one and still to be carried out."""
    same = ChangeReport.objects.filter(
        environment=basis.environment, scope=scope_row(basis.scope), undo_of__isnull=True
    )
    newest = same.order_by("-pk").first()
    if newest is None or newest.fingerprint != made.fingerprint or newest.status not in STANDING:
        return None
    return None if newest.executions.filter(status__in=states.ENDED).exists() else newest


def _supersede(row: ChangeReport) -> None:
    """Close the open reports of the scope; those that are being executed are left alone."""
    older = ChangeReport.objects.filter(
        environment=row.environment, scope=row.scope, undo_of__isnull=True, executions__isnull=True, pk__lt=row.pk
    )
    older.filter(status__in=states.may_become(workflow.SUPERSEDED, workflow.REPORT_STEPS)).update(
        status=workflow.SUPERSEDED, superseded_by=row
    )
