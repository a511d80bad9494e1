"""Proposals of looser policies, and the append-only record of each environment's policy."""

from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import models

from architecture.models.state import Environment
from elevata.audit.hash_chain import ChainKind
from elevata.audit.models import AppendOnly


class PolicyProposal(models.Model):
    """Proposal of a looser change policy that waits for a second user.

    ``policies`` are the environment's choices that differ from the defaults, based on ``base_version``; ``before``
    and ``after`` are the whole policy sets at that time. ``looser`` are the looser choices
    (``architecture.domain.policy_loosening.Loosening``).
    """

    class Status(models.TextChoices):
        PROPOSED = "proposed", "Proposed"
        ACCEPTED = "accepted", "Accepted"
        REJECTED = "rejected", "Rejected"
        WITHDRAWN = "withdrawn", "Withdrawn"
        OUTDATED = "outdated", "Outdated"

    proposal_id = models.UUIDField(unique=True, default=uuid4, editable=False)
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="proposals")
    policies = models.JSONField()
    base_version = models.PositiveIntegerField()
    before = models.JSONField()
    after = models.JSONField()
    looser = models.JSONField()
    reason = models.CharField(max_length=1000, blank=True, default="")
    status = models.CharField(max_length=9, choices=Status, default=Status.PROPOSED)
    proposed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    proposed_at = models.DateTimeField(auto_now_add=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=1000, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="policy_proposal_status_is_known",
                condition=models.Q(status__in=["proposed", "accepted", "rejected", "withdrawn", "outdated"]),
            ),
            models.CheckConstraint(
                name="policy_proposal_is_decided_or_not",
                condition=models.Q(status="proposed", decided_by__isnull=True, decided_at__isnull=True)
                | (~models.Q(status="proposed") & models.Q(decided_by__isnull=False, decided_at__isnull=False)),
            ),
            models.CheckConstraint(
                name="policy_proposal_accepted_by_another",
                condition=~models.Q(status="accepted") | ~models.Q(decided_by=models.F("proposed_by")),
            ),
            models.UniqueConstraint(
                fields=["environment"], condition=models.Q(status="proposed"), name="policy_proposal_one_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"proposal {self.proposal_id} for the policy of {self.environment}"


class PolicyRecord(AppendOnly):
    """Record of an action on an environment's change policy: set, proposed, accepted, rejected, withdrawn or outdated.

    ``version`` is the environment's version after the action, ``policies`` are the choices, ``policy`` is the resulting
    policy set with the defaults at that time.
    """

    CHAIN = ChainKind("policy", related=("environment", "proposal"))

    class Action(models.TextChoices):
        SET = "set", "Set"
        PROPOSED = "proposed", "Proposed"
        ACCEPTED = "accepted", "Accepted"
        REJECTED = "rejected", "Rejected"
        WITHDRAWN = "withdrawn", "Withdrawn"
        OUTDATED = "outdated", "Outdated"

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="policy_records")
    proposal = models.ForeignKey(PolicyProposal, on_delete=models.PROTECT, null=True, related_name="records")
    action = models.CharField(max_length=9, choices=Action)
    version = models.PositiveIntegerField()
    policies = models.JSONField()
    policy = models.JSONField()
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    person_name = models.CharField(max_length=150)
    note = models.CharField(max_length=1000, blank=True, default="")
    at = models.DateTimeField()

    class Meta(AppendOnly.Meta):
        ordering = ["id"]

    def __str__(self) -> str:
        return f"policy of {self.environment} {self.action} by {self.person_name}"

    def content(self) -> dict[str, Any]:
        """Return the input of the chain's digest: all columns of the decision, including ids of users."""
        return {
            "id": self.pk,
            "environment": self.environment.name,
            "proposal": str(self.proposal.proposal_id) if self.proposal is not None else None,
            "proposed_by": self.proposal.proposed_by_id if self.proposal is not None else None,
            "action": str(self.action),
            "version": self.version,
            "policies": self.policies,
            "policy": self.policy,
            "user": self.person_id,
            "person": self.person_name,
            "note": self.note,
            "at": self.at.isoformat(timespec="microseconds"),
        }
