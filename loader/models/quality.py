"""Results of quality checks, and profiles of tables."""

from django.db import models

from loader.contract.check_outcomes import OUTCOMES, PROBLEMS


class CheckResult(models.Model):
    """Result of one quality check, of a load run or of a read (``manage.py check_quality``).

    ``failed`` is the number of rows that failed, ``total`` that of the rows checked. ``value`` is the number that a
    check of the table compared with ``low`` and ``high``. ``samples`` are keys of failed rows. ``tells`` has the
    stable keys of the datasets whose sensitive values the numbers reveal; only users who may read those values see the
    numbers.
    """

    run = models.ForeignKey(
        "loader.LoadRun", on_delete=models.CASCADE, null=True, blank=True, related_name="check_results"
    )
    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="+")
    dataset = models.ForeignKey(
        "metadata.TargetDataset", on_delete=models.SET_NULL, null=True, related_name="check_results"
    )
    dataset_key = models.UUIDField()
    dataset_name = models.CharField(max_length=310)
    check_key = models.UUIDField()
    check_name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20)
    severity = models.CharField(max_length=10)
    outcome = models.CharField(max_length=12, choices=list(OUTCOMES.items()))
    failed = models.BigIntegerField(null=True, blank=True)
    total = models.BigIntegerField(null=True, blank=True)
    value = models.FloatField(null=True, blank=True)
    low = models.FloatField(null=True, blank=True)
    high = models.FloatField(null=True, blank=True)
    message = models.TextField(blank=True, default="")
    samples = models.JSONField(default=list)
    tells = models.JSONField(default=list)
    at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["check_key", "id"], name="check_result_of_check"),
            models.Index(fields=["dataset_key", "id"], name="check_result_of_dataset"),
        ]
        constraints = [
            models.CheckConstraint(
                name="check_result_outcome_is_known", condition=models.Q(outcome__in=sorted(OUTCOMES))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset_name}.{self.check_name}: {self.outcome}"

    @property
    def is_problem(self) -> bool:
        """Return True unless the check passed."""
        return self.outcome in PROBLEMS


class TableProfile(models.Model):
    """Newest profile of a dataset's table, for readers of all values or, ``masked``, for the others.

    ``table_version`` is the Delta version that was read, None for a view; ``content`` has the rows and columns
    (``loader.domain.quality.profiles``).
    """

    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="+")
    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, related_name="profiles")
    masked = models.BooleanField()
    table_version = models.BigIntegerField(null=True, blank=True)
    content = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "dataset", "masked"], name="table_profile_once"),
        ]

    def __str__(self) -> str:
        return f"profile of {self.dataset}"
