"""Schedules of load runs."""

from uuid import UUID

from django.db.models import QuerySet
from django.urls import reverse

from architecture.models import Environment
from architecture.services.environments import current_environment
from elevata.web.subjects import Subject
from loader.models import LoadRun, Schedule


def schedules(*, environment: Environment | None = None) -> QuerySet[Schedule]:
    """Return the schedules of an environment (by default this installation's) by name, with their newest runs."""
    chosen = environment or current_environment()
    return Schedule.objects.filter(environment=chosen).select_related("environment", "last_run").order_by("name", "pk")


def schedule_subject(key: UUID) -> Subject | None:
    """Return the schedule with this key as a subject of favourites; None if there is none."""
    schedule = Schedule.objects.filter(key=key).first()
    if schedule is None:
        return None
    return Subject("schedule", key, f"the schedule {schedule}", reverse("schedule_page", args=[key]))


def failing_schedules(environment: Environment) -> list[Schedule]:
    """Return the active schedules whose newest run failed, was blocked or was lost."""
    failed = (LoadRun.Status.FAILED, LoadRun.Status.BLOCKED, LoadRun.Status.LOST)
    return list(schedules(environment=environment).filter(active=True, last_run__status__in=failed))
