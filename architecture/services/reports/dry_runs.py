"""Rehearsals: a preview's steps on shallow clones, to see before and after. The loader does them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from architecture.domain.reports import workflow
from architecture.models import Environment, Preview, Rehearsal
from architecture.report_places import place_of_report
from architecture.services.actors import must_be_permitted
from architecture.services.reports.reports import record_why_of
from elevata.core.database import silent_before
from metadata.domain.roles import Permission


def request_rehearsal(*, preview: Preview, person: Any) -> Rehearsal:
    """Ask for a rehearsal; one that waits or is under way is returned as it is."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_report(preview.report))
    workflow.refuse_closed(preview.report.status)
    try:
        with transaction.atomic():
            rehearsal = Rehearsal.objects.create(preview=preview, requested_by=person)
    except IntegrityError:
        return preview.rehearsals.get(status__in=(workflow.QUEUED, workflow.RUNNING))
    record_why_of(preview.report, "rehearsed")
    return rehearsal


def queued_rehearsals(*, environment: Environment) -> list[int]:
    """Rehearsals that wait for a worker, the oldest first."""
    waiting = Rehearsal.objects.filter(preview__report__environment=environment, status=workflow.QUEUED)
    return list(waiting.order_by("requested_at", "pk").values_list("pk", flat=True))


def claim_rehearsal(*, rehearsal_pk: int, worker: str) -> Rehearsal | None:
    """Take a queued rehearsal; None if somebody else has it."""
    claimed = Rehearsal.objects.filter(pk=rehearsal_pk, status=workflow.QUEUED).update(
        status=workflow.RUNNING, claimed_by=worker, heartbeat_at=timezone.now()
    )
    if not claimed:
        return None
    found = Rehearsal.objects.select_related("preview__report__environment", "requested_by")
    return found.get(pk=rehearsal_pk)


def end_rehearsal(*, rehearsal: Rehearsal, result: dict | None = None, error: dict | None = None) -> bool:
    """Keep what came of it. Once only; False if it is not this worker's any more."""
    mine = Rehearsal.objects.filter(pk=rehearsal.pk, status=workflow.RUNNING, claimed_by=rehearsal.claimed_by)
    return bool(
        mine.update(
            status=workflow.FAILED if error else workflow.SUCCEEDED,
            result=result,
            error=error,
            finished_at=timezone.now(),
        )
    )


def beat(*, rehearsal: Rehearsal) -> bool:
    """Say that the rehearsal is under way; False if it was given up."""
    mine = Rehearsal.objects.filter(pk=rehearsal.pk, status=workflow.RUNNING, claimed_by=rehearsal.claimed_by)
    return bool(mine.update(heartbeat_at=timezone.now()))


def mark_lost_rehearsals(
    *, is_gone: Callable[[str], bool] = lambda _: False, older_than: timedelta = workflow.SILENT_AFTER
) -> list[int]:
    """End rehearsals whose worker was silent for too long, or is gone for certain; their ids.

    A runner dies with its worker; what it left of clones is removed by the next rehearsal.
    """
    held = Rehearsal.objects.filter(status=workflow.RUNNING, heartbeat_at__isnull=False)
    latest = silent_before(older_than)
    return [one.pk for one in held if (one.heartbeat_at < latest or is_gone(one.claimed_by)) and _lose(one)]


def _lose(rehearsal: Rehearsal) -> bool:
    error = {
        "code": "WORKER_LOST",
        "message": f"worker {rehearsal.claimed_by} was last heard of at {rehearsal.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC",
        "hint": "rehearse again",
    }
    seen = Rehearsal.objects.filter(pk=rehearsal.pk, status=workflow.RUNNING, heartbeat_at=rehearsal.heartbeat_at)
    return bool(seen.update(status=workflow.FAILED, error=error, finished_at=timezone.now()))
