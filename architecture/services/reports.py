"""Creation of change reports, and the check that one is up to date."""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce

from architecture.domain import decisions, report_states
from architecture.domain import report as domain
from architecture.domain.decisions import Decided
from architecture.domain.operations import Operation, Warning, operation_of
from architecture.domain.planning.left_out import left_out
from architecture.domain.refusals import Refused
from architecture.domain.states.flat_states import of_row
from architecture.models import ChangeReport, Environment
from architecture.permissions import must_build, who_answers
from architecture.selectors.authors import authors, carried_out, since_when
from architecture.services.environments import environment_or_own
from architecture.services.notifications import settle_report, tell_report_waiting
from architecture.services.observations import Observations
from architecture.services.refreshes import CannotRefresh, refresh_now
from architecture.services.report_basis import Basis, gather, named_scope, table_keys, tables_in_scope
from architecture.services.row_signatures import sign_report
from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import must_write
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_change, record_why
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states
from metadata.domain.scope import Scope

log = logging.getLogger(__name__)

ANSWERS = Coalesce("person__service_account__owner__username", "person__username")

# Reports in these states can still be executed, or have nothing to execute.
CURRENT_STATUSES = (report_states.OPEN, report_states.APPROVED, report_states.BLOCKED, report_states.NO_CHANGES)


@transaction.atomic
def build_report(
    *, environment: Environment, scope: Scope | None = None, user: Any = None, observations: Observations | None = None
) -> ChangeReport:
    """Create the report of a scope (default: all) from metadata, applied state and observations.

    If nothing changed, the existing report is returned, with its approvals. A different report supersedes the open
    ones of its scope. ``observations`` defaults to the last observation. Raises Refused NOT_OBSERVED if there is none.
    """
    return build_on_basis(environment, scope or Scope(), user, observations)[1]


def plan_report(
    *, scope: Scope, environment: str = "", local: bool | None = None
) -> tuple[domain.ChangeReport, ChangeReport]:
    """Refresh the tables, then create and store the report for the current actor; return it with its row.

    ``environment`` is a name, default the installation's own. Another environment's warehouse cannot be observed, so
    its last observation is used, as it is when no worker answers.
    """
    row = environment_or_own(environment)
    scope = named_scope(environment=row, scope=scope)
    refresh_state(environment=row, keys=lambda: tables_in_scope(environment=row, scope=scope), local=local)
    with transaction.atomic():
        return build_on_basis(row, scope, current_actor().user)[:2]


def refresh_state(*, environment: Environment, keys: Callable[[], Collection[str]], local: bool | None = None) -> None:
    """Observe tables, if they belong to this installation's own environment and a runner is available.

    Otherwise the last observation is used. ``keys`` is called only if needed.
    """
    if environment.name != settings.ENVIRONMENT:
        return
    try:
        refresh_now(environment=environment, keys=keys(), local=local)
    except CannotRefresh as problem:
        log.warning("the refresh failed, so the last observations are used: %s", problem)


def build_on_basis(
    environment: Environment, scope: Scope, user: Any, observations: Observations | None = None
) -> tuple[domain.ChangeReport, ChangeReport, Basis]:
    """Create the report of a scope, in the caller's transaction; return it with its row and its inputs.

    Raise Refused NOT_PERMITTED for a user without a role for the scope; the system (None) needs none.
    """
    if user is not None:
        must_build(user, scope, environment.name)
    Environment.objects.select_for_update().get(pk=environment.pk)  # reports of one environment are serialized
    basis = gather(environment=environment, scope=scope, observations=observations)
    warnings: tuple[Warning, ...] = ()
    if scope.without_blocked:
        basis, warnings = _without_blocked(basis)
    made = basis.report()
    made = replace(made, warnings=(*warnings, *made.warnings))
    row = _existing_report(basis, made) or store_report(basis, made, user)
    record_why_of(row, "requested")
    return made, row, basis


