"""Read requests of pages to the warehouse."""

from typing import ClassVar

from django.db import models

from elevata.jobs import states
from elevata.jobs.models import Job, status_choices


class ReadRequest(Job):
    """A read that the runner answers: pages never start Spark themselves.

    ``kind`` is ``sample``, ``key_search``, ``versions``, ``as_of``, ``changes``, ``discover``, ``check`` (asked by a
    command, answered with findings) or ``observe`` (tables as they are, kept as observations);
    ``arguments`` and ``answer`` are its JSON. The answer's ``table_version`` is the Delta version it was
    read at. ``reason`` is the user's, if one was given.
    """

    STATUSES: ClassVar = status_choices({states.QUEUED, states.RUNNING, states.SUCCEEDED, states.FAILED})

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="read_row"
    )
    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="+")
    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, null=True, related_name="+")
    arguments = models.JSONField(default=dict)
    answer = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.dataset}"
