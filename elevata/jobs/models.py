"""Jobs, and the worker processes that perform them."""

from collections.abc import Collection
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from elevata.jobs import states

SYSTEM = "system"


def _here() -> str:
    return settings.ENVIRONMENT


def status_choices(known: Collection[str]) -> list[tuple[str, str]]:
    """Return the choices of ``Job.status`` that a model with only these states can have."""
    return [choice for choice in Job.Status.choices if choice[0] in known]


class Job(models.Model):
    """One unit of work for a worker.

    Models of other apps extend it by multi-table inheritance with the fields of their kind. ``kind`` selects the
    handler (``elevata.jobs.registry``). ``attempt`` is the number of claims, and the fencing number of their writes.
    Only workers of the environment ``environment_name`` may claim it, and only from ``not_before`` on. ``exclusive``,
    if set, is unique among jobs that are not finished. ``requester`` is the name of a requester that is no user.
    ``queued_at`` is the time when it was last queued.

    Change ``status``, ``attempt`` and ``exclusive`` only by ``elevata.jobs.services``: an update through a model that
    extends this one is no compare-and-set.
    """

    class Status(models.TextChoices):
        QUEUED = states.QUEUED, "Queued"
        RUNNING = states.RUNNING, "Running"
        SUCCEEDED = states.SUCCEEDED, "Succeeded"
        FAILED = states.FAILED, "Failed"
        BLOCKED = states.BLOCKED, "Blocked"
        CANCELING = states.CANCELING, "Canceling"
        CANCELED = states.CANCELED, "Canceled"
        LOST = states.LOST, "Lost"
        ABANDONED = states.ABANDONED, "Abandoned"

    # Default of ``kind``, for models that extend this one.
    KIND: ClassVar[str] = ""
    FINISHED = states.FINISHED
    RESTARTABLE = states.RESTARTABLE

    kind = models.CharField(max_length=20)
    environment_name = models.CharField(max_length=50, default=_here)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    exclusive = models.CharField(max_length=100, unique=True, null=True, blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    requester = models.CharField(
        max_length=150, blank=True, default="", help_text="Who asked, where that is no user of the pages."
    )
    reason = models.CharField(max_length=1000, blank=True, default="")
    requested_at = models.DateTimeField(auto_now_add=True)
    queued_at = models.DateTimeField(default=timezone.now)
    not_before = models.DateTimeField(null=True, blank=True)
    claimed_by = models.CharField(max_length=200, blank=True, default="")
    attempt = models.PositiveIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    phase = models.CharField(max_length=200, blank=True, default="")
    error = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["-requested_at", "-id"], name="job_newest"),
            models.Index(fields=["status", "requested_at"], name="job_waiting"),
        ]
        constraints = [
            models.CheckConstraint(name="job_status_is_known", condition=models.Q(status__in=sorted(states.STEPS)))
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not args and self.KIND:
            kwargs.setdefault("kind", self.KIND)
        super().__init__(*args, **kwargs)

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def who(self) -> str:
        """Return the name of the requester; ``system`` if there is none."""
        return self.requested_by.get_username() if self.requested_by is not None else self.requester or SYSTEM

    @property
    def is_finished(self) -> bool:
        """Return True if the job is neither queued nor running."""
        return self.status in self.FINISHED

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        # Never negative, also if the clock was set back.
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


class Worker(models.Model):
    """Worker process; alive while its last heartbeat is recent."""

    name = models.CharField(max_length=200, unique=True)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    runner_pid = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
