"""Queries of an environment: desired and applied states, reports, executions, records, leases."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from threading import Lock
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Count, Exists, Max, OuterRef, Prefetch, Q, QuerySet, Subquery

from architecture.domain import workflow
from architecture.domain.planning.matching import as_known
from architecture.domain.state_files import of_row
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

# Cache of parsed JSON columns per process: reports, drift and undos read the states of all datasets, of which hardly
# any has changed since.


Value = TypeVar("Value")
# More than these are read with all the others, not by their keys.
_BY_KEY = 500


class Parsed(Generic[Value]):
    """Parsed JSON of ``column``, computed by ``read``; ``stamp`` is the time of a row's last write.

    A row that was written again has another stamp, and a rolled back stamp never recurs. The newest ``most`` values
    are cached. They are shared, so callers must not change them.
    """

    def __init__(self, read: Callable[[Any], Value], *, column: str, stamp: str, most: int = 20_000) -> None:
        self._read, self._fields, self._most = read, ("pk", stamp, column), most
        self._kept: dict[tuple[int, datetime], Value] = {}
        self._lock = Lock()

    def by_pk(self, rows: QuerySet) -> dict[int, Value]:
        """Return the values of these rows, in order: one query, and one more for rows not in the cache."""
        stamps = list(rows.values_list(*self._fields[:2]))
        found = {pk: self._kept.get((pk, stamp)) for pk, stamp in stamps}
        missing = [pk for pk, value in found.items() if value is None]
        if missing:
            # A row that was written between the two queries counts with its new value; a deleted one is
            # left out.
            found |= self._fetched(rows.filter(pk__in=missing) if len(missing) <= _BY_KEY else rows)
        return {pk: value for pk, value in found.items() if value is not None}

    def _fetched(self, rows: QuerySet) -> dict[int, Value]:
        fresh = {(pk, stamp): self._read(json) for pk, stamp, json in rows.values_list(*self._fields)}
        with self._lock:
            self._kept |= fresh
            for oldest in list(self._kept)[: max(0, len(self._kept) - self._most)]:
                del self._kept[oldest]
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
    """Return when each of these tables was last created by an execution, by the table's stable key."""
    rows = ExecutionOperation.objects.filter(
        op=CREATE_TABLE,
        status=ExecutionOperation.Status.SUCCEEDED,
        execution__environment=environment,
        execution__finished_at__isnull=False,
        table_key__among=list(keys),
    )
    found = rows.order_by().values_list("table_key").annotate(at=Max("execution__finished_at"))
    return {str(key): at for key, at in found}


def described_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """Return the described states, ordered by name, under the environment's stable keys."""
    return as_known(dataset_states(), applied_states(environment=environment)).states


def described_state(dataset: TargetDataset, *, environment: Environment) -> DatasetState:
    """Return one dataset's state (of a history dataset, that of its base) under the environment's keys."""
    state = dataset_state(dataset)
    row = AppliedDataset.objects.filter(environment=environment, dataset_key=state.key).first()
    if row is not None:  # known by its key, so only its columns may have others
        return as_known([state], [of_row(row.state)]).states[0]
    named = state.qualified_name
    return next(one for one in described_states(environment=environment) if one.qualified_name == named)


def dataset_names(keys: Collection[str], *, environment: Environment) -> dict[str, str]:
    """Return a name for each stable key: from metadata, else from applied state, else the key itself."""
    names = {key: key for key in keys}
    applied = AppliedDataset.objects.filter(environment=environment, dataset_key__among=keys)
    names |= {str(row.dataset_key): row.qualified_name for row in applied}
    described = TargetDataset.objects.filter(key__among=keys).select_related("schema")
    return names | {str(row.key): str(row) for row in described}


def environment_named(name: str) -> Environment:
    """Return the environment. Raise Refused UNKNOWN_ENVIRONMENT if there is none of that name."""
    found = Environment.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(Environment.objects.values_list("name", flat=True)) or "none yet"
        raise Refused("UNKNOWN_ENVIRONMENT", f"there is no environment {name!r}; known: {known}")
    return found


# --- reports ---------------------------------------------------------------------------------


