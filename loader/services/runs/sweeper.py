"""Periodic sweep: the queue of jobs, due webhook deliveries, and rows that are kept for a time only."""

from datetime import timedelta

from elevata.jobs import wakeup
from elevata.jobs.sweep import RESENT_AFTER, Swept, sweep_jobs
from loader.services.queries.reads import end_old_reads
from loader.services.runs.uploads import sweep_uploads
from metadata.services import chain, deliveries
from metadata.services.notices import forget_old_events
from metadata.services.stored_responses import forget_old_answers


def sweep(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once; any number of sweeps at once do no harm, since rows change by compare-and-set only."""
    end_old_reads()
    swept = sweep_jobs(resent_after=resent_after)
    if deliveries.due().exists():
        wakeup.wake_for_deliveries()
    forget_old_answers()
    sweep_uploads()
    forget_old_events()
    # Entries that a process committed and, because it died, did not seal.
    chain.seal()
    return swept
