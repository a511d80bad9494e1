"""Periodic sweep: lost wake-ups are sent again, work of dead workers is marked as lost, old answers are deleted."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from architecture.domain.reports import workflow
from architecture.models import Execution, Rehearsal
from architecture.services.executions.executions import mark_lost_executions
from architecture.services.executions.executions import note_told as note_executions_told
from architecture.services.reports.dry_runs import mark_lost_rehearsals
from loader.domain.runs import run_states as states
from loader.models import LoadRun, Worker
from loader.services.queries.reads import sweep_reads
from loader.services.runner.processes import is_gone
from loader.services.runs.runs import mark_lost
from loader.services.runs.runs import note_told as note_runs_told
from loader.services.runs.uploads import sweep_uploads
from loader.services.runs.wakeup import WAKE_DELIVERIES, WAKE_EXECUTION, WAKE_READ, WAKE_RUN, wake
from metadata.services import chain, deliveries
from metadata.services.notices import forget_old_events
from metadata.services.stored_responses import forget_old_answers

# Younger rows have a wake-up on its way.
RESENT_AFTER = timedelta(seconds=15)
_WORKER_KEPT_FOR = timedelta(hours=1)


@dataclass(frozen=True)
class Swept:
    """Result of a sweep."""

    lost: tuple[str, ...]
    woken_runs: int
    woken_reads: int
    lost_executions: tuple[int, ...] = ()
    woken_executions: int = 0
    lost_rehearsals: tuple[int, ...] = ()


def sweep(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once; any number of sweeps at once do no harm, since rows change by compare-and-set only."""
    now = timezone.now()
    lost, lost_executions = mark_lost(), mark_lost_executions(is_gone=is_gone)
    lost_rehearsals = mark_lost_rehearsals(is_gone=is_gone)
    # A request dated in the future was made before the clock was set back, so it is not fresh.
    fresh = Q(requested_at__range=(now - resent_after, now))
    waiting = LoadRun.objects.filter(~fresh, status=states.QUEUED)
    queued = list(waiting.order_by("requested_at").values_list("pk", flat=True))
    reads = list(sweep_reads().filter(~fresh).values_list("pk", flat=True))
    # The first failure says that the broker is away; the next sweep tries again.
    woken_runs = _wake_until_it_fails(WAKE_RUN, queued)
    woken_reads = _wake_until_it_fails(WAKE_READ, reads)
    woken_executions = _wake_until_it_fails(WAKE_EXECUTION, _waiting_executions(fresh))
    # Any wake-up brings a worker that sends whatever is due.
    _wake_until_it_fails(WAKE_DELIVERIES, list(deliveries.due().values_list("pk", flat=True)[:1]))
    if woken_runs:
        note_runs_told()
    if woken_executions:
        note_executions_told()
    Worker.objects.filter(heartbeat_at__lt=now - _WORKER_KEPT_FOR).delete()
    forget_old_answers()
    sweep_uploads()
    forget_old_events()
    # Entries that a process committed and, because it died, did not seal.
    chain.seal()
    return Swept(tuple(lost), woken_runs, woken_reads, tuple(lost_executions), woken_executions, tuple(lost_rehearsals))


def _waiting_executions(fresh: Q) -> list[int]:
    executions = Execution.objects.filter(~fresh, status=workflow.QUEUED)
    rehearsals = Rehearsal.objects.filter(~fresh, status=workflow.QUEUED)
    # Any wake-up brings a worker that performs whatever is queued.
    found = [*executions.values_list("pk", flat=True), *rehearsals.values_list("pk", flat=True)]
    return sorted(found)[:1]


def _wake_until_it_fails(task: str, ids: list[int]) -> int:
    for sent, row_id in enumerate(ids):
        if wake(task, row_id):
            return sent
    return len(ids)
