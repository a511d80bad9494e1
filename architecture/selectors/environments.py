"""Queries of an environment: desired and applied states, reports, executions, records, leases."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from threading import Lock
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Count, Exists, Max, OuterRef, Prefetch, Q, QuerySet, Subquery

from architecture.domain import workflow
from architecture.domain.planning.matching import as_known
from architecture.domain.states.state_files import of_row
from architecture.domain.steps.step import CREATE_TABLE
from architecture.domain.tables import TableSpec, tables_of
from architecture.domain.workflow import Refused
from architecture.models import (
    AppliedDataset,
    Approval,
    ChangeReport,
    Environment,
    Execution,
    ExecutionEvent,
    ExecutionOperation,
    ExecutionRecord,
    Lease,
    PolicyProposal,
)
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states as job_states
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.selectors.datasets import dataset_state, dataset_states

# Cache of parsed JSON columns per process: reports, drift and undo read the states of all datasets, of which few
# change between two reads.


Value = TypeVar("Value")
# Up to this number of missing rows are read by primary key; otherwise all rows are read.
_MAX_BY_KEY = 500


class Parsed(Generic[Value]):
    """Cache of a JSON column, parsed by ``read``. ``stamp`` is the column with the time of a row's last write.

    Every write gives a row a new stamp, and a stamp that was rolled back never recurs. The newest ``most`` values
    are cached. They are shared, so callers must not change them.
    """

    def __init__(self, read: Callable[[Any], Value], *, column: str, stamp: str, most: int = 20_000) -> None:
        self._read, self._fields, self._most = read, ("pk", stamp, column), most
        self._cache: dict[tuple[int, datetime], Value] = {}
        self._lock = Lock()

    def by_pk(self, rows: QuerySet) -> dict[int, Value]:
        """Return the values of these rows, in order, with one query, and a second one for rows not in the cache."""
        stamps = list(rows.values_list(*self._fields[:2]))
        values = {pk: self._cache.get((pk, stamp)) for pk, stamp in stamps}
        missing = [pk for pk, value in values.items() if value is None]
        if missing:
            # A row that was written between the two queries has its new value; a deleted row is left out.
            values |= self._fetch(rows.filter(pk__in=missing) if len(missing) <= _MAX_BY_KEY else rows)
        return {pk: value for pk, value in values.items() if value is not None}

    def _fetch(self, rows: QuerySet) -> dict[int, Value]:
        fresh = {(pk, stamp): self._read(json) for pk, stamp, json in rows.values_list(*self._fields)}
        with self._lock:
            self._cache |= fresh
            for oldest in list(self._cache)[: max(0, len(self._cache) - self._most)]:
                del self._cache[oldest]
        return {pk: value for (pk, _), value in fresh.items()}


# --- states ----------------------------------------------------------------------------------


def _with_digest(row: dict) -> tuple[DatasetState, str]:
    return of_row(row), sha256_hex(row)


_APPLIED = Parsed(_with_digest, column="state", stamp="updated_at")


def desired_tables(states: Iterable[DatasetState]) -> tuple[TableSpec, ...]:
    """Return the physical tables of dataset states."""
    return tuple(table for state in states for table in tables_of(state))


def applied_datasets(*, environment: Environment) -> QuerySet[AppliedDataset]:
    """Return the state of each dataset after the last finished operation on it."""
    return AppliedDataset.objects.filter(environment=environment).select_related("execution")


def applied_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """Return the applied states (flat), ordered by stable key."""
    rows = AppliedDataset.objects.filter(environment=environment).order_by("dataset_key")
    return tuple(state for state, _ in applied_by_pk(rows).values())


def applied_by_pk(rows: QuerySet[AppliedDataset]) -> dict[int, tuple[DatasetState, str]]:
    """Return the states (flat) of these rows, each with the digest of the stored JSON, in order."""
    return _APPLIED.by_pk(rows)


def tables_created_at(*, environment: Environment, keys: Iterable[str]) -> dict[str, datetime]:
    """Return the time at which an execution last created each of these tables, by the table's stable key."""
    rows = ExecutionOperation.objects.filter(
        op=CREATE_TABLE,
        status=ExecutionOperation.Status.SUCCEEDED,
        execution__environment=environment,
        execution__finished_at__isnull=False,
        table_key__among=list(keys),
    )
    times = rows.order_by().values_list("table_key").annotate(at=Max("execution__finished_at"))
    return {str(key): at for key, at in times}


