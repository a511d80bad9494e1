"""Creation of change reports, and their inputs."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from architecture.domain import report as domain
from architecture.domain import workflow
from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import Operation, Warning, operation_of
from architecture.domain.planning.matching import Known, as_known
from architecture.domain.planning.plan import Planned
from architecture.domain.report import Scope
from architecture.domain.states.current_state import CurrentState
from architecture.domain.states.state_files import as_row, of_row
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step
from architecture.domain.tables import TableSpec, event_log_key, event_log_table, history_views, kept_histories
from architecture.domain.workflow import Decided, Refused
from architecture.models import ChangeReport, Environment
from architecture.permissions import who_answers
from architecture.selectors.authors import authors, carried_out, since_when
from architecture.selectors.environments import applied_states, described_states, desired_tables
from architecture.services.change_policy import policy_in_force
from architecture.services.notifications import settle_report, tell_report_waiting
from architecture.services.proof import proven_followed, proven_states, refuse_altered_metadata, sign_report
from architecture.services.refreshes import CannotRefresh, refresh_now
from architecture.services.states import Seen, environment_or_own, last_seen
from elevata.accounts.permissions import current_actor, must_write
from elevata.audit.services import chain
from elevata.audit.services.change_log import record_why
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states
from metadata.domain.load_policy import with_rules_of
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.selectors.datasets import dataset_states

# Inputs of a report, read once: desired, applied and observed state, and the policy.


@dataclass(frozen=True)
class Basis:
    """Inputs of a report: desired, applied and observed state (``seen``), and change policy.

    ``desired`` has the environment's stable keys; ``warnings`` name those that differ in the metadata, each with the
    key of its dataset. ``through`` is the last link of the audit chain sealed before the metadata was read,
    ``followed`` the last logic of retained histories, by their keys. Dropped tables count as absent. With
    ``plans_feature_drops``, table features that some readers lack are dropped; an undo leaves them.
    """

    environment: Environment
    scope: Scope
    desired: tuple[DatasetState, ...]
    applied: tuple[DatasetState, ...]
    seen: Seen
    policy: PolicySet
    warnings: tuple[tuple[str, Warning], ...] = ()
    through: int = 0
    followed: Mapping[str, DatasetState] = field(default_factory=dict)
    plans_feature_drops: bool = True

    @cached_property
    def current(self) -> CurrentState:
        observed = {key: table for key, table in self.seen.tables.items() if not table.dropped}
        return CurrentState.of_warehouse(self.applied, observed, self.desired, self.followed)

    def within(self, scope: Scope) -> "Basis":
        """Return the same inputs for another scope; both share the plan."""
        other = replace(self, scope=scope)
        vars(other).update(current=self.current, planned=self.planned)
        return other

    def with_metadata(self, datasets: QuerySet[TargetDataset]) -> "Basis":
        """Return the same inputs with the current metadata of these datasets as the desired state."""
        known = as_known(dataset_states(datasets), self.applied)
        return replace(self, desired=known.states, warnings=known.warnings)

    @cached_property
    def planned(self) -> Planned:
        return Planned.of(self.current, self.desired, self.policy, plans_feature_drops=self.plans_feature_drops)

    def report(self) -> domain.ChangeReport:
        """Return the report of these inputs. It is a pure function of them."""
        made = domain.build_report(
            self.current, self.desired, self.policy, self.scope, self.environment.name, self.planned
        )
        if not self.warnings:
            return made
        keys = self.keys()
        warnings = (*made.warnings, *(warning for key, warning in self.warnings if key in keys))
        ordered = sorted(warnings, key=lambda warning: (warning.dataset, warning.column, warning.code))
        return replace(made, warnings=tuple(ordered))

    def steps(self, operations: Iterable[Operation], *, readers_lost: bool = False) -> tuple[Step, ...]:
        """Return the steps for these operations. With ``readers_lost``, approvers accepted that tables lose readers."""
        operations = tuple(operations)
        keys = {operation.dataset_key for operation in operations}
        tables = self.tables({state.key for state in self.desired})
        views = views_of(self.desired, keys)
        return plan_steps(
            tables,
            self.seen.tables,
            operations,
            views,
            self._strangers(),
            readers=self.policy.readers,
            readers_lost=readers_lost,
        )

    def _strangers(self) -> frozenset[str]:
        """Return the keys of observed tables without a dataset, except retained histories."""
        known = table_keys((*self.desired, *self.applied))
        tables = {key: table for key, table in self.seen.tables.items() if key not in known and not table.dropped}
        return frozenset(tables) - kept_histories(tables)

    def before(self) -> dict[str, dict[str, Any]]:
        """Return the existing datasets as rows, by key, without dropped datasets whose history is retained."""
        applied = {state.key for state in self.applied}
        datasets = (item for item in self.current.datasets if item.base is not None or item.state.key in applied)
        return {item.state.key: as_row(item.state) for item in datasets}

    def tables(self, keys: Collection[str]) -> tuple[TableSpec, ...]:
        """Return the desired tables of these datasets."""
        return desired_tables(state for state in self.desired if state.key in keys)

    def keys(self) -> frozenset[str]:
        """Return the stable keys of the datasets in scope."""
        return self.scope.resolve(self.current, self.desired)

    def observed_at(self) -> datetime | None:
        """Return the time of the oldest observation of the tables in scope."""
        keys = self.keys()
        return self.seen.oldest(table_keys(state for state in (*self.desired, *self.applied) if state.key in keys))


def gather(
    *,
    environment: Environment,
    scope: Scope,
    seen: Seen | None = None,
    desired: Iterable[DatasetState] | None = None,
    only: Collection[str] | None = None,
    datasets: QuerySet[TargetDataset] | None = None,
) -> Basis:
    """Return the current inputs of a report.

    ``seen`` defaults to the last observation. ``desired`` replaces the metadata, ``only`` restricts applied states to
    these datasets, ``datasets`` both sides to some of the metadata. Raises Refused: NOT_OBSERVED if applied tables were
    never observed; CHANGED_OUTSIDE, APPLIED_UNPROVEN or POLICY_UNPROVEN if the database was changed outside the
    product.
    """
    if desired is None:
        refuse_altered_metadata(datasets)
    through = chain.sealed_through()
    applied = proven_states(environment=environment)
    known = as_known(dataset_states(datasets), applied) if desired is None else _stored(desired, applied)
    if datasets is not None:
        only = {state.key for state in known.states}
    if only is not None:
        applied = tuple(state for state in applied if state.key in only)
    seen = last_seen(environment=environment) if seen is None else seen
    tables = {state.key for state in applied if state.active and state.materialization == "table"}
    if tables - seen.asked or (known.states and not seen.asked):
        raise Refused("NOT_OBSERVED")
    policy = policy_in_force(environment)
    followed = proven_followed(environment=environment, states=(*known.states, *applied))
    return Basis(environment, scope, known.states, applied, seen, policy, known.warnings, through, followed)


def _stored(desired: Iterable[DatasetState], applied: Iterable[DatasetState]) -> Known:
    """Return stored desired states. Rules that an older release did not record are the applied ones."""
    known = {state.key: state for state in applied}
    return Known(tuple(with_rules_of(state, known.get(state.key)) for state in desired))


def table_keys(states: Iterable[DatasetState]) -> frozenset[str]:
    """Return the stable keys of all possible tables of these datasets: base, history and event log."""
    keys = set()
    for state in states:
        keys.add(state.key)
        if state.history_key is not None:
            keys.add(state.history_key)
        if state.history_key is not None or event_log_table(state) is not None:
            keys.add(event_log_key(state))
    return frozenset(keys)


def tables_in_scope(*, environment: Environment, scope: Scope) -> frozenset[str]:
    """Return the stable keys of the tables to observe for a report of this scope. Raise ScopeProblem if it is empty."""
    desired, applied = described_states(environment=environment), applied_states(environment=environment)
    keys = scope.resolve(CurrentState.of_warehouse(applied, {}, desired), desired)
    return table_keys(state for state in (*desired, *applied) if state.key in keys)


def views_of(states: Iterable[DatasetState], keys: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the statements that publish views over the histories of these datasets, by the history's key."""
    return {
        state.history_key: history_views(state)
        for state in states
        if state.key in keys and state.active and state.historize and state.history_key is not None
    }


