"""Runs that wrote rows, which architecture must know before it restores a table to an older version."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from django.db.models import F, Q

from architecture.models import Environment
from loader.domain.runs.maintenance import COMPACT
from loader.models import DatasetRun


def runs_that_wrote(
    *, environment: Environment, dataset_keys: Collection[str], after: datetime
) -> Mapping[str, Sequence[str]]:
    """Return ids of the runs that ended on a dataset after a time and moved its table, oldest first, by dataset key.

    A compaction moves the table's version, but no row of it.
    """
    moved = Q(table_version_before__isnull=True) | Q(table_version_after__gt=F("table_version_before"))
    rows = DatasetRun.objects.filter(
        moved,
        dataset_key__among=dataset_keys,
        run__environment=environment,
        table_version_after__isnull=False,
        finished_at__gt=after,
    ).exclude(run__kind=COMPACT)
    found: dict[str, list[str]] = {}
    for key, run_id in rows.order_by("finished_at", "pk").values_list("dataset_key", "run__run_id"):
        found.setdefault(str(key), []).append(run_id)
    return found
