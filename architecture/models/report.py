"""Change reports, their approvals, and their previews."""

from typing import Any, ClassVar
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models.functions import Length

from architecture.domain import decisions, report_states
from architecture.domain.report import MAX_TITLE
from elevata.audit.hash_chain import ChainKind
from elevata.audit.models import AppendOnly
from elevata.jobs import states
from elevata.jobs.models import Job, status_choices

models.CharField.register_lookup(Length)


def _fingerprint_is_whole(name: str) -> models.CheckConstraint:
    return models.CheckConstraint(name=name, condition=models.Q(fingerprint__length=64))


class ChangeReport(models.Model):
    """Change report: scope, differences, operations and decisions, identified by a fingerprint.

    ``document`` is the published form (``change-report/v1``), ``content`` the input of its fingerprint. ``authors``
    are the names of the authors of its changes, at creation. ``through`` is the last link of the audit chain sealed
    before the metadata was read. ``undo_of`` is the record whose operations the report undoes; its desired state is
    then stored in ``document``, not in the metadata. ``outdated`` is the reason why a report that was not executed is
    outdated, as of the newest sweep; {} if it is up to date.
    """

    class Status(models.TextChoices):
        OPEN = "open", "Open"
        BLOCKED = "blocked", "Blocked"
        NO_CHANGES = "no_changes", "No changes"
        APPROVED = "approved", "Approved"
        REJECTED = "rejected", "Rejected"
        SUPERSEDED = "superseded", "Superseded"
        WITHDRAWN = "withdrawn", "Withdrawn"

    class Risk(models.TextChoices):
        SAFE = "safe", "Low"
        REVIEW = "review", "Medium"
        DESTRUCTIVE = "destructive", "High"

    report_id = models.UUIDField(unique=True, default=uuid4, editable=False)
    environment = models.ForeignKey("architecture.Environment", on_delete=models.PROTECT, related_name="reports")
    scope = models.JSONField()
    # Hash of ``scope``, by which reports of one scope are found: PostgreSQL indexes no long texts.
    scope_hash = models.CharField(max_length=64, editable=False)
    # Names of the datasets that it changes, in short (architecture.domain.report.title_of).
    title = models.CharField(max_length=MAX_TITLE)
    document = models.JSONField()
    content = models.JSONField()
    fingerprint = models.CharField(max_length=64, db_index=True)
    status = models.CharField(max_length=12, choices=Status)
    risk = models.CharField(max_length=12, choices=Risk)
    destructive = models.BooleanField()
    authors = models.JSONField(default=list)
    through = models.BigIntegerField(default=0)
    observed_at = models.DateTimeField(null=True)
    outdated = models.JSONField(default=dict, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    superseded_by = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="supersedes")
    undo_of = models.ForeignKey(
        "architecture.ExecutionRecord", on_delete=models.PROTECT, null=True, related_name="undo_reports"
    )
    # Signature by the audit key over everything but the state (architecture.services.row_signatures).
    signature = models.CharField(max_length=81, default="", editable=False)

    class Meta:
        ordering = ["-id"]
        # For each waiting report, the inbox queries a newer report of the same scope.
        indexes = [models.Index(fields=["environment", "scope_hash", "id"], name="change_report_of_scope")]
        constraints = [
            _fingerprint_is_whole("change_report_fingerprint_is_whole"),
            models.CheckConstraint(
                name="change_report_status_is_known", condition=models.Q(status__in=list(report_states.REPORT_STEPS))
            ),
            models.CheckConstraint(
                name="change_report_superseded_by_another",
                condition=models.Q(status="superseded", superseded_by__isnull=False)
                | (~models.Q(status="superseded") & models.Q(superseded_by__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"report {self.report_id}"


class Approval(AppendOnly):
    """Recorded decision of a user on a fingerprint. Append-only.

    ``person_name`` and ``roles`` are the user's name and roles at that time; the decision counts for these roles.
    ``readers_lost``: tables may lose readers that the environment supports, instead of being rewritten.
    ``contracts_broken`` are the contracts whose break the user accepts: dataset, versions and consumers of each.
    """

    CHAIN = ChainKind("approval", related=("report",))

    class Decision(models.TextChoices):
        APPROVE = "approve", "Approved"
        REJECT = "reject", "Rejected"

    report = models.ForeignKey(ChangeReport, on_delete=models.PROTECT, related_name="approvals")
    fingerprint = models.CharField(max_length=64)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    person_name = models.CharField(max_length=150)
    roles = models.JSONField(default=list)
    decision = models.CharField(max_length=10, choices=Decision)
    note = models.TextField(blank=True, default="")
    readers_lost = models.BooleanField(default=False)
    contracts_broken = models.JSONField(default=list)
    at = models.DateTimeField()

    class Meta(AppendOnly.Meta):
        ordering = ["id"]
        constraints = [
            _fingerprint_is_whole("approval_fingerprint_is_whole"),
            models.UniqueConstraint(fields=["report", "person"], name="approval_once_per_person"),
            models.CheckConstraint(
                name="approval_is_yes_or_no", condition=models.Q(decision__in=[decisions.YES, decisions.NO])
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person_name}: {self.decision} {self.report}"

    def content(self) -> dict[str, Any]:
        """Return the input of the chain's digest: all columns, and the report's UUID."""
        return {
            "id": self.pk,
            "report": str(self.report.report_id),
            "report_id": self.report_id,
            "fingerprint": self.fingerprint,
            "person": self.person_name,
            "person_id": self.person_id,
            "roles": list(self.roles),
            "decision": str(self.decision),
            "note": self.note,
            # Rows from before these columns were added keep their digest.
            **({"readers_lost": True} if self.readers_lost else {}),
            **({"contracts_broken": self.contracts_broken} if self.contracts_broken else {}),
            "at": self.at.isoformat(timespec="microseconds"),
        }


class Preview(models.Model):
    """Exact statements of a report, in order.

    ``document`` contains the steps with their statements and the assumed structure of tables; the fingerprint is over
    it. ``sizes`` (rows, bytes, files by table) and ``estimate`` are not part of the fingerprint.
    """

    report = models.ForeignKey(ChangeReport, on_delete=models.PROTECT, related_name="previews")
    document = models.JSONField()
    fingerprint = models.CharField(max_length=64)
    sizes = models.JSONField(default=dict)
    estimate = models.JSONField(default=dict)
    observed_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    made_at = models.DateTimeField(auto_now=True)
    # Signature by the audit key over report and fingerprint (architecture.services.row_signatures).
    signature = models.CharField(max_length=81, default="", editable=False)

    class Meta:
        ordering = ["-made_at", "-id"]
        constraints = [
            _fingerprint_is_whole("preview_fingerprint_is_whole"),
            models.UniqueConstraint(fields=["report", "fingerprint"], name="preview_once_per_fingerprint"),
        ]

    def __str__(self) -> str:
        return f"preview {self.fingerprint[:12]} of {self.report}"


class DryRun(Job):
    """Dry run: the steps of a preview on shallow clones, which are dropped afterwards.

    ``result`` contains schema, row counts and samples before and after, and broken downstream queries. ``exclusive``
    allows one active dry run per preview. It is cancelled when the report is executed.
    """

    KIND = "dry_run"
    STATUSES: ClassVar = status_choices(
        {states.QUEUED, states.RUNNING, states.SUCCEEDED, states.FAILED, states.CANCELING, states.CANCELED}
    )

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="dry_run_row"
    )
    preview = models.ForeignKey(Preview, on_delete=models.PROTECT, related_name="dry_runs")
    result = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"dry run of {self.preview}"


class Refresh(Job):
    """Observation of tables by a worker, for example for a report or preview.

    ``tables`` are stable keys, ``found`` is the number of existing tables. ``sizes``: sizes are measured, too.
    ``scope`` is the scope of the report to create, ``report`` the created report or the one to preview, ``preview`` the
    created preview.
    """

    class Purpose(models.TextChoices):
        OBSERVATION = "", "Observation"
        REPORT = "report", "Report"
        PREVIEW = "preview", "Preview"
        DRIFT = "drift", "Drift"

    KIND = "refresh"
    STATUSES: ClassVar = status_choices({states.QUEUED, states.RUNNING, states.SUCCEEDED, states.FAILED})

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="refresh_row"
    )
    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="+")
    purpose = models.CharField(max_length=10, choices=Purpose, blank=True, default=Purpose.OBSERVATION)
    tables = models.JSONField()
    sizes = models.BooleanField(default=False)
    found = models.PositiveIntegerField(null=True)
    scope = models.JSONField(null=True)
    report = models.ForeignKey(ChangeReport, on_delete=models.PROTECT, null=True, related_name="+")
    preview = models.ForeignKey(Preview, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="refresh_purpose_is_known", condition=models.Q(purpose__in=["", "report", "preview", "drift"])
            )
        ]

    def __str__(self) -> str:
        return f"refresh {self.pk}"