log = logging.getLogger(__name__)

ANSWERS = Coalesce("person__service_account__owner__username", "person__username")

# Reports in these states can still be executed, or have nothing to execute.
CURRENT_STATUSES = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.NO_CHANGES)


@transaction.atomic
def build_report(
    *, environment: Environment, scope: Scope | None = None, user: Any = None, seen: Seen | None = None
) -> ChangeReport:
    """Create the report of a scope (default: all) from metadata, applied state and observations.

    If nothing changed, the existing report is returned, with its approvals. A different report supersedes the open
    ones of its scope. ``seen`` defaults to the last observation. Raises Refused NOT_OBSERVED if there is none.
    """
    return build_on_basis(environment, scope or Scope(), user, seen)[1]


def plan_report(
    *, scope: Scope, environment: str = "", local: bool | None = None
) -> tuple[domain.ChangeReport, ChangeReport]:
    """Refresh the tables, then create and store the report for the current actor; return it with its row.

    ``environment`` is a name, default the installation's own. Another environment's warehouse cannot be observed, so
    its last observation is used, as it is when no worker answers.
    """
    row = environment_or_own(environment)
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
    environment: Environment, scope: Scope, user: Any, seen: Seen | None = None
) -> tuple[domain.ChangeReport, ChangeReport, Basis]:
    """Create the report of a scope, in the caller's transaction; return it with its row and its inputs."""
    Environment.objects.select_for_update().get(pk=environment.pk)  # reports of one environment are serialized
    basis = gather(environment=environment, scope=scope, seen=seen)
    made = basis.report()
    row = _existing_report(basis, made) or store_report(basis, made, user)
    record_why_of(row, "requested")
    return made, row, basis


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
        scope=scope_row(basis.scope),
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
    if row.status == workflow.OPEN and need.count:
        tell_report_waiting(row, need)
    return row