def described_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """Return the states in the metadata, ordered by name, with the environment's stable keys."""
    return as_known(dataset_states(), applied_states(environment=environment)).states


def described_state(dataset: TargetDataset, *, environment: Environment) -> DatasetState:
    """Return the state of a dataset (or of its base) in the metadata, with the environment's stable keys."""
    state = dataset_state(dataset)
    row = AppliedDataset.objects.filter(environment=environment, dataset_key=state.key).first()
    if row is not None:  # the dataset's key is the environment's, so only the columns' keys may differ
        return as_known([state], [of_row(row.state)]).states[0]
    name = state.qualified_name
    return next(other for other in described_states(environment=environment) if other.qualified_name == name)


def dataset_names(keys: Collection[str], *, environment: Environment) -> dict[str, str]:
    """Return the name of each stable key: from the metadata, else from applied state, else the key itself."""
    names = {key: key for key in keys}
    applied = AppliedDataset.objects.filter(environment=environment, dataset_key__among=keys)
    names |= {str(row.dataset_key): row.qualified_name for row in applied}
    described = TargetDataset.objects.filter(key__among=keys).select_related("schema")
    return names | {str(row.key): str(row) for row in described}


def environment_named(name: str) -> Environment:
    """Return the environment with this name. Raise Refused UNKNOWN_ENVIRONMENT if there is none."""
    environment = Environment.objects.filter(name=name).first()
    if environment is None:
        known = ", ".join(Environment.objects.values_list("name", flat=True)) or "none yet"
        raise Refused("UNKNOWN_ENVIRONMENT", f"there is no environment {name!r}; known: {known}")
    return environment


# --- reports ---------------------------------------------------------------------------------


def reports(*, environment: Environment | None = None) -> QuerySet[ChangeReport]:
    """Return change reports, newest first, without their long documents."""
    rows = ChangeReport.objects.select_related("environment", "created_by", "undo_of").defer("document", "content")
    rows = rows.prefetch_related(Prefetch("approvals", Approval.objects.order_by("pk")))
    return rows if environment is None else rows.filter(environment=environment)


def report_named(text: str) -> ChangeReport:
    """Return the report whose id or fingerprint starts with this text (at least 8 digits).

    Of several reports with one fingerprint, the newest is returned. Raises Refused UNKNOWN_REPORT, or AMBIGUOUS_REPORT
    if the text is the beginning of several ids or fingerprints.
    """
    rows = ChangeReport.objects.select_related("environment", "created_by", "undo_of").order_by("-pk")
    digits = text.strip().lower().replace("-", "")
    if len(digits) < 8 or not set(digits) <= set("0123456789abcdef"):
        raise Refused("UNKNOWN_REPORT", f"there is no report {text!r}")
    lowest, highest = (UUID(digits[:32].ljust(32, filler)) for filler in "0f")
    by_id = list(rows.filter(report_id__range=(lowest, highest))[:2]) if len(digits) <= 32 else []
    alike = rows.filter(fingerprint__startswith=digits)
    fingerprints = alike.order_by().values_list("fingerprint", flat=True).distinct()[:2]
    by_fingerprint = [alike.filter(fingerprint=fingerprint).first() for fingerprint in fingerprints]
    named = {report.pk: report for report in (*by_id, *by_fingerprint) if report is not None}
    if not named:
        raise Refused("UNKNOWN_REPORT", f"there is no report {text!r}")
    if len(named) > 1:
        raise Refused("AMBIGUOUS_REPORT", f"several reports begin with {text!r}")
    (report,) = named.values()
    return report


# --- executions ------------------------------------------------------------------------------


