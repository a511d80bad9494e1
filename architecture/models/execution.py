"""Executions: controlled changes of the warehouse, the row of each step, and the sealed record."""

from typing import Any, ClassVar
from uuid import uuid4

from django.db import models

from elevata.audit.hash_chain import ChainKind
from elevata.audit.models import AppendOnly
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states
from elevata.jobs.models import Job, status_choices


class Execution(Job):
    """Execution of a report's steps in one environment, or of the safe steps that a load run needs.

    ``planned`` is the plan that the worker stored: operations (``rows``), scope, the datasets' states ``before`` and
    ``desired``, and their ``marks``. An execution without a report belongs to the load run named in ``reason``; its
    ``planned`` also contains the report. ``command`` is the channel of the request (page, REST, manage.py),
    ``versions`` the versions of the runner's software. ``attempt`` is the fencing number of a worker's writes.
    ``signature`` is by the audit key over the request, the requester and the plan.
    """

    KIND = "execution"
    STATUSES: ClassVar = status_choices(states.STEPS.keys() - {states.BLOCKED})

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="execution_row"
    )
    environment = models.ForeignKey("architecture.Environment", on_delete=models.PROTECT, related_name="executions")
    report = models.ForeignKey(
        "architecture.ChangeReport", on_delete=models.PROTECT, null=True, related_name="executions"
    )
    preview = models.ForeignKey("architecture.Preview", on_delete=models.PROTECT, null=True, related_name="executions")
    # True once the execution was abandoned: only then its report may be executed again. A copy of the job's status,
    # which the constraint below cannot read.
    abandoned = models.BooleanField(default=False)
    command = models.CharField(max_length=200, blank=True, default="")
    versions = models.JSONField(default=dict, blank=True)
    planned = models.JSONField(default=dict, blank=True)
    signature = models.CharField(max_length=81, default="", editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["report"],
                condition=models.Q(report__isnull=False, abandoned=False),
                name="execution_once_per_report",
            ),
            models.CheckConstraint(
                name="execution_of_a_report_has_a_preview",
                condition=models.Q(report__isnull=True, preview__isnull=True)
                | models.Q(report__isnull=False, preview__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"execution {self.pk} in {self.environment}"


class ExecutionOperation(models.Model):
    """One step of an execution, with its statement and result.

    ``operation`` is the index of its operation in the report; several steps can belong to one operation. A step that
    changes no table (logic, retirement) has no statement.
    """

    class Status(models.TextChoices):
        PLANNED = "planned", "Planned"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="operations")
    ordinal = models.PositiveIntegerField()
    operation = models.PositiveIntegerField(null=True)
    op = models.CharField(max_length=30)
    dataset_key = models.UUIDField(null=True)
    table_key = models.UUIDField()
    qualified_name = models.CharField(max_length=310)
    column_name = models.CharField(max_length=260, blank=True, default="")
    statement = models.TextField(blank=True, default="")
    status = models.CharField(max_length=10, choices=Status, default=Status.PLANNED)
    attempt = models.PositiveIntegerField(default=0)
    version_before = models.BigIntegerField(null=True)
    version_after = models.BigIntegerField(null=True)
    observed = models.JSONField(null=True)
    error = models.TextField(blank=True, default="")
    seconds = models.FloatField(null=True)

    class Meta:
        ordering = ["execution", "ordinal"]
        constraints = [
            models.UniqueConstraint(fields=["execution", "ordinal"], name="execution_operation_once"),
            models.CheckConstraint(
                name="execution_operation_status_is_known",
                condition=models.Q(status__in=["planned", "succeeded", "failed"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.execution} #{self.ordinal} {self.op} {self.qualified_name}"


class ExecutionEvent(AppendOnly):
    """Line of an execution's log. Append-only, and part of the audit chain.

    ``step`` is the ordinal of the line's step; ``attempt`` is 0 before a worker claims the execution.
    """

    CHAIN = ChainKind("execution_event")

    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    attempt = models.PositiveIntegerField()
    level = models.CharField(max_length=10, default="info")
    step = models.PositiveIntegerField(null=True)
    message = models.TextField()

    class Meta(AppendOnly.Meta):
        ordering = ["id"]

    def __str__(self) -> str:
        return self.message

    def content(self) -> dict[str, Any]:
        """Return the content that the chain's digest covers: every column."""
        return {
            "id": self.pk,
            "execution": self.execution_id,
            "at": self.at.isoformat(timespec="microseconds"),
            "attempt": self.attempt,
            "level": self.level,
            "step": self.step,
            "message": self.message,
        }


class ExecutionRecord(AppendOnly):
    """Record of an execution, sealed when it succeeded or was abandoned. Append-only.

    A load run's execution is not resumed, so it is sealed when it ends, also if it failed or was cancelled.
    ``document`` contains actor, operations, environment, approvals and result; ``digest`` is over its canonical JSON.
    """

    CHAIN = ChainKind("record")

    record_id = models.UUIDField(unique=True, default=uuid4, editable=False)
    execution = models.OneToOneField(Execution, on_delete=models.PROTECT, related_name="record")
    environment = models.ForeignKey("architecture.Environment", on_delete=models.PROTECT, related_name="records")
    document = models.JSONField()
    digest = models.CharField(max_length=64)
    outcome = models.CharField(max_length=10)
    created_at = models.DateTimeField()

    class Meta(AppendOnly.Meta):
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(name="execution_record_digest_is_whole", condition=models.Q(digest__length=64)),
            models.CheckConstraint(
                name="execution_record_outcome_is_known",
                condition=models.Q(outcome__in=["abandoned", "canceled", "failed", "succeeded"]),
            ),
        ]

    def __str__(self) -> str:
        return f"record {self.record_id}"

    def content(self) -> dict[str, Any]:
        """Return the input of the chain's digest: all columns, with a newly computed digest of the document."""
        return {
            "id": self.pk,
            "record": str(self.record_id),
            "execution": self.execution_id,
            "environment": self.environment_id,
            "digest": sha256_hex(self.document),
            "stored_digest": self.digest,
            "outcome": str(self.outcome),
            "at": self.created_at.isoformat(timespec="microseconds"),
        }
