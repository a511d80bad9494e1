"""Proposals to change a source's contract, because the source has changed."""

import uuid

from django.conf import settings
from django.db import models

from loader.domain.sources import proposal_states
from loader.domain.sources.schema_changes import SchemaChange


class SourceProposal(models.Model):
    """Proposed changes of a contract: what a load or a check saw of the source and the contract lacks.

    ``changes`` are ``SchemaChange`` as JSON, ``fingerprint`` identifies them. ``run`` is the load that saw them first,
    none for a check. ``accepted`` are the ids of the changes that were made. ``decided_by`` is None if the system
    decided: it took new columns by declaration, or the source and its contract agree again.
    """

    class Status(models.TextChoices):
        OPEN = proposal_states.OPEN, "Open"
        ACCEPTED = proposal_states.ACCEPTED, "Accepted"
        DISMISSED = proposal_states.DISMISSED, "Dismissed"
        SUPERSEDED = proposal_states.SUPERSEDED, "Superseded"

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    source = models.ForeignKey("metadata.SourceDataset", on_delete=models.CASCADE, related_name="proposals")
    status = models.CharField(max_length=10, choices=Status, default=Status.OPEN)
    changes = models.JSONField()
    fingerprint = models.CharField(max_length=64)
    run = models.ForeignKey("loader.LoadRun", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()
    accepted = models.JSONField(default=list)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=1000, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["source", "fingerprint"], name="source_proposal_of_changes")]
        constraints = [
            models.CheckConstraint(
                name="source_proposal_status_is_known", condition=models.Q(status__in=sorted(proposal_states.STEPS))
            ),
            models.CheckConstraint(
                name="source_proposal_is_decided_or_open",
                condition=models.Q(status=proposal_states.OPEN, decided_at__isnull=True)
                | (~models.Q(status=proposal_states.OPEN) & models.Q(decided_at__isnull=False)),
            ),
            models.UniqueConstraint(
                fields=["source"],
                condition=models.Q(status=proposal_states.OPEN),
                name="source_proposal_one_open",
            ),
        ]

    def __str__(self) -> str:
        return f"proposal for {self.source}"

    @property
    def schema_changes(self) -> tuple[SchemaChange, ...]:
        """Return the proposed changes."""
        return tuple(SchemaChange.from_json(item) for item in self.changes)
