"""Schedules that load the same tables at the same time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import combinations, islice, takewhile

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from architecture.domain.health import Concern, Severity
from architecture.selectors.health import first_concerns
from elevata.core.errors import MetadataError, as_sentence
from loader.models import Schedule
from loader.schedules.services import timetable_of
from metadata.domain.scope import ALL, DATASET, SCHEMA, Scope

_AHEAD = timedelta(days=7)
_MOST_TIMES = 500


def overlapping_schedules() -> list[Concern]:
    """Return the first pairs of active load schedules that load the same tables at the same minute this week.

    A schedule whose time zone is unknown here is a concern of its own.
    """
    return first_concerns(_overlapping_schedules())


def _overlapping_schedules() -> Iterator[Concern]:
    active = Schedule.objects.filter(active=True, kind=Schedule.Kind.LOAD, environment__name=settings.ENVIRONMENT)
    times: dict[int, frozenset[datetime]] = {}
    scoped = [(schedule, Scope.from_json(schedule.scope)) for schedule in active.order_by("pk")]
    for (first, scope), (other, other_scope) in combinations(scoped, 2):
        if not _overlap(scope, other_scope):
            continue
        for schedule in (first, other):
            if schedule.pk not in times:
                try:
                    times[schedule.pk] = _due_times(schedule)
                except MetadataError as problem:
                    times[schedule.pk] = frozenset()
                    yield _concern(schedule, as_sentence(problem.one_line()))
        if both := times[first.pk] & times[other.pk]:
            due = f"{min(both):%Y-%m-%d %H:%M %Z}"
            text = f"It loads tables that {other.name} loads, and both are due at {due}: one waits or is skipped."
            yield _concern(first, text)


def _overlap(scope: Scope, other: Scope) -> bool:
    """Return True if one scope names all that the other names; what they load besides is not compared."""
    if ALL in (scope.kind, other.kind) or scope == other:
        return True
    by_kind = {scope.kind: scope.name, other.kind: other.name}
    if by_kind.keys() == {SCHEMA, DATASET}:
        return by_kind[DATASET].startswith(f"{by_kind[SCHEMA]}.")
    return scope.kind == other.kind and scope.name == other.name


def _due_times(schedule: Schedule) -> frozenset[datetime]:
    now = timezone.now()
    # The times of a daily schedule are those of seven days, without the computation of the other ones.
    due = takewhile(lambda time: time <= now + _AHEAD, timetable_of(schedule).after(now))
    return frozenset(islice(due, _MOST_TIMES))


def _concern(schedule: Schedule, text: str) -> Concern:
    link = reverse("schedule_edit", args=[schedule.key])
    return Concern("schedules_overlap", Severity.WARNING, f"Schedule {schedule.name}", text, link)
