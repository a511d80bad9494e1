"""Questions about what should be, what was applied and what was decided, shared by pages, the API and the loader."""

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from architecture.domain.states.flat import of_row
from architecture.domain.states.tables import TableSpec, tables_of
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
)
from metadata.domain.state import DatasetState
from metadata.models import ChangeLogEntry, TargetDataset

# --- states ----------------------------------------------------------------------------------


def desired_tables(states: Iterable[DatasetState]) -> tuple[TableSpec, ...]:
    """The physical tables that follow from dataset states."""
    return tuple(table for state in states for table in tables_of(state))


def applied_datasets(*, environment: Environment) -> QuerySet[AppliedDataset]:
    """What each dataset was after the last finished operation on it."""
    return AppliedDataset.objects.filter(environment=environment).select_related("execution")


def applied_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """The applied states themselves (flat), ordered by stable key."""
    rows = AppliedDataset.objects.filter(environment=environment).order_by("dataset_key")
    return tuple(of_row(state) for state in rows.values_list("state", flat=True))


def dataset_names(keys: Collection[str], *, environment: Environment) -> dict[str, str]:
    """A name for each stable key: as metadata has it, as it was applied, or the key itself."""
    names = {key: key for key in keys}
    applied = AppliedDataset.objects.filter(environment=environment, dataset_key__in=keys)
    names |= {str(row.dataset_key): row.qualified_name for row in applied}
    described = TargetDataset.objects.filter(key__in=keys).select_related("schema")
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


def authors_of(dataset_keys: Collection[str], since: datetime | None) -> frozenset[str]:
    """User names of who changed any of these datasets after ``since`` (None: ever), by the change log."""
    return authors_since(dict.fromkeys(dataset_keys, since))


def authors_since(since: dict[str, datetime | None]) -> frozenset[str]:
    """User names of who changed a dataset after its own time, in one query.

    Keys are those of datasets and of their histories, and of source datasets: what is logged of a thing
    that belongs to a dataset carries the dataset's key.
    """
    histories = TargetDataset.objects.filter(history_of__key__in=list(since)).values_list("key", "history_of__key")
    times = dict(since) | {str(history): since[str(base)] for history, base in histories}
    entries = ChangeLogEntry.objects.filter(user__isnull=False)
    about = Q(dataset_key__in=list(times)) | Q(subject_key__in=list(times))
    found = entries.filter(about).values_list("dataset_key", "subject_key", "at", "user__username")
    return frozenset(name for dataset, subject, at, name in found if _is_after(at, times, str(dataset), subject))


def _is_after(at: datetime, times: dict[str, datetime | None], *keys: str) -> bool:
    return any(key in times and (times[key] is None or at > times[key]) for key in keys)


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


def leases_held(*, environment: Environment) -> QuerySet[Lease]:
    """Who writes where at this moment."""
    return Lease.objects.filter(environment=environment).exclude(holder_kind="").order_by("taken_at")
