"""Schedules that load the same tables at the same time."""

from datetime import datetime, timedelta
from itertools import combinations

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from architecture.domain.health import Concern, Severity
from loader.domain.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.models import Schedule
from loader.services.schedules import timetable_of

_AHEAD = timedelta(days=7)
_MOST_TIMES = 500


def overlapping_schedules() -> list[Concern]:
    """Return the pairs of active load schedules that load the same tables, and are due at the same minute this week."""
    active = Schedule.objects.filter(active=True, kind=Schedule.Kind.LOAD, environment__name=settings.ENVIRONMENT)
    times: dict[int, frozenset[datetime]] = {}
    overlapping = []
    for one, other in combinations(active.order_by("pk"), 2):
        if not _overlap(Scope.from_json(one.scope), Scope.from_json(other.scope)):
            continue
        for schedule in (one, other):
            if schedule.pk not in times:
                times[schedule.pk] = _due_times(schedule)
        if times[one.pk] & times[other.pk]:
            overlapping.append(_concern(one, other, min(times[one.pk] & times[other.pk])))
    return overlapping


def _overlap(one: Scope, other: Scope) -> bool:
    """Return True if one scope names all that the other names; what they load besides is not compared."""
    if ALL in (one.kind, other.kind) or one == other:
        return True
    by_kind = {one.kind: one.name, other.kind: other.name}
    if by_kind.keys() == {SCHEMA, DATASET}:
        return by_kind[DATASET].startswith(f"{by_kind[SCHEMA]}.")
    return one.kind == other.kind and one.name == other.name


def _due_times(schedule: Schedule) -> frozenset[datetime]:
    now = timezone.now()
    due = timetable_of(schedule).first(_MOST_TIMES, after=now)
    return frozenset(time for time in due if time <= now + _AHEAD)


def _concern(one: Schedule, other: Schedule, at: datetime) -> Concern:
    due = f"{at:%Y-%m-%d %H:%M %Z}"
    text = f"It loads tables that {other.name} loads, and both are due at {due}: one waits or is skipped."
    link = reverse("schedule_edit", args=[one.key])
    return Concern("schedules_overlap", Severity.WARNING, f"Schedule {one.name}", text, link)
