"""Queries about jobs and workers."""

from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from elevata.core.database import silent_before
from elevata.jobs import states
from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import WORK, kinds_in


def next_work(but: Collection[int] = ()) -> Job | None:
    """Return the next queued job of the lane ``WORK`` in this environment: by priority, then the oldest."""
    queued = Job.objects.filter(status=states.QUEUED, environment_name=settings.ENVIRONMENT).exclude(pk__in=but)
    for _, kinds in kinds_in(WORK):
        job = queued.filter(kind__in=kinds).order_by("requested_at", "pk").first()
        if job is not None:
            return job
    return None


def queued_for(age: timedelta) -> QuerySet[Job]:
    """Return queued jobs of this environment that were requested longer ago than ``age``, the oldest first."""
    now = timezone.now()
    # A request dated in the future was made before the clock was set back, so it is not fresh.
    fresh = Q(requested_at__range=(now - age, now))
    queued = Job.objects.filter(~fresh, status=states.QUEUED, environment_name=settings.ENVIRONMENT)
    return queued.order_by("requested_at", "pk")


def live_workers(*, silent_after: timedelta = states.WORKER_SILENT_AFTER) -> QuerySet[Worker]:
    """Return workers whose heartbeat is fresh."""
    return Worker.objects.filter(heartbeat_at__gte=silent_before(silent_after))
