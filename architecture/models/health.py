"""Findings about metadata, stored when it is edited."""

from django.db import models

from architecture.domain.health import CODES, FIXES, Severity

SEVERITIES = [(severity.value, severity.value.capitalize()) for severity in Severity]


class HealthFinding(models.Model):
    """Finding about a dataset, or about one of its columns.

    ``field`` is the field where it is corrected, ``fix`` the name of a safe change that resolves it
    (``architecture.domain.health``). Rows follow from metadata and are replaced after every edit that affects them, so
    the foreign keys neither restrict nor slow down a deletion.
    """

    dataset = models.ForeignKey(
        "metadata.TargetDataset", on_delete=models.DO_NOTHING, db_constraint=False, related_name="findings"
    )
    column = models.ForeignKey(
        "metadata.TargetColumn", on_delete=models.DO_NOTHING, db_constraint=False, null=True, related_name="+"
    )
    code = models.CharField(max_length=40, choices=list(CODES.items()))
    severity = models.CharField(max_length=10, choices=SEVERITIES)
    text = models.TextField()
    field = models.CharField(max_length=100, blank=True, default="")
    fix = models.CharField(max_length=20, blank=True, default="", choices=list(FIXES.items()))
    found_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                name="health_finding_severity_known",
                condition=models.Q(severity__in=[severity.value for severity in Severity]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.code} of {self.dataset_id}"
