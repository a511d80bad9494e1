"""Read requests of pages to the warehouse."""

from django.conf import settings
from django.db import models


class ReadRequest(models.Model):
    """A read that the runner answers: pages never start Spark themselves.

    ``kind`` is ``sample``, ``key_search``, ``versions``, ``as_of``, ``changes``, ``discover``, ``check`` (asked by a
    command, answered with findings) or ``observe`` (tables as they are, kept as observations);
    ``arguments`` and ``answer`` are its JSON. The answer's ``table_version`` is the Delta version it was
    read at. ``reason`` is the user's, if one was given.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"

    FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED})

    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, null=True, related_name="+")
    arguments = models.JSONField(default=dict)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    answer = models.JSONField(null=True)
    error = models.JSONField(null=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    claimed_by = models.CharField(max_length=200, blank=True, default="")
    reason = models.CharField(max_length=1000, blank=True, default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.dataset}"

    @property
    def is_finished(self) -> bool:
        return self.status in self.FINISHED
