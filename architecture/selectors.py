"""Questions about what should be and what was applied, shared by pages, the API and the loader."""

from collections.abc import Iterable

from django.db.models import Count, Q, QuerySet

from architecture.domain.tables import TableSpec, tables_of
from architecture.models import AppliedTable, Environment, Execution, ExecutionOperation
from metadata.domain.state import DatasetState


def desired_tables(states: Iterable[DatasetState]) -> tuple[TableSpec, ...]:
    """The physical tables that follow from dataset states."""
    return tuple(table for state in states for table in tables_of(state))


def applied_tables(*, environment: Environment) -> QuerySet[AppliedTable]:
    """What each table looked like after the last finished operation on it."""
    return AppliedTable.objects.filter(environment=environment).select_related("execution")


def executions(*, environment: Environment | None = None) -> QuerySet[Execution]:
    """Executions, newest first, with how many operations they had and how many failed."""
    found = Execution.objects.select_related("environment", "requested_by").annotate(
        operation_count=Count("operations"),
        failed_count=Count("operations", filter=Q(operations__status=ExecutionOperation.Status.FAILED)),
    )
    return found if environment is None else found.filter(environment=environment)


def operations_on(*, table_key: str, environment: Environment) -> QuerySet[ExecutionOperation]:
    """Every operation that one table has seen, newest first."""
    return (
        ExecutionOperation.objects.filter(table_key=table_key, execution__environment=environment)
        .select_related("execution")
        .order_by("-execution_id", "-ordinal")
    )
