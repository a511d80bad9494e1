"""Rehearsals: a preview's steps on shallow clones, to see before and after. The loader does them."""

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from architecture.domain import workflow
from architecture.models import Environment, Preview, Rehearsal
from architecture.services.people import must_be_permitted
from metadata.domain.roles import Permission


def request_rehearsal(*, preview: Preview, person: Any) -> Rehearsal:
    """Ask for a rehearsal; one that waits or is under way is returned as it is."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS)
    workflow.refuse_closed(preview.report.status)
    try:
        with transaction.atomic():
            return Rehearsal.objects.create(preview=preview, requested_by=person)
    except IntegrityError:
        return preview.rehearsals.get(status__in=(workflow.QUEUED, workflow.RUNNING))


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
    found = Rehearsal.objects.select_related("preview__report__environment")
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


def mark_lost_rehearsals() -> int:
    """End rehearsals whose worker was silent for too long; returns how many."""
    latest = timezone.now() - workflow.SILENT_AFTER
    error = {"code": "WORKER_LOST", "message": "the worker is gone", "hint": "rehearse again"}
    return Rehearsal.objects.filter(status=workflow.RUNNING, heartbeat_at__lt=latest).update(
        status=workflow.FAILED, error=error, finished_at=timezone.now()
    )
