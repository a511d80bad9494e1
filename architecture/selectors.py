"""Questions about what should be, what was applied and what was decided, shared by pages, the API and the loader."""

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Exists, Max, OuterRef, Prefetch, Q, QuerySet, Subquery

from architecture.domain.planning.identity import as_known
from architecture.domain.reports import workflow
from architecture.domain.reports.workflow import Refused
from architecture.domain.states.flat import of_row
from architecture.domain.states.tables import TableSpec, tables_of
from architecture.domain.steps.step import CREATE_TABLE
from architecture.json_cache import Parsed
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
from metadata.selectors import dataset_state, dataset_states

# --- states ----------------------------------------------------------------------------------


def _with_digest(row: dict) -> tuple[DatasetState, str]:
    return of_row(row), sha256_hex(row)


_APPLIED = Parsed(_with_digest, column="state", stamp="updated_at")


def desired_tables(states: Iterable[DatasetState]) -> tuple[TableSpec, ...]:
    """The physical tables that follow from dataset states."""
    return tuple(table for state in states for table in tables_of(state))


def applied_datasets(*, environment: Environment) -> QuerySet[AppliedDataset]:
    """Return the state of each dataset after the last finished operation on it."""
    return AppliedDataset.objects.filter(environment=environment).select_related("execution")


def applied_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """The applied states themselves (flat), ordered by stable key."""
    rows = AppliedDataset.objects.filter(environment=environment).order_by("dataset_key")
    return tuple(state for state, _ in applied_by_pk(rows).values())


def applied_by_pk(rows: QuerySet[AppliedDataset]) -> dict[int, tuple[DatasetState, str]]:
    """Return the states (flat) of these rows, each with the digest of what was read, in their order."""
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
    """Return the described states, ordered by name, under the stable keys by which the environment knows them."""
    return as_known(dataset_states(), applied_states(environment=environment)).states


def described_state(dataset: TargetDataset, *, environment: Environment) -> DatasetState:
    """One dataset's state (of a history dataset, that of its base) under the keys of its own tables there."""
    state = dataset_state(dataset)
    row = AppliedDataset.objects.filter(environment=environment, dataset_key=state.key).first()
    if row is not None:  # known by its key, so only its columns may have others
        return as_known([state], [of_row(row.state)]).states[0]
    named = state.qualified_name
    return next(one for one in described_states(environment=environment) if one.qualified_name == named)


def dataset_names(keys: Collection[str], *, environment: Environment) -> dict[str, str]:
    """A name for each stable key: as metadata has it, as it was applied, or the key itself."""
    names = {key: key for key in keys}
    applied = AppliedDataset.objects.filter(environment=environment, dataset_key__among=keys)
    names |= {str(row.dataset_key): row.qualified_name for row in applied}
    described = TargetDataset.objects.filter(key__among=keys).select_related("schema")
    return names | {str(row.key): str(row) for row in described}


def environment_named(name: str) -> Environment:
    """Refused UNKNOWN_ENVIRONMENT if there is none of that name."""
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
    """The report of this id, or of a fingerprint beginning with this text (8 characters at least), the newest one.

    Refused UNKNOWN_REPORT.
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
    """Executions, newest first, with how many steps they have, and how many succeeded and failed."""
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


def operations_on(*, table_key: str, environment: Environment) -> QuerySet[ExecutionOperation]:
    """Every step that one table has seen, newest first."""
    return (
        ExecutionOperation.objects.filter(table_key=table_key, execution__environment=environment)
        .select_related("execution")
        .order_by("-execution_id", "-ordinal")
    )


def execution_events(*, execution: Execution, after: int = 0) -> QuerySet[ExecutionEvent]:
    """An execution's log, oldest first; ``after`` is the id of the last line already seen."""
    return ExecutionEvent.objects.filter(execution=execution, pk__gt=after).order_by("pk")


def records(*, environment: Environment | None = None) -> QuerySet[ExecutionRecord]:
    """Execution records, newest first."""
    found = ExecutionRecord.objects.select_related("environment", "execution__report").order_by("-id")
    return found if environment is None else found.filter(environment=environment)


def record_named(text: str) -> ExecutionRecord:
    """The record of this id. Refused UNKNOWN_RECORD."""
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


# --- waiting for somebody --------------------------------------------------------------------

_IN_PLAY = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.REJECTED)


def reports_in_play(person_pk: int) -> QuerySet[ChangeReport]:
    """Reports in which somebody may be asked for something, newest first.

    Those that no newer one of their scope has replaced and that were not executed, nor given up half-way;
    and what this person made that a report of others took the place of which is still to be carried out.
    Undos of one record may stand beside each other as long as they are open. Annotated with ``live``, the
    state of the newest execution.
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
    """Return the looser policy that waits for a second person in an environment; None if there is none."""
    waiting = PolicyProposal.objects.filter(environment=environment, status=PolicyProposal.Status.PROPOSED)
    return waiting.select_related("proposed_by").first()