def reports(*, environment: Environment | None = None) -> QuerySet[ChangeReport]:
    """Change reports, newest first, without their long documents."""
    found = ChangeReport.objects.select_related("environment", "created_by", "undo_of").defer("document", "content")
    found = found.prefetch_related(Prefetch("approvals", Approval.objects.order_by("pk")))
    return found if environment is None else found.filter(environment=environment)


def report_named(text: str) -> ChangeReport:
    """Return the report with this id, or the newest whose fingerprint starts with this text (at least 8 characters).

    Raises Refused UNKNOWN_REPORT.
    """
    found = ChangeReport.objects.select_related("environment", "created_by", "undo_of")
    try:
        report = found.filter(report_id=UUID(text)).first()
    except ValueError:
        wanted = text.strip().lower()
        is_start = len(wanted) >= 8 and all(letter in "0123456789abcdef" for letter in wanted)
        report = found.filter(fingerprint__startswith=wanted).order_by("-pk").first() if is_start else None
    if report is None:
        raise Refused("UNKNOWN_REPORT", f"there is no report {text!r}")
    return report


# --- executions ------------------------------------------------------------------------------


def executions(*, environment: Environment | None = None) -> QuerySet[Execution]:
    """Return executions, newest first, with the number of steps, of succeeded and of failed ones."""
    found = (
        Execution.objects.select_related("environment", "requested_by", "report", "record")
        .defer("report__document", "report__content", "record__document")
        .annotate(
            operation_count=Count("operations"),
            done_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.SUCCEEDED)),
            failed_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.FAILED)),
        )
        .order_by("-id")
    )
    return found if environment is None else found.filter(environment=environment)


def execution_events(*, execution: Execution, after: int = 0) -> QuerySet[ExecutionEvent]:
    """Return an execution's log, oldest first; ``after`` is the id of the last line already read."""
    return ExecutionEvent.objects.filter(execution=execution, pk__gt=after).order_by("pk")


def records(*, environment: Environment | None = None) -> QuerySet[ExecutionRecord]:
    """Return execution records, newest first."""
    found = ExecutionRecord.objects.select_related("environment", "execution__report").order_by("-id")
    return found if environment is None else found.filter(environment=environment)


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
    """Return the leases in force."""
    return Lease.objects.filter(environment=environment).exclude(holder_kind="").order_by("taken_at")


# --- open tasks -------------------------------------------------------------------------------

_IN_PLAY = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.REJECTED)


def reports_in_play(person_pk: int) -> QuerySet[ChangeReport]:
    """Return reports that may ask a user for an action, newest first.

    These are reports that no newer one of their scope replaced and that were neither executed nor abandoned, and
    the user's own reports that were superseded by another user's report not executed yet. Several open undos of one
    record may coexist. Annotated with ``live``, the state of the newest execution.
    """
    same_scope = ChangeReport.objects.filter(
        environment=OuterRef("environment"), scope=OuterRef("scope"), undo_of__isnull=True, pk__gt=OuterRef("pk")
    )
    same_undo = ChangeReport.objects.filter(undo_of=OuterRef("undo_of"), scope=OuterRef("scope"), pk__gt=OuterRef("pk"))
    an_undo = Q(undo_of__isnull=False)
    newest = (~an_undo & ~Exists(same_scope)) | (an_undo & (Q(status=workflow.OPEN) | ~Exists(same_undo)))
    own = Q(created_by=person_pk, status=workflow.SUPERSEDED) & ~Exists(same_scope.filter(created_by=person_pk))
    taken = same_scope.filter(status__in=(workflow.OPEN, workflow.APPROVED), executions__isnull=True)
    executions_ = Execution.objects.filter(report=OuterRef("pk")).order_by("-pk")
    return (
        ChangeReport.objects.annotate(live=Subquery(executions_.values("status")[:1]))
        .filter((Q(status__in=_IN_PLAY) & newest) | (own & Exists(taken)))
        .filter(Q(live__isnull=True) | Q(live__in=job_states.RESTARTABLE))
        .order_by("-pk")
    )


def open_proposal(environment: Environment) -> PolicyProposal | None:
    """Return the looser policy that waits for a second user in an environment; None if there is none."""
    waiting = PolicyProposal.objects.filter(environment=environment, status=PolicyProposal.Status.PROPOSED)
    return waiting.select_related("proposed_by").first()


def environment_names() -> list[str]:
    """Return the names of the environments, sorted."""
    return list(Environment.objects.order_by("name").values_list("name", flat=True))