def executions(*, environment: Environment | None = None) -> QuerySet[Execution]:
    """Return executions, newest first, with their numbers of steps: all, succeeded and failed."""
    rows = (
        Execution.objects.select_related("environment", "requested_by", "report", "record")
        .defer("report__document", "report__content", "record__document")
        .annotate(
            operation_count=Count("operations"),
            done_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.SUCCEEDED)),
            failed_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.FAILED)),
        )
        .order_by("-id")
    )
    return rows if environment is None else rows.filter(environment=environment)


def execution_events(*, execution: Execution, after: int = 0) -> QuerySet[ExecutionEvent]:
    """Return an execution's log, oldest first; ``after`` is the id of the last line already read."""
    return ExecutionEvent.objects.filter(execution=execution, pk__gt=after).order_by("pk")


def records(*, environment: Environment | None = None) -> QuerySet[ExecutionRecord]:
    """Return execution records, newest first."""
    rows = ExecutionRecord.objects.select_related("environment", "execution__report").order_by("-id")
    return rows if environment is None else rows.filter(environment=environment)


def record_named(text: str) -> ExecutionRecord:
    """Return the record with this id. Raise Refused UNKNOWN_RECORD."""
    try:
        record = records().filter(record_id=UUID(text)).first()
    except ValueError:
        record = None
    if record is None:
        raise Refused("UNKNOWN_RECORD", f"there is no record {text!r}")
    return record


def leases_held(*, environment: Environment) -> QuerySet[Lease]:
    """Return the leases that are held now, oldest first."""
    return Lease.objects.filter(environment=environment).exclude(holder_kind="").order_by("taken_at")


# --- open tasks -------------------------------------------------------------------------------

_UNFINISHED = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.REJECTED)


def reports_in_play(person_pk: int) -> QuerySet[ChangeReport]:
    """Return the reports that may need an action of a user, newest first.

    These are the newest reports of their scopes that were neither executed nor closed, and the user's own reports
    that were superseded by another user's report not executed yet. One record may have several open undo reports.
    The annotation ``live`` is the state of the newest execution.
    """
    same_scope = ChangeReport.objects.filter(
        environment=OuterRef("environment"),
        scope_hash=OuterRef("scope_hash"),
        undo_of__isnull=True,
        pk__gt=OuterRef("pk"),
    )
    same_undo = ChangeReport.objects.filter(
        undo_of=OuterRef("undo_of"), scope_hash=OuterRef("scope_hash"), pk__gt=OuterRef("pk")
    )
    is_undo = Q(undo_of__isnull=False)
    newest = (~is_undo & ~Exists(same_scope)) | (is_undo & (Q(status=workflow.OPEN) | ~Exists(same_undo)))
    own = Q(created_by=person_pk, status=workflow.SUPERSEDED) & ~Exists(same_scope.filter(created_by=person_pk))
    successors = same_scope.filter(status__in=(workflow.OPEN, workflow.APPROVED), executions__isnull=True)
    executions_ = Execution.objects.filter(report=OuterRef("pk")).order_by("-pk")
    return (
        ChangeReport.objects.annotate(live=Subquery(executions_.values("status")[:1]))
        .filter((Q(status__in=_UNFINISHED) & newest) | (own & Exists(successors)))
        .filter(Q(live__isnull=True) | Q(live__in=job_states.RESTARTABLE))
        .order_by("-pk")
    )


def reports_to_execute() -> QuerySet[ChangeReport]:
    """Return the open and approved reports without an execution, except abandoned ones, without their long columns."""
    rows = ChangeReport.objects.filter(status__in=(workflow.OPEN, workflow.APPROVED))
    return rows.exclude(executions__status__in=_DECIDING).select_related("environment").defer("document", "content")


# States of executions after which a report cannot be executed again.
_DECIDING = sorted(job_states.STEPS.keys() - {job_states.ABANDONED})


def open_proposal(environment: Environment) -> PolicyProposal | None:
    """Return the looser change policy that waits for a second user in an environment; None if there is none."""
    proposals = PolicyProposal.objects.filter(environment=environment, status=PolicyProposal.Status.PROPOSED)
    return proposals.select_related("proposed_by").first()


def environment_names() -> list[str]:
    """Return the names of the environments, sorted."""
    return list(Environment.objects.order_by("name").values_list("name", flat=True))