def _without_blocked(basis: Basis) -> tuple[Basis, tuple[Warning, ...]]:
    """Return the inputs without the datasets whose changes the policy blocks, and a warning for each of these."""
    out = left_out(basis.planned, basis.keys())
    if not out.keys:
        return basis.within(replace(basis.scope, without_blocked=False)), ()
    since = carried_out(basis.environment, out.warnings.keys())
    warnings = []
    for key, warning in out.warnings.items():
        names = ", ".join(sorted(authors(basis.environment, {key: since[key]})))
        message = f"{warning.message}. Changed by {names}" if names else warning.message
        warnings.append(replace(warning, message=message))
    scope = replace(basis.scope, without=tuple(sorted(out.keys)))
    return basis.within(scope), tuple(sorted(warnings, key=lambda warning: warning.dataset))


def store_report(
    basis: Basis, made: domain.ChangeReport, user: Any, *, undo_of: Any = None, extra: dict | None = None
) -> ChangeReport:
    """Store a report. ``extra`` is added to its document; ``undo_of`` is the record that it undoes."""
    must_write()
    since = since_when(basis.environment, made.operations, basis.desired) if undo_of is None else {}
    names = [who_answers(user)] if undo_of is not None else sorted(authors(basis.environment, since))
    rows = {"rows": [operation.as_row() for operation in made.operations], "since": since}
    row = ChangeReport(
        environment=basis.environment,
        scope=basis.scope.as_json(),
        scope_hash=scope_hash(basis.scope),
        title=domain.title_of(made.operations, basis.scope),
        document=made.as_json() | rows | (extra or {}),
        content=made.content,
        fingerprint=made.fingerprint,
        status=made.status,
        risk=made.risk,
        destructive=made.destructive,
        authors=names,
        through=basis.through,
        observed_at=basis.observed_at(),
        created_by=user,
        undo_of=undo_of,
    )
    row.signature = sign_report(row)
    row.save(force_insert=True)
    if undo_of is None:
        _supersede(row)
    need = basis.policy.approvals[row.risk]
    if row.status == report_states.OPEN and need.count:
        tell_report_waiting(row, need)
    return row


def record_why_of(report: ChangeReport, action: str) -> None:
    """Record the reason given for this action on a report, if any."""
    record_why(action=action, **_subject(report))


def record_decision(report: ChangeReport, action: str, note: str = "") -> None:
    """Record a decision on a report, with its note."""
    record_change(action=action, **_subject(report), after={"note": note} if note else None)


def _subject(report: ChangeReport) -> dict[str, Any]:
    name = f"{Scope.from_json(report.scope)} in {report.environment}"
    return {"subject_kind": "report", "subject_key": str(report.report_id), "subject_name": name}


def scope_hash(scope: Scope) -> str:
    """Return the hash by which reports of one scope are found, whatever was blocked when each was created."""
    return sha256_hex(replace(scope, without=()).as_json())


def operations_of(report: ChangeReport) -> tuple[Operation, ...]:
    """Return a report's operations, in order."""
    return tuple(operation_of(row) for row in report.document["rows"])


def report_document(report: ChangeReport) -> dict[str, Any]:
    """Return the report as ``change-report/v1``."""
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
    report: ChangeReport,
    observations: Observations | None = None,
    *,
    begun: bool = False,
    gathered: Gathered | None = None,
) -> Basis:
    """Return the current inputs of the report. The desired state of an undo report is stored with it.

    ``begun``: some of its operations were executed. Then its datasets are not resolved again, because its scope may
    contain a former name or a schema without datasets. Several reports can share ``gathered``.
    """
    scope = Scope.from_json(report.scope)
    if begun and not scope.everything:
        scope = replace(scope, keys=frozenset(report.content["scope"][-1]))
    if report.undo_of_id is None and gathered is not None:
        return gathered.basis(report.environment, scope)
    if report.undo_of_id is None:
        return gather(environment=report.environment, scope=scope, observations=observations)
    desired = [of_row(row) for row in report.document["desired"]["states"]]
    keys = set(report.document["desired"]["keys"])
    basis = gather(environment=report.environment, scope=scope, observations=observations, desired=desired, only=keys)
    return replace(basis, plans_feature_drops=False)


