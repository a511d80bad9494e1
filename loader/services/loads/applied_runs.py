"""Runs in tables: the newest one that is applied to a dataset, its sequence number, and those that wrote rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Max, Q, QuerySet

from architecture.models import Environment
from architecture.selectors.dataset_states import tables_created_at
from loader.contract.run_states import BRINGING, OF_FILES
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


def runs_that_wrote(
    *, environment: Environment, dataset_keys: Collection[str], after: datetime
) -> Mapping[str, Sequence[str]]:
    """Return ids of the runs that changed rows of a dataset after a time, oldest first, by dataset key.

    ``architecture`` reads them before it restores a table to an older version. Compactions and vacuums are left out,
    because they change no rows.
    """
    moved = Q(table_version_before__isnull=True) | Q(table_version_after__gt=F("table_version_before"))
    rows = DatasetRun.objects.filter(
        moved,
        dataset_key__among=dataset_keys,
        run__environment=environment,
        table_version_after__isnull=False,
        finished_at__gt=after,
    ).exclude(run__kind__in=OF_FILES)
    run_ids: dict[str, list[str]] = {}
    for key, run_id in rows.order_by("finished_at", "pk").values_list("dataset_key", "run__run_id"):
        run_ids.setdefault(str(key), []).append(run_id)
    return run_ids
