"""Load runs with their datasets, logs and sealed records; schedules; read requests."""

import uuid
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from django.conf import settings
from django.db import models

from elevata.audit.domain import ChainKind
from elevata.audit.models import AppendOnly, Versioned
from elevata.core.canonical_json import sha256_hex
from elevata.jobs import states
from elevata.jobs.models import Job, status_choices
from loader.domain.run_states import ACCEPTABLE, DATASET_STEPS, further_counts
from loader.domain.sources.marks import MAX_SINCE
from loader.domain.sources.window_texts import window_text
from loader.domain.vacuum import SAFE_HOURS

if TYPE_CHECKING:
    from metadata.models import TargetDataset


class LoadRun(Job):
    """Run on the warehouse: it loads and historizes data, or maintains loaded tables.

    ``kind`` is ``load``, or a kind of maintenance for one dataset. ``reason`` is the user's, ``details`` those of
    the request (``asked``, see ``loader.domain.run_states``) and, once it is done, the Delta versions of every
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

    def get_kind_display(self) -> str:
        """Return the label of the kind."""
        return self.Kind(self.kind).label


class DatasetRun(models.Model):
    """State and result of one dataset in one load run; written while the run goes on.

    ``sequence`` is the number this run has in the dataset's history (``txnVersion``): allocated
    once per run and kept over attempts. ``attempt`` is the attempt of the run that may write this
    row. ``counts`` depend on the kind: raw has rows, duplicates and superseded; rawcore has rows, duplicates,
    outranked (rows of other sources that were left out), new, changed, deleted, reappeared, unchanged, versions, open,
    and by policy those of ``loader.domain.run_states``. ``window`` are the watermark values between which a source was
    read, as texts: ``{"from": {column: value} | None, "to": {column: value}}``; with ``"ahead": {column: count}`` if
    rows are ahead of the limits of the marks. ``unchanged_since`` is the run whose
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


# Sealed records of maintenance runs, one for each attempt.


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


# Schedules of load runs.


class Schedule(Versioned):
    """A load run that is started at certain times, in one environment; or a vacuum, or a check of sources.

    ``cron`` has five fields and counts in ``time_zone``; ``scope`` is that of the runs
    (``loader.domain.dependencies.Scope`` as JSON). ``next_at`` is the next due time, None while the
    schedule is not active: the process that moves it on, by compare-and-set, starts the run.
    ``last_due_at`` is the last due time that was handled and ``outcome`` its result; ``remark``
    is the reason where no run was started. ``last_run`` is the newest run, due or started by a user.

    ``wait`` is the condition of its runs (``loader.domain.waits.Wait`` as JSON), empty for the clock alone. While it
    is not fulfilled, ``waiting`` has the due time, and time, answer and files of the last check. ``last_delivery``
    identifies the files of the last run that waited for files.
    """

    class Kind(models.TextChoices):
        LOAD = "load", "Load"
        VACUUM = "vacuum", "Vacuum"
        CHECK = "check", "Source check"

    class Outcome(models.TextChoices):
        NOTHING = "", "Nothing yet"
        STARTED = "started", "Started"
        SKIPPED = "skipped", "Skipped"
        WAITING = "waiting", "Waiting"

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="schedules")
    name = models.CharField(max_length=100)
    active = models.BooleanField(default=True)
    cron = models.CharField(max_length=100)
    time_zone = models.CharField(max_length=64, default="UTC")
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.LOAD)
    scope = models.JSONField()
    allow_empty = models.BooleanField(default=False)
    retention_hours = models.PositiveIntegerField(default=SAFE_HOURS)
    next_at = models.DateTimeField(null=True, blank=True)
    last_due_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome, blank=True, default=Outcome.NOTHING)
    remark = models.JSONField(null=True, blank=True)
    wait = models.JSONField(default=dict, blank=True)
    waiting = models.JSONField(null=True, blank=True)
    last_delivery = models.CharField(max_length=200, blank=True, default="")
    last_run = models.ForeignKey("loader.LoadRun", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["name"]
        indexes = [models.Index(fields=["environment", "next_at"], name="schedule_next")]
        constraints = [
            models.UniqueConstraint(fields=["environment", "name"], name="schedule_named_once"),
            models.CheckConstraint(
                name="schedule_outcome_is_known", condition=models.Q(outcome__in=["", "started", "skipped", "waiting"])
            ),
            models.CheckConstraint(
                name="schedule_kind_is_known", condition=models.Q(kind__in=["load", "vacuum", "check"])
            ),
            models.CheckConstraint(
                name="schedule_is_due_only_while_active",
                condition=models.Q(active=True, next_at__isnull=False) | models.Q(active=False, next_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.name


# Read requests of pages to the warehouse.


class ReadRequest(Job):
    """Read that the runner answers: pages never start Spark themselves.

    ``kind`` is one of ``loader.services.reads.read_requests.KINDS``, or ``source_check`` (by a schedule; the worker
    itself answers it); ``arguments`` and ``answer`` are its JSON. The answer's ``table_version`` is the Delta version
    that was read. ``reason`` is the user's, if one was given.
    """

    STATUSES: ClassVar = status_choices({states.QUEUED, states.RUNNING, states.SUCCEEDED, states.FAILED})

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="read_row"
    )
    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="+")
    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, null=True, related_name="+")
    arguments = models.JSONField(default=dict)
    answer = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.dataset}"

    @property
    def own_dataset(self) -> "TargetDataset":
        """Return the dataset of a kind that reads one."""
        assert self.dataset is not None
        return self.dataset

    @property
    def content(self) -> dict[str, Any]:
        """Return the answer of a read that succeeded."""
        assert self.answer is not None
        answer: dict[str, Any] = self.answer
        return answer


# Saved queries.


class SavedQuery(Versioned):
    """A query of the SQL page that a user saved under a name; a shared one is listed for every user."""

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=100)
    text = models.TextField()
    shared = models.BooleanField(default=False)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_query_named_once")]

    def __str__(self) -> str:
        return self.name