def tables_of(report: ChangeReport, *, begun: bool = False) -> frozenset[str]:
    """Return the stable keys of the tables to observe before the report is previewed or executed."""
    basis = basis_of(report, begun=begun)
    keys = basis.keys()
    return table_keys(state for state in (*basis.desired, *basis.applied) if state.key in keys)


def refuse_stale(
    report: ChangeReport, observations: Observations | None = None, gathered: Gathered | None = None
) -> Basis:
    """Compute the report again; raise Refused (POLICY_MOVED, REPORT_STALE, TABLE_MOVED) if it differs."""
    basis = basis_of(report, observations, gathered=gathered)
    made = basis.report()
    if made.fingerprint != report.fingerprint:
        raise Refused(what_moved(report.content, made.content))
    return basis


def is_stale(report: ChangeReport, gathered: Gathered | None = None) -> str:
    """Return the code of the outdated part; empty if the report is up to date."""
    try:
        refuse_stale(report, gathered=gathered)
    except Refused as refused:
        return refused.code
    return ""


def what_moved(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return the code for two differing contents: the policy's first, then the metadata's, else the warehouse's.

    Consumers of a broken contract are metadata, too, but only the operation has them.
    """
    if before["policy"] != now["policy"]:
        return "POLICY_MOVED"
    # Only one of the two was read from JSON, which has no tuples.
    was, is_ = _without_tuples(before), _without_tuples(now)
    consumers = was["current"] == is_["current"] and was["operations"] != is_["operations"]
    return "REPORT_STALE" if was["desired"] != is_["desired"] or consumers else "TABLE_MOVED"


def _without_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tuples(item) for key, item in value.items()}
    return [_without_tuples(item) for item in value] if isinstance(value, list | tuple) else value


def decisions_on(report: ChangeReport) -> tuple[Decided, ...]:
    """Return the decisions on the report, oldest first, without approvals of service accounts.

    Rows that were not written by the product (``chain.proven``) are left out.
    """
    counted = report.approvals.exclude(decision=decisions.YES, person__service_account__isnull=False)
    approvals = list(counted.annotate(who=ANSWERS).order_by("pk"))
    proven = chain.proven(*approvals)
    return tuple(
        Decided(approval.who, approval.decision, approval.fingerprint, tuple(approval.roles), approval.readers_lost)
        for approval in approvals
        if approval.pk in proven
    )


def authors_of_report(report: ChangeReport) -> frozenset[str]:
    """Return the authors of the report's changes: those known at its creation, and those since."""
    known = frozenset(report.authors)
    if report.undo_of_id is not None:
        return known
    since = carried_out(report.environment, {operation.dataset_key for operation in operations_of(report)})
    for key, mark in report.document.get("since", {}).items():
        since[key] = min(mark, since.get(key, mark))
    return known | authors(report.environment, since)


def _existing_report(basis: Basis, made: domain.ChangeReport) -> ChangeReport | None:
    """Return the newest report of this scope, if it equals ``made`` and can still be executed."""
    same = ChangeReport.objects.filter(
        environment=basis.environment, scope_hash=scope_hash(basis.scope), undo_of__isnull=True
    )
    newest = same.order_by("-pk").first()
    if newest is None or newest.fingerprint != made.fingerprint or newest.status not in CURRENT_STATUSES:
        return None
    return None if newest.executions.filter(status__in=states.ENDED).exists() else newest


def _supersede(row: ChangeReport) -> None:
    """Mark the older open reports of the scope as superseded, except those with an execution."""
    older = ChangeReport.objects.filter(
        environment=row.environment,
        scope_hash=row.scope_hash,
        undo_of__isnull=True,
        executions__isnull=True,
        pk__lt=row.pk,
    )
    older = older.filter(status__in=states.may_become(report_states.SUPERSEDED, report_states.REPORT_STEPS))
    for report in older.defer("document", "content"):
        settle_report(report)
    older.update(status=report_states.SUPERSEDED, superseded_by=row)
