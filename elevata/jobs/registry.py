"""Handlers of jobs by kind, and queries of jobs and workers."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from elevata.core.database import silent_before
from elevata.jobs import states
from elevata.jobs.models import Job, Worker

# Lanes of a worker: jobs of the first go one after another, each with Spark; those of the second, too, beside them and
# without Spark; those of the third all at once.
WORK, MESSAGES, ASIDE = "work", "messages", "aside"


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Handler:
    """Handler of some kinds of jobs.

    ``perform(job_pk, worker=…, runner=…, stopping=…)`` runs one job from claim to end, and returns None if it could
    not be claimed. Lower ``priority`` goes first within a lane. ``lost_as`` is the status of a job whose worker
    died and ``lost_hint`` the advice in its error. Callbacks run in the transaction of the change: ``lost(job,
    error)``, ``wake_failed(job, reason)``, ``woken(job)``.
    """

    kinds: tuple[str, ...]
    perform: Callable[..., Any]
    lane: str = WORK
    priority: int = 0
    lost_as: str = states.LOST
    lost_hint: str = ""
    lost: Callable[[Job, dict], None] = _nothing
    wake_failed: Callable[[Job, str], None] = _nothing
    woken: Callable[[Job], None] = _nothing


@cache
def _handlers() -> dict[str, Handler]:
    return {
        kind: handler for name in settings.JOB_HANDLERS for handler in import_string(name) for kind in handler.kinds
    }


def handler_of(kind: str) -> Handler:
    """Return the handler of a kind. Raise KeyError if no setting names one."""
    return _handlers()[kind]


def kinds_in(lane: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the kinds of a lane by priority, lowest first."""
    by_priority: dict[int, list[str]] = {}
    for kind, handler in _handlers().items():
        if handler.lane == lane:
            by_priority.setdefault(handler.priority, []).append(kind)
    return [(priority, tuple(kinds)) for priority, kinds in sorted(by_priority.items())]


# Queries about jobs and workers.


def claimable() -> QuerySet[Job]:
    """Return the queued jobs that are due and belong to this environment."""
    due = Q(not_before=None) | Q(not_before__lte=timezone.now())
    return Job.objects.filter(due, status=states.QUEUED, environment_name=settings.ENVIRONMENT)


def next_work(but: Collection[int] = (), *, lane: str = WORK) -> Job | None:
    """Return the next job of a lane that may be claimed: by priority, then the oldest."""
    queued = claimable().exclude(pk__in=but)
    for _, kinds in kinds_in(lane):
        job = queued.filter(kind__in=kinds).order_by("requested_at", "pk").first()
        if job is not None:
            return job
    return None


def queued_for(age: timedelta) -> QuerySet[Job]:
    """Return jobs that may be claimed and were requested longer ago than ``age``, the oldest first."""
    now = timezone.now()
    # A request dated in the future was made before the clock was set back, so it is not fresh.
    fresh = Q(requested_at__range=(now - age, now))
    return claimable().filter(~fresh).order_by("requested_at", "pk")


def live_workers(*, silent_after: timedelta = states.WORKER_SILENT_AFTER) -> QuerySet[Worker]:
    """Return workers whose heartbeat is fresh."""
    return Worker.objects.filter(heartbeat_at__gte=silent_before(silent_after))
