"""Schedules of load runs."""

import uuid

from django.db import models

from elevata.audit.models import Versioned
from loader.domain.vacuum import SAFE_HOURS


class Schedule(Versioned):
    """A load run that is started at certain times, in one environment; or a vacuum, or a check of sources.

    ``cron`` has five fields and counts in ``time_zone``; ``scope`` is that of the runs
    (``metadata.domain.scope.Scope`` as JSON). ``next_at`` is the next due time, None while the
    schedule is not active: the process that moves it on, by compare-and-set, starts the run.
    ``last_due_at`` is the last due time that was handled and ``outcome`` its result; ``remark``
    is the reason where no run was started. ``last_run`` is the newest run, due or started by a user.

    ``wait`` is the condition of its runs (``loader.schedules.waits.Wait`` as JSON), empty for the clock alone. While it
    is not fulfilled, ``waiting`` has the due time, and time, answer and files of the last check. ``last_delivery``
    identifies the files of the last run that waited for files.
    """

    class Kind(models.TextChoices):
        LOAD = "load", "Load"
        VACUUM = "vacuum", "Vacuum"
        CHECK = "check", "Source check"

    class Outcome(models.TextChoices):
        NOTHING = "", "Nothing yet"
        STARTED = "started", "Started"
        SKIPPED = "skipped", "Skipped"
        WAITING = "waiting", "Waiting"

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="schedules")
    name = models.CharField(max_length=100)
    active = models.BooleanField(default=True)
    cron = models.CharField(max_length=100)
    time_zone = models.CharField(max_length=64, default="UTC")
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.LOAD)
    scope = models.JSONField()
    allow_empty = models.BooleanField(default=False)
    retention_hours = models.PositiveIntegerField(default=SAFE_HOURS)
    next_at = models.DateTimeField(null=True, blank=True)
    last_due_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True, default=Outcome.NOTHING)
    remark = models.JSONField(null=True, blank=True)
    wait = models.JSONField(default=dict, blank=True)
    waiting = models.JSONField(null=True, blank=True)
    last_delivery = models.CharField(max_length=200, blank=True, default="")
    last_run = models.ForeignKey("loader.LoadRun", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["name"]
        indexes = [models.Index(fields=["environment", "next_at"], name="schedule_next")]
        constraints = [
            models.UniqueConstraint(fields=["environment", "name"], name="schedule_named_once"),
            models.CheckConstraint(
                name="schedule_outcome_is_known", condition=models.Q(outcome__in=["", "started", "skipped", "waiting"])
            ),
            models.CheckConstraint(
                name="schedule_kind_is_known", condition=models.Q(kind__in=["load", "vacuum", "check"])
            ),
            models.CheckConstraint(
                name="schedule_is_due_only_while_active",
                condition=models.Q(active=True, next_at__isnull=False) | models.Q(active=False, next_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.name
