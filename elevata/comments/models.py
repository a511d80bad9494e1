"""Comments on reports, datasets and other subjects."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from elevata.audit.models import Versioned


class Comment(Versioned):
    """Comment of a user on a subject, which is identified by kind and key (setting ``SUBJECTS``).

    ``mentioned`` are the names of the mentioned users who may see the subject, ``unnotified`` of those who may not, and
    get no notice.
    """

    LOG_KIND: ClassVar[str] = "comment"

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    subject_kind = models.CharField(max_length=20)
    subject_key = models.UUIDField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    mentioned = models.JSONField(default=list)
    unnotified = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subject_kind", "subject_key", "-id"], name="comment_of_subject")]

    def __str__(self) -> str:
        return f"comment of {self.author}"

    @property
    def is_edited(self) -> bool:
        return self.version > 1
