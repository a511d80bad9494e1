"""Read requests of pages to the warehouse, and saved queries."""

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models

from elevata.audit.models import Versioned
from elevata.jobs import states
from elevata.jobs.models import Job, status_choices

if TYPE_CHECKING:
    from metadata.models import TargetDataset


class ReadRequest(Job):
    """Read that the runner answers: pages never start Spark themselves.

    ``kind`` is one of ``loader.services.reads.read_requests.KINDS``, or ``source_check`` (by a schedule; the worker
    itself answers it); ``arguments`` and ``answer`` are its JSON. The answer's ``table_version`` is the Delta version
    that was read. ``reason`` is the user's, if one was given.
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

    @property
    def own_dataset(self) -> "TargetDataset":
        """Return the dataset of a kind that reads one."""
        assert self.dataset is not None
        return self.dataset

    @property
    def content(self) -> dict[str, Any]:
        """Return the answer of a read that succeeded."""
        assert self.answer is not None
        answer: dict[str, Any] = self.answer
        return answer


class SavedQuery(Versioned):
    """A query of the SQL page that a user saved under a name; a shared one is listed for every user."""

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    text = models.TextField()
    shared = models.BooleanField(default=False)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_query_named_once")]

    def __str__(self) -> str:
        return self.name
