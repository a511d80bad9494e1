"""Handlers of jobs by kind, and queries of jobs and workers."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from elevata.core.database import silent_before
from elevata.jobs import states
from elevata.jobs.models import Job, Worker

# Lanes of a worker, which run in parallel. Jobs of the first run one after another, with Spark; jobs of the second one
# after another, without Spark; jobs of the third all at the same time.
WORK, MESSAGES, ASIDE = "work", "messages", "aside"


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Handler:
    """Handler of some kinds of jobs.

    ``perform(job_pk, worker=…, runner=…, stopping=…)`` claims and runs one job, and returns None if it could not be
    claimed. In a lane, the lowest ``priority`` runs first. ``lost_as`` is the status of a job whose worker died, and
    ``lost_hint`` the hint in its error. These callbacks run in the transaction of the change: ``lost(job, error)``,
    ``wake_failed(job, reason)``, ``woken(job)``.
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
def handlers() -> dict[str, Handler]:
    """Return the handler of every kind. Raise ImproperlyConfigured if a kind is registered twice."""
    by_kind: dict[str, Handler] = {}
    for name in settings.JOB_HANDLERS:
        for handler in import_string(name):
            for kind in handler.kinds:
                if kind in by_kind:
                    raise ImproperlyConfigured(f"the job kind {kind!r} is registered twice; the second time in {name}")
                by_kind[kind] = handler
    return by_kind


def handler_of(kind: str) -> Handler:
    """Return the handler of a kind. Raise KeyError if ``JOB_HANDLERS`` has none."""
    return handlers()[kind]


def kinds_in(lane: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the kinds of a lane by priority, lowest first."""
    by_priority: dict[int, list[str]] = {}
    for kind, handler in handlers().items():
        if handler.lane == lane:
            by_priority.setdefault(handler.priority, []).append(kind)
    return [(priority, tuple(kinds)) for priority, kinds in sorted(by_priority.items())]


# Queries about jobs and workers.


def claimable() -> QuerySet[Job]:
    """Return the queued jobs that are due and belong to this environment."""
    due = Q(not_before=None) | Q(not_before__lte=timezone.now())
    return Job.objects.filter(due, status=states.QUEUED, environment_name=settings.ENVIRONMENT)


def next_work(but: Collection[int] = (), *, lane: str = WORK) -> Job | None:
    """Return the job of a lane to claim next: by priority, then the oldest."""
    queued = claimable().exclude(pk__in=but)
    for _, kinds in kinds_in(lane):
        job = queued.filter(kind__in=kinds).order_by("requested_at", "pk").first()
        if job is not None:
            return job
    return None


def queued_for(age: timedelta) -> QuerySet[Job]:
    """Return claimable jobs that were requested longer ago than ``age``, the oldest first."""
    now = timezone.now()
    # A request dated in the future was made before the clock was set back, so it is not recent.
    recent = Q(requested_at__range=(now - age, now))
    return claimable().filter(~recent).order_by("requested_at", "pk")


def live_workers(*, silent_after: timedelta = states.WORKER_SILENT_AFTER) -> QuerySet[Worker]:
    """Return the workers whose last heartbeat is recent."""
    return Worker.objects.filter(heartbeat_at__gte=silent_before(silent_after))
