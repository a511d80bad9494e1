"""Applied and described states of an environment's datasets."""

from collections.abc import Collection, Iterable
from datetime import datetime

from django.db.models import Max, QuerySet

from architecture.domain.planning.matching import as_known
from architecture.domain.states.flat_states import of_row
from architecture.domain.steps.step import CREATE_TABLE
from architecture.domain.tables import TableSpec, tables_of
from architecture.models import (
    AppliedDataset,
    Environment,
    ExecutionOperation,
)
from architecture.selectors.json_cache import Parsed
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_state, dataset_states


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


def changed_schemas(*, environment: Environment) -> set[str]:
    """Return the schemas of all tables and views that executions changed, also under their former names."""
    rows = ExecutionOperation.objects.filter(execution__environment=environment)
    names = rows.order_by().values_list("qualified_name", flat=True).distinct()
    return {name.partition(".")[0] for name in names}


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
