"""Last result of each copy of a dataset."""

from django.db import models

from loader.models.jobs import LoadRun


class CopyState(models.Model):
    """Last result of a copy in an environment, by the copy's stable key.

    ``table``, ``shape``, ``version``, ``row_count``, ``checksum`` and ``copied_at`` are those of the copy in the
    target, also after an attempt that failed. ``shape`` is the digest of columns and treatments
    (``loader.dialects.copied_columns``). ``findings`` are texts that begin with a code.
    """

    class Status(models.TextChoices):
        COPIED = "copied", "Up to date"
        FAILED = "failed", "Failed"

    environment = models.ForeignKey("architecture.Environment", on_delete=models.CASCADE, related_name="copies")
    copy_key = models.UUIDField()
    dataset_key = models.UUIDField(db_index=True)
    system = models.CharField(max_length=20)
    table = models.CharField(max_length=310, blank=True, default="")
    dataset_name = models.CharField(max_length=310, blank=True, default="")
    shape = models.CharField(max_length=64, blank=True, default="")
    status = models.CharField(max_length=10, choices=Status)
    version = models.BigIntegerField(null=True, blank=True)
    row_count = models.BigIntegerField(null=True, blank=True)
    checksum = models.CharField(max_length=100, blank=True, default="")
    mode = models.CharField(max_length=10, blank=True, default="")
    copied_at = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField()
    seconds = models.FloatField(null=True, blank=True)
    run = models.ForeignKey(LoadRun, on_delete=models.SET_NULL, null=True, blank=True, related_name="copy_states")
    findings = models.JSONField(default=list, blank=True)
    error = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["system", "table", "id"]
        constraints = [
            models.UniqueConstraint(fields=["environment", "copy_key"], name="copy_state_once"),
            models.CheckConstraint(
                name="copy_state_status_is_known", condition=models.Q(status__in=["copied", "failed"])
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset_name} in {self.system}"
