"""What of the change log stands behind a report. The log itself is metadata's (``metadata.change_log``)."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, Max, OuterRef
from django.db.models.functions import Coalesce

from architecture.authors import hands
from architecture.models import AppliedDataset, ChangeReport, Execution, ExecutionOperation
from architecture.services.reports import operations_of
from metadata.change_log import ShownEntry, entries, shown


@dataclass(frozen=True)
class Behind:
    """The newest of the entries behind a report, and how many there are in all."""

    entries: list[ShownEntry]
    count: int


def behind(report: ChangeReport, *, limit: int) -> Behind:
    """The entries that a report brings to the warehouse, newest first.

    Of each dataset in it: what was changed after the dataset was last carried out, and before the report
    was made. So the answer is the same before and after the report's own execution.
    """
    keys = {operation.dataset_key for operation in operations_of(report)}
    if not keys or report.undo_of_id is not None:
        return Behind([], 0)
    since = _carried_out(report, keys)
    found = [hand.entry for hand in hands(report.environment, since) if hand.at <= report.created_at]
    return Behind(shown(entries().filter(pk__in=found[:limit])), len(found))


def _carried_out(report: ChangeReport, keys: set[str]) -> dict[str, datetime | None]:
    """When what was carried out last before the report had been described, by dataset; None: never."""
    since: dict[str, datetime | None] = dict.fromkeys(keys)
    succeeded = ExecutionOperation.Status.SUCCEEDED
    beside = ExecutionOperation.objects.filter(execution=OuterRef("execution"), dataset_key=OuterRef("dataset_key"))
    finished = ExecutionOperation.objects.filter(
        ~Exists(beside.exclude(status=succeeded)),
        dataset_key__among=keys,
        execution__environment=report.environment,
    ).exclude(execution__report=report)
    # What was taken back waits again, and taking it back carried out nothing that is described.
    finished = finished.filter(execution__report__undo_of__isnull=True).exclude(
        execution__record__undo_reports__executions__status=Execution.Status.SUCCEEDED
    )
    described = Coalesce("execution__report__created_at", "execution__requested_at")
    rows = finished.annotate(described=described).filter(described__lt=report.created_at).order_by()
    for key, at in rows.values_list("dataset_key").annotate(Max("described")):
        since[str(key)] = at
    applied = AppliedDataset.objects.filter(
        environment=report.environment, dataset_key__among=keys, described_at__lt=report.created_at
    )
    for key, at in applied.values_list("dataset_key", "described_at"):
        known = since[str(key)]
        since[str(key)] = at if known is None else max(known, at)
    return since
