"""Load runs with their datasets, logs and sealed records; schedules; read requests."""

from typing import ClassVar

from django.db import models

from elevata.jobs import states
from elevata.jobs.models import Job, status_choices
from loader.contract.run_states import ACCEPTABLE, DATASET_STEPS, further_counts
from loader.domain.sources.marks import MAX_SINCE
from loader.domain.sources.window_texts import window_text
from metadata.domain.scope import Scope


class LoadRun(Job):
    """Run on the warehouse: it loads and historizes data, or maintains loaded tables.

    ``kind`` is ``load``, or a kind of maintenance for one dataset. ``reason`` is the user's, ``details`` those of
    the request (``asked``, see ``loader.contract.run_states``) and, once it is done, the Delta versions of every
    table it touched (``tables``). ``run_id`` identifies it in the warehouse; ``load_timestamp`` dates everything it
    writes. ``scope`` is ``{"kind": "all" | "schema" | "dataset", "name": …, "target_only": bool}``. ``execution``
    is the one that changed tables before the newest attempt loaded, if any did. ``schedule`` is the one that
    started the run. With ``full`` sources with a watermark are read whole, with ``since`` from this value on.
    """

    class Kind(models.TextChoices):
        LOAD = "load", "Load"
        HISTORY_BATCH = "history_batch", "History batch"
        REVERT = "revert", "Revert"
        PRUNE = "prune", "Prune"
        COMPACT = "compact", "Compact"
        ACCEPT = "accept", "Accept"
        VACUUM = "vacuum", "Vacuum"
        QUARANTINE_DECISION = "quarantine_decision", "Quarantine decision"
        COPY = "copy", "Copy"

    KIND = Kind.LOAD
    STATUSES: ClassVar = status_choices(states.STEPS.keys() - {states.ABANDONED})

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="load_run_row"
    )
    run_id = models.CharField(max_length=100, unique=True)
    environment = models.ForeignKey("architecture.Environment", on_delete=models.PROTECT, related_name="load_runs")
    scope = models.JSONField()
    load_timestamp = models.DateTimeField()
    allow_empty = models.BooleanField(default=False)
    allow_deletes = models.BooleanField(default=False)
    full = models.BooleanField(default=False)
    since = models.CharField(max_length=MAX_SINCE, blank=True, default="")
    details = models.JSONField(default=dict, blank=True)
    execution = models.ForeignKey(
        "architecture.Execution", on_delete=models.SET_NULL, null=True, blank=True, related_name="load_runs"
    )
    schedule = models.ForeignKey(
        "loader.Schedule", on_delete=models.SET_NULL, null=True, blank=True, related_name="runs"
    )

    class Meta:
        ordering = ["-requested_at", "-id"]
        permissions = [("start_load", "Can start and cancel load runs")]

    def __str__(self) -> str:
        return self.run_id

    @property
    def title(self) -> str:
        """Return the kind of the run with what it loads: ``Load of dataset rawcore.rc_air_airport``."""
        return f"{self.get_kind_display()} of {Scope.from_json(self.scope)}"

    def get_kind_display(self) -> str:
        """Return the label of the kind."""
        return self.Kind(self.kind).label


class DatasetRun(models.Model):
    """State and result of one dataset in one load run; written while the run goes on.

    ``sequence`` is the number this run has in the dataset's history (``txnVersion``): allocated
    once per run and kept over attempts. ``attempt`` is the attempt of the run that may write this
    row. ``counts`` depend on the kind: raw has rows, duplicates and superseded; rawcore has rows, duplicates,
    outranked (rows of other sources that were left out), new, changed, deleted, reappeared, unchanged, versions, open,
    and by policy those of ``loader.contract.run_states``. ``window`` are the watermark values between which a source
    was read, as texts: ``{"from": {column: value} | None, "to": {column: value}}``; with ``"ahead": {column: count}``
    if rows are ahead of the limits of the marks. ``unchanged_since`` is the run whose
    rows a model kept, because no input changed since. ``reverted_by`` is the run that reverted this one in the
    dataset's history.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"
        SKIPPED = "skipped", "Skipped"
        CANCELED = "canceled", "Canceled"

    FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED, Status.SKIPPED, Status.CANCELED})

    run = models.ForeignKey(LoadRun, on_delete=models.CASCADE, related_name="datasets")
    dataset = models.ForeignKey(
        "metadata.TargetDataset", on_delete=models.SET_NULL, null=True, related_name="dataset_runs"
    )
    dataset_key = models.UUIDField()
    qualified_name = models.CharField(max_length=310)
    kind = models.CharField(max_length=20)
    ordinal = models.PositiveIntegerField()
    depends_on = models.JSONField(default=list)
    sequence = models.PositiveBigIntegerField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    phase = models.CharField(max_length=100, blank=True, default="")
    counts = models.JSONField(default=dict)
    window = models.JSONField(default=dict)
    drift = models.JSONField(default=list, help_text="Columns that were delivered but are not in the contract.")
    warnings = models.JSONField(default=list)
    error = models.JSONField(null=True, blank=True)
    faults = models.JSONField(
        null=True, blank=True, help_text="Refusal that names the rows of the delivery that were quarantined."
    )
    reverted_by = models.ForeignKey(
        LoadRun, on_delete=models.SET_NULL, null=True, blank=True, related_name="reverted_rows"
    )
    skipped_because = models.CharField(max_length=310, blank=True, default="")
    unchanged_since = models.CharField(max_length=100, blank=True, default="")
    table_version_before = models.BigIntegerField(null=True, blank=True)
    table_version_after = models.BigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    seconds = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["run", "ordinal"]
        indexes = [models.Index(fields=["dataset_key", "id"], name="dataset_run_newest")]
        constraints = [
            models.UniqueConstraint(fields=["run", "dataset_key"], name="dataset_run_once"),
            models.UniqueConstraint(
                fields=["dataset_key", "sequence"],
                condition=models.Q(sequence__isnull=False),
                name="dataset_run_sequence_once",
            ),
            models.CheckConstraint(
                name="dataset_run_status_is_known", condition=models.Q(status__in=sorted(DATASET_STEPS))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run}: {self.qualified_name}"

    @property
    def has_rejected_rows(self) -> bool:
        """Return True if rows of the delivery had faults, and so were kept for download; a history batch keeps none."""
        has_faults = bool(self.faults or (self.error or {}).get("faults"))
        return has_faults and self.run.kind != LoadRun.Kind.HISTORY_BATCH

    @property
    def is_acceptable(self) -> bool:
        """Return True if the table was refused as another than the last run left, so that it may be accepted."""
        return (self.error or {}).get("code") in ACCEPTABLE

    @property
    def window_text(self) -> str:
        """Return the part of the source that was read, in words; empty for a source without a watermark."""
        return window_text(self.window)

    @property
    def further_counts(self) -> list[tuple[str, str, int]]:
        """Return further counts that are not zero, beyond the lists' columns: name, label, number."""
        return further_counts(self.counts)


class RunEvent(models.Model):
    """A line of a load run's log, stored as it happens."""

    run = models.ForeignKey(LoadRun, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    attempt = models.PositiveIntegerField()
    level = models.CharField(max_length=10, default="info")
    dataset_name = models.CharField(max_length=310, blank=True, default="")
    message = models.TextField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.message
