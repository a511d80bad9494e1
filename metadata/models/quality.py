"""Quality checks of target datasets, as rows."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower

from elevata.audit.models import Versioned
from metadata.domain.quality import check_kinds
from metadata.domain.quality.check_kinds import QualityRule

KINDS = [(name, kind.label) for name, kind in check_kinds.KINDS.items()]
SEVERITIES = list(check_kinds.SEVERITIES.items())


class QualityCheck(Versioned):
    """Check of a dataset's rows, which loads run before they commit.

    ``arguments`` are read by ``metadata.domain.quality.check_kinds``.
    """

    LOG_KIND: ClassVar[str] = "check"

    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, related_name="checks")
    key = models.UUIDField(unique=True, editable=False)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=KINDS)
    arguments = models.JSONField(default=dict, blank=True)
    severity = models.CharField(max_length=10, choices=SEVERITIES, default=check_kinds.WARN)
    description = models.TextField(blank=True, default="")
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["dataset", "name"]
        constraints = [
            models.UniqueConstraint(
                "dataset",
                Lower("name"),
                name="quality_check_name_once",
                violation_error_message="The dataset has another check of this name (case does not part names).",
            ),
            models.CheckConstraint(
                name="quality_check_kind_is_known",
                condition=models.Q(kind__in=list(check_kinds.KINDS)),
                violation_error_message=f"Kinds are {', '.join(check_kinds.KINDS)}.",
            ),
            models.CheckConstraint(
                name="quality_check_severity_is_known",
                condition=models.Q(severity__in=list(check_kinds.SEVERITIES)),
                violation_error_message=f"Severities are {', '.join(check_kinds.SEVERITIES)}.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset}.{self.name}"

    @property
    def rule(self) -> QualityRule:
        """Return kind and arguments. Raise QualityProblem."""
        return QualityRule.from_dict(self.kind, self.arguments)

    @property
    def summary(self) -> str:
        """Return the check in words."""
        return check_kinds.summary(self.rule)
