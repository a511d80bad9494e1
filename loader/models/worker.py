"""Worker processes."""

from django.db import models


class Worker(models.Model):
    """A worker process. It is alive while its heartbeat is fresh."""

    name = models.CharField(max_length=200, unique=True)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    runner_pid = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
