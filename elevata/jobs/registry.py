"""Handlers of jobs by kind, and queries of jobs and workers."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Q, QuerySet
from django.utils import timezone

from elevata.core.database import is_silent
from elevata.core.registry import Registered
from elevata.jobs import states
from elevata.jobs.models import Job, Worker

# Lanes of a worker, which run in parallel: work on tables; messages to other systems; reads of the warehouse; other
# jobs that users wait for.
WORK, MESSAGES, READS, ASIDE = "work", "messages", "reads", "aside"


@dataclass(frozen=True)
class Slots:
    """Number of jobs of a lane that a worker performs at once: in total, and of one user."""

    total: int = 1
    of_user: int = 1


# A worker has a thread for each slot (``loader.management.children``), so that no lane waits for another one.
LANES: Mapping[str, Slots] = {
    WORK: Slots(),
    MESSAGES: Slots(),
    READS: Slots(3, of_user=2),
    ASIDE: Slots(2, of_user=2),
}


def _nothing(*_: Any) -> None:
    return None


def _never(_: Job) -> bool:
    return False


@dataclass(frozen=True)
class Handler:
    """Handler of some kinds of jobs.

    ``perform(job_pk, worker=…, runner=…, stopping=…)`` claims and runs one job, and returns None if it could not be
    claimed. ``only_reads(job)`` is True for a job that gets the runner of reads. In a lane, the lowest ``priority``
    runs first. ``lost_as`` is the status of a job whose worker died, and ``lost_hint`` the hint in its error. These
    callbacks run in the transaction of the change: ``lost(job, error)``, ``wake_failed(job, reason)``, ``woken(job)``.
    """

    kinds: tuple[str, ...]
    perform: Callable[..., Any]
    lane: str = WORK
    only_reads: Callable[[Job], bool] = _never
    priority: int = 0
    lost_as: str = states.LOST
    lost_hint: str = ""
    lost: Callable[[Job, dict], None] = _nothing
    wake_failed: Callable[[Job, str], None] = _nothing
    woken: Callable[[Job], None] = _nothing


HANDLERS: Registered[Handler] = Registered()


@cache
def handlers() -> dict[str, Handler]:
    """Return the handler of every kind. Raise ImproperlyConfigured if two handlers have a kind."""
    by_kind: dict[str, Handler] = {}
    for handler in HANDLERS:
        for kind in handler.kinds:
            if kind in by_kind:
                again = f"the second time by {handler.perform!r}"
                raise ImproperlyConfigured(f"the job kind {kind!r} is registered twice; {again}")
            by_kind[kind] = handler
    return by_kind


def handler_of(kind: str) -> Handler:
    """Return the handler of a kind. Raise KeyError if none is registered."""
    return handlers()[kind]


def kinds_in(lane: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the kinds of a lane by priority, lowest first."""
    by_priority: dict[int, list[str]] = {}
    for kind, handler in handlers().items():
        if handler.lane == lane:
            by_priority.setdefault(handler.priority, []).append(kind)
    return [(priority, tuple(kinds)) for priority, kinds in sorted(by_priority.items())]


# Queries about jobs and workers.

_NOBODY: Mapping[int, int] = {}


def claimable() -> QuerySet[Job]:
    """Return the queued jobs that are due and belong to this environment."""
    due = Q(not_before=None) | Q(not_before__lte=timezone.now())
    return Job.objects.filter(due, status=states.QUEUED, environment_name=settings.ENVIRONMENT)


def next_work(but: Collection[int] = (), *, lane: str = WORK, busy: Mapping[int, int] = _NOBODY) -> Job | None:
    """Return the job of a lane to claim next: by priority, then the oldest.

    ``busy`` has the number of jobs of each user that are under way. Jobs of users without one come first, and those of
    users with as many as a lane permits are left out.
    """
    full = [user for user, number in busy.items() if number >= LANES[lane].of_user]
    queued = claimable().exclude(pk__in=but).exclude(requested_by__in=full).order_by("requested_at", "pk")
    for _, kinds in kinds_in(lane):
        jobs = queued.filter(kind__in=kinds)
        job = (jobs.exclude(requested_by__in=busy).first() if busy else None) or jobs.first()
        if job is not None:
            return job
    return None


def queued_for(age: timedelta) -> QuerySet[Job]:
    """Return claimable jobs that were requested longer ago than ``age``, the oldest first."""
    now = timezone.now()
    # A request dated in the future was made before the clock was set back, so it is not recent.
    recent = Q(requested_at__range=(now - age, now))
    return claimable().filter(~recent).order_by("requested_at", "pk")


def live_workers(*, silent_after: timedelta = states.WORKER_SILENT_AFTER) -> list[Worker]:
    """Return the workers that are not silent."""
    return [worker for worker in Worker.objects.all() if not is_silent(worker, silent_after)]