def record_why_of(report: ChangeReport, action: str) -> None:
    """Record the reason given for this action on a report, if any."""
    key = str(report.report_id)
    name = f"{Scope(**report.scope).describe()} in {report.environment}"
    record_why(action=action, subject_kind="report", subject_key=key, subject_name=name)


def scope_row(scope: Scope) -> dict[str, Any]:
    """Return a scope for storage; ``Scope(**row)`` restores it."""
    return {"kind": scope.kind, "name": scope.name, "target_only": scope.target_only}


def scope_hash(scope: Scope) -> str:
    return sha256_hex(scope_row(scope))


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
    report: ChangeReport, seen: Seen | None = None, *, begun: bool = False, gathered: Gathered | None = None
) -> Basis:
    """Return the current inputs of the report. The desired state of an undo report is stored with it.

    ``begun``: some of its operations were executed. Then its datasets are not resolved again, because its scope may
    contain a former name or a schema without datasets. Several reports can share ``gathered``.
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
    basis = gather(environment=report.environment, scope=scope, seen=seen, desired=desired, only=keys)
    return replace(basis, plans_feature_drops=False)


def tables_of(report: ChangeReport, *, begun: bool = False) -> frozenset[str]:
    """Return the stable keys of the tables to observe before the report is previewed or executed."""
    basis = basis_of(report, begun=begun)
    keys = basis.keys()
    return table_keys(state for state in (*basis.desired, *basis.applied) if state.key in keys)


def refuse_stale(report: ChangeReport, seen: Seen | None = None, gathered: Gathered | None = None) -> Basis:
    """Compute the report again; raise Refused (POLICY_MOVED, REPORT_STALE, TABLE_MOVED) if it differs."""
    basis = basis_of(report, seen, gathered=gathered)
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
    counted = report.approvals.exclude(decision=workflow.YES, person__service_account__isnull=False)
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
    older = older.filter(status__in=states.may_become(workflow.SUPERSEDED, workflow.REPORT_STEPS))
    for report in older.defer("document", "content"):
        settle_report(report)
    older.update(status=workflow.SUPERSEDED, superseded_by=row)
