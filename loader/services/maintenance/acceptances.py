"""Acceptances of tables that were changed outside a load: request and manifest."""

from typing import Any

from django.db import transaction

from elevata.core.database import retried
from loader.contract.manifest.maintenance import AcceptManifest
from loader.contract.run_states import ACCEPT
from loader.models import DatasetRun, LoadRun
from loader.services.loads.applied_runs import applied_rows
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.manifests import maintenance_load
from loader.services.loads.plans import plan_named
from loader.services.maintenance.work import RunWork, check_reason, loaded_dataset, prepare, scope_of

# Fields of the runner's answer: the sequence of the newest run in an accepted table, and that of the run itself.
HELD, SEQUENCE = "held", "sequence"


def request_accept(
    *, dataset: str, reason: str, run_id: str | None = None, user: Any = None, wake_worker: bool = True
) -> RequestedRun:
    """Request the acceptance of a table that lacks runs applied to it; these are then marked as reverted."""
    check_reason(reason)
    state = loaded_dataset(dataset)
    wanted = Asked(kind=ACCEPT, scope=scope_of(state.qualified_name), asked={}, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def accept_manifest(work: RunWork) -> AcceptManifest:
    plan, rows = prepare(work, plan_named)
    return AcceptManifest(work.run.run_id, retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)))


@transaction.atomic
def take_over(run: LoadRun, held: int, sequence: int) -> None:
    """Set the run's sequence to the accepted table's, and mark runs that the table lacks as reverted."""
    row = run.datasets.get()
    lost = applied_rows().filter(dataset_key=row.dataset_key, run__environment=run.environment, sequence__gt=held)
    DatasetRun.objects.filter(pk__in=list(lost.values_list("pk", flat=True))).update(reverted_by=run)
    DatasetRun.objects.filter(pk=row.pk).update(sequence=sequence)
