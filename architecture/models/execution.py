"""Executions: controlled runs of planned operations, and the row each operation leaves."""

from django.conf import settings
from django.db import models


class Execution(models.Model):
    """One run of a list of operations in one environment."""

    class Status(models.TextChoices):
        RUNNING = "running", "Running"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"

    environment = models.ForeignKey("architecture.Environment", on_delete=models.PROTECT, related_name="executions")
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    reason = models.CharField(max_length=200)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"execution {self.pk} in {self.environment}"


class ExecutionOperation(models.Model):
    """One operation of an execution: operation → statement → observed → recorded."""

    class Status(models.TextChoices):
        PLANNED = "planned", "Planned"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="operations")
    ordinal = models.PositiveIntegerField()
    op = models.CharField(max_length=30)
    table_key = models.UUIDField()
    qualified_name = models.CharField(max_length=310)
    column_name = models.CharField(max_length=200, blank=True, default="")
    statement = models.TextField(blank=True, default="")
    status = models.CharField(max_length=10, choices=Status, default=Status.PLANNED)
    version_before = models.BigIntegerField(null=True)
    version_after = models.BigIntegerField(null=True)
    observed = models.JSONField(null=True)
    error = models.TextField(blank=True, default="")
    seconds = models.FloatField(null=True)

    class Meta:
        ordering = ["execution", "ordinal"]
        constraints = [models.UniqueConstraint(fields=["execution", "ordinal"], name="execution_operation_once")]

    def __str__(self) -> str:
        return f"{self.execution} #{self.ordinal} {self.op} {self.qualified_name}"
