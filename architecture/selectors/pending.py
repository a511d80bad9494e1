"""Pending changes: operations that a report of the current metadata would have, with the users who edited it.

The plan reads all metadata, so it is computed once for a signal of its inputs (``outdated_reports.signal``) and cached.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.core.cache import cache
from django.db.models import Q, QuerySet

from architecture.domain import operations as ops
from architecture.domain import report_states
from architecture.domain.change_policy import is_applied_by_loads
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Environment
from architecture.selectors.authors import authors, carried_out
from architecture.selectors.outdated_reports import Inputs
from architecture.selectors.report_details import what_changes
from architecture.services.reports import Gathered
from elevata.core.errors import MetadataError, as_sentence
from metadata.domain.scope import ALL, DATASET, SCHEMA, Scope
from metadata.models import TargetDataset

LISTED = 20
_CACHE_SECONDS = 3600


@dataclass(frozen=True)
class PendingOperation:
    """Change of one dataset that is not executed. ``what`` names the column, or what it was and becomes.

    ``is_automatic``: the next load applies it.
    """

    key: str
    op: str
    what: str
    dataset: str
    decision: str
    is_automatic: bool

    @property
    def schema(self) -> str:
        return self.dataset.partition(".")[0]


@dataclass(frozen=True)
class Pending:
    """Pending changes of an environment, a schema or a dataset.

    ``problem`` is the reason why they are not known. ``others`` are the users besides the current one whose edits are
    among them, ``reports`` the open reports that have these datasets in scope.
    """

    scope: Scope
    operations: tuple[PendingOperation, ...] = ()
    problem: str = ""
    others: tuple[str, ...] = ()
    reports: tuple[ChangeReport, ...] = ()

    @property
    def listed(self) -> tuple[PendingOperation, ...]:
        return self.operations[:LISTED]

    @property
    def is_automatic(self) -> bool:
        """Return True if the next load applies all operations."""
        return all(operation.is_automatic for operation in self.operations)


def pending_operations(
    environment: Environment, signal: str, gathered: Gathered | None = None
) -> tuple[tuple[PendingOperation, ...], str]:
    """Return all pending operations of an environment, or the reason why they are not known.

    ``signal`` must be computed before ``gathered``.
    """
    name = f"pending-operations:{environment.pk}:{signal}"
    known = cache.get(name)
    if known is None:
        known = _planned(environment, gathered or Gathered())
        cache.set(name, known, _CACHE_SECONDS)
    return known


def _planned(environment: Environment, gathered: Gathered) -> tuple[tuple[PendingOperation, ...], str]:
    try:
        basis = gathered.basis(environment, Scope())
        operations = basis.report().operations
    except (Refused, MetadataError) as problem:
        return (), as_sentence(problem.one_line())
    planned: dict[tuple[str, str, str], PendingOperation] = {}
    for operation in operations:
        # A history follows its dataset: the same change of both counts once, with the stricter decision.
        what = what_changes(operation)
        change = (operation.dataset_key, operation.op, what)
        former = planned.get(change)
        if former is None:
            is_automatic = is_applied_by_loads(operation, basis.policy)
            planned[change] = PendingOperation(*change, operation.dataset, operation.decision, is_automatic)
        elif ops.DECISIONS.index(operation.decision) > ops.DECISIONS.index(former.decision):
            is_automatic = former.is_automatic and is_applied_by_loads(operation, basis.policy)
            planned[change] = replace(former, decision=operation.decision, is_automatic=is_automatic)
    return tuple(planned.values()), ""


def pending_of_dataset(
    environment: Environment, dataset: TargetDataset, *, user: Any, inputs: Inputs, upstream: Collection[TargetDataset]
) -> Pending:
    """Return the pending changes of one dataset with its history, and of datasets ``upstream`` that it reads.

    The reports are left out, and the users of changes that loads apply, which nobody approves.
    """
    operations, problem = pending_operations(environment, inputs.signal, inputs.gathered)
    own = {text for row in (dataset, *upstream) for text in (str(row.key), str(row))}
    operations = tuple(item for item in operations if own & {item.key, item.dataset})
    result = Pending(Scope(DATASET, str(dataset)), operations, problem)
    return result if result.is_automatic else replace(result, others=_others(environment, operations, user))


def pending(environment: Environment, *, user: Any, schema: str = "") -> Pending:
    """Return the pending changes of an environment, or of one schema, with users and reports."""
    inputs = Inputs(environment.pk)
    operations, problem = pending_operations(environment, inputs.signal, inputs.gathered)
    scope = Scope(SCHEMA, schema) if schema else Scope()
    if schema:
        operations = tuple(item for item in operations if item.schema == schema)
    reports = tuple(open_reports(environment, scope)) if operations else ()
    return Pending(scope, operations, problem, _others(environment, operations, user), reports)


def _others(environment: Environment, operations: Collection[PendingOperation], user: Any) -> tuple[str, ...]:
    """Return the other users whose edits are among these operations."""
    if not operations:
        return ()
    names = authors(environment, carried_out(environment, {operation.key for operation in operations}))
    return tuple(sorted(name for name in names if name != user.get_username()))


def open_reports(environment: Environment, scope: Scope) -> Iterable[ChangeReport]:
    """Return the newest reports that are not executed and have this scope, or a wider one."""
    return covering_reports(environment, scope).filter(executions__isnull=True)[:3]


def covering_reports(environment: Environment, scope: Scope) -> QuerySet[ChangeReport]:
    """Return the open and approved reports that have this scope, or a wider one, newest first; undo reports apart."""
    wider = Q(scope__kind=ALL)
    if scope.kind == DATASET:
        wider |= Q(scope__kind=SCHEMA, scope__name=scope.name.partition(".")[0])
    if scope.kind != ALL:
        wider |= Q(scope__kind=scope.kind, scope__name=scope.name)
    statuses = (report_states.OPEN, report_states.APPROVED)
    rows = ChangeReport.objects.filter(wider, environment=environment, status__in=statuses, undo_of__isnull=True)
    return rows.select_related("environment").defer("content").order_by("-pk")
