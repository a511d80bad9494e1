"""Environments with their applied datasets, retained histories, observations and leases."""

from django.db import models


class Environment(models.Model):
    """Warehouse with its own applied state and change policy, such as dev, test or prod.

    ``policies`` are the choices that differ from the installation's policy set, as JSON
    (``architecture.domain.change_policy``). ``policies_version`` is incremented by each edit (optimistic lock).
    """

    name = models.CharField(max_length=50, unique=True)
    warehouse = models.CharField(max_length=1000)
    policies = models.JSONField(default=dict, blank=True)
    policies_version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AppliedDataset(models.Model):
    """Applied state of a dataset in an environment, after the last finished operation on it.

    ``state`` is in the form of ``architecture.domain.states.flat_states``, ``table_versions`` are the observed Delta
    versions of the tables by stable key. ``through`` is a mark: all edits up to this link of the audit chain were
    executed (0: none), and users who edited later are authors of the next report. The row is written in the transaction
    that records the operation, so it never contains a change that was not observed. ``signature`` is by the audit key
    over the columns on which decisions depend, with the ``digest`` of the state.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="applied_datasets")
    dataset_key = models.UUIDField()
    qualified_name = models.CharField(max_length=310)
    state = models.JSONField()
    table_versions = models.JSONField(default=dict)
    execution = models.ForeignKey("architecture.Execution", on_delete=models.PROTECT, null=True, related_name="+")
    through = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, default="", editable=False)
    signature = models.CharField(max_length=81, default="", editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["environment", "qualified_name"]
        constraints = [models.UniqueConstraint(fields=["environment", "dataset_key"], name="applied_dataset_once")]

    def __str__(self) -> str:
        return f"{self.environment}: {self.qualified_name}"


class KeptHistory(models.Model):
    """Retained history that is no longer loaded, with the dataset's last state while it was (flat, as JSON).

    When the history is resumed, the desired state is compared with this one, and the row is deleted. ``signature`` is
    by the audit key.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="kept_histories")
    history_key = models.UUIDField()
    state = models.JSONField()
    signature = models.CharField(max_length=81, default="", editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["environment", "history_key"]
        constraints = [models.UniqueConstraint(fields=["environment", "history_key"], name="kept_history_once")]

    def __str__(self) -> str:
        return f"{self.environment}: history {self.history_key}"


class Observation(models.Model):
    """Last observation of a table (``architecture.domain.tables.ObservedTable`` as JSON).

    ``document`` is NULL if there was no table; ``size`` is rows, bytes and files, if known.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="observations")
    table_key = models.UUIDField()
    document = models.JSONField(null=True)
    size = models.JSONField(null=True)
    observed_at = models.DateTimeField()

    class Meta:
        ordering = ["environment", "table_key"]
        constraints = [models.UniqueConstraint(fields=["environment", "table_key"], name="observation_once")]

    def __str__(self) -> str:
        return f"{self.environment}: {self.table_key} at {self.observed_at:%Y-%m-%d %H:%M:%S}"


class Lease(models.Model):
    """Exclusive right to write to one dataset in one environment.

    The row stays after release, so that ``fence`` only grows: a page that shows an earlier holder can detect that.
    Only the holder's attempt can renew or release a lease. A lease with a ``heartbeat_at`` that is too old can be
    taken over, and so can one of an older attempt (``holder_attempt``) of the same holder.
    """

    class Holder(models.TextChoices):
        NOBODY = "", "Nobody"
        LOAD_RUN = "load run", "Load run"
        EXECUTION = "execution", "Execution"

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="leases")
    dataset_key = models.UUIDField()
    holder_kind = models.CharField(max_length=20, choices=Holder, blank=True, default=Holder.NOBODY)
    holder_id = models.CharField(max_length=100, blank=True, default="")
    holder_attempt = models.PositiveIntegerField(default=0)
    fence = models.PositiveBigIntegerField(default=0)
    taken_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["environment", "dataset_key"]
        constraints = [
            models.UniqueConstraint(fields=["environment", "dataset_key"], name="lease_once"),
            models.CheckConstraint(
                name="lease_is_held_whole_or_free",
                condition=models.Q(holder_kind="", holder_id="", taken_at__isnull=True, heartbeat_at__isnull=True)
                | (
                    ~models.Q(holder_kind="")
                    & ~models.Q(holder_id="")
                    & models.Q(taken_at__isnull=False, heartbeat_at__isnull=False, fence__gte=1)
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.environment}: {self.dataset_key} held by {self.holder_kind or 'nobody'} {self.holder_id}".strip()
