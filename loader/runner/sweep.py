"""Periodic sweep: the queue of jobs, and rows with limited retention."""

from datetime import timedelta

from django.contrib.sessions.backends.db import SessionStore

from architecture.services.outdated import check_reports
from elevata.api.services import delete_old_responses
from elevata.audit.services import chain
from elevata.jobs.sweep import RESENT_AFTER, Swept, sweep_jobs
from elevata.notifications.services import forget_old_events
from loader.services.copies.requests import request_failed_copies
from loader.services.reads.read_requests import end_old_reads
from loader.services.sources.observations import settle_proposals
from loader.services.uploads import sweep_uploads


def sweep(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once. Sweeps may run concurrently, since rows change by compare-and-set only."""
    end_old_reads()
    settle_proposals()
    swept = sweep_jobs(resent_after=resent_after)
    delete_old_responses()
    sweep_uploads()
    request_failed_copies()
    forget_old_events()
    SessionStore.clear_expired()
    check_reports()
    # A process that died may have committed entries without sealing them.
    chain.seal()
    return swept
