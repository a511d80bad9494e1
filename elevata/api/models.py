"""Requests with an Idempotency-Key and their responses."""

from django.conf import settings
from django.db import models


class StoredResponse(models.Model):
    """Request of a user with an idempotency key, and its response; it has no status while it is processed.

    ``digest`` is of method, address and body, because a key is valid for one request only.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    started_at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)
    content_type = models.CharField(max_length=100, blank=True, default="")
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="stored_response_key_once")]

    def __str__(self) -> str:
        return f"{self.key} ({self.status or 'in flight'})"
