"""Runs that are applied to datasets: the newest one and its sequence number."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, QuerySet

from architecture.models import Environment
from architecture.selectors.environments import tables_created_at
from loader.domain.run_states import BRINGING
from loader.models import DatasetRun, LoadRun
from metadata.domain.state import DatasetState


@dataclass(frozen=True)
class Applied:
    """The newest run applied to a dataset: its load timestamp, and its sequence if its table is still the same."""

    at: datetime
    sequence: int | None


def newest_applied(
    *, environment: Environment, leading: Mapping[str, str], but: LoadRun | None = None
) -> dict[str, Applied]:
    """Return the newest run applied to each dataset, except the run ``but``.

    ``leading`` gives the key of the table that a dataset's runs commit to first, by the dataset's key.
    """
    succeeded = applied_rows().filter(run__environment=environment)
    if but is not None:
        succeeded = succeeded.exclude(run=but)
    created = tables_created_at(environment=environment, keys=leading.values())
    applied: dict[str, Applied] = {}
    rows = succeeded.filter(dataset_key__among=leading).order_by()
    newest = rows.values_list("dataset_key").annotate(
        at=Max("run__load_timestamp"), newest=Max("sequence"), finished=Max("finished_at")
    )
    for key, at, sequence, finished in newest:
        made = created.get(leading[str(key)])
        applied[str(key)] = Applied(at, None if made is not None and made > finished else sequence)
    return applied


def leading_table(dataset: DatasetState) -> str:
    """Return the stable key of the table that a dataset's runs commit to first."""
    return (dataset.history_key if dataset.historize else None) or dataset.key


def applied_rows() -> QuerySet[DatasetRun]:
    """Return the rows of runs that are applied to histories (and rawcore tables), without reverted ones."""
    return DatasetRun.objects.filter(
        run__kind__in=BRINGING,
        status=DatasetRun.Status.SUCCEEDED,
        sequence__isnull=False,
        reverted_by__isnull=True,
    )
