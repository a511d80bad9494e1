"""Sealed records of maintenance runs, one for each attempt."""

from typing import Any
from uuid import uuid4

from django.db import models

from elevata.audit.hash_chain import ChainKind
from elevata.audit.models import AppendOnly
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states


class MaintenanceRecord(AppendOnly):
    """Record of one attempt of a maintenance run, sealed when it ended, however it ended. Append-only.

    ``document`` holds the user, the reason, the request's details, and the resulting Delta versions and counts
    (``loader.services.loads.attempts``); ``digest`` is over its canonical JSON.
    """

    CHAIN = ChainKind("maintenance_run")

    record_id = models.UUIDField(unique=True, default=uuid4, editable=False)
    run = models.ForeignKey("loader.LoadRun", on_delete=models.PROTECT, related_name="records")
    attempt = models.PositiveIntegerField()
    document = models.JSONField()
    digest = models.CharField(max_length=64)
    outcome = models.CharField(max_length=10)
    created_at = models.DateTimeField()

    class Meta(AppendOnly.Meta):
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt"], name="maintenance_record_once_per_attempt"),
            models.CheckConstraint(name="maintenance_record_digest_is_whole", condition=models.Q(digest__length=64)),
            models.CheckConstraint(
                name="maintenance_record_outcome_is_known", condition=models.Q(outcome__in=sorted(states.FINISHED))
            ),
        ]

    def __str__(self) -> str:
        return f"record {self.record_id}"

    def content(self) -> dict[str, Any]:
        """Return the content under the chain's digest: every column, the document by a digest made of it now."""
        return {
            "id": self.pk,
            "record": str(self.record_id),
            "run": self.run_id,
            "attempt": self.attempt,
            "digest": sha256_hex(self.document),
            "stored_digest": self.digest,
            "outcome": str(self.outcome),
            "at": self.created_at.isoformat(timespec="microseconds"),
        }
