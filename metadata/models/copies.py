"""Copies of target datasets, as rows."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower

from elevata.audit.models import Versioned
from metadata.domain import copies

MODES, SENSITIVE = list(copies.MODES.items()), list(copies.SENSITIVE.items())


class DatasetCopy(Versioned):
    """Copy of a dataset's table, which a load makes after it has committed.

    ``table`` is ``schema.name`` in the target, empty for the dataset's own name.
    """

    LOG_KIND: ClassVar[str] = "copy"

    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, related_name="copies")
    system = models.ForeignKey("metadata.System", on_delete=models.PROTECT, related_name="copies")
    key = models.UUIDField(unique=True, editable=False)
    table = models.CharField(max_length=310, blank=True, default="")
    mode = models.CharField(max_length=10, choices=MODES, default=copies.REPLACE)
    sensitive = models.CharField(max_length=10, choices=SENSITIVE, default=copies.LEAVE_OUT)

    class Meta:
        ordering = ["dataset", "system__short_name", "table"]
        verbose_name, verbose_name_plural = "copy", "copies"
        constraints = [
            models.UniqueConstraint(
                "dataset",
                "system",
                Lower("table"),
                name="dataset_copy_once",
                violation_error_message="The dataset has another copy of this name in the system.",
            ),
            models.CheckConstraint(
                name="dataset_copy_mode_is_known",
                condition=models.Q(mode__in=list(copies.MODES)),
                violation_error_message=f"Modes are {', '.join(copies.MODES)}.",
            ),
            models.CheckConstraint(
                name="dataset_copy_sensitive_is_known",
                condition=models.Q(sensitive__in=list(copies.SENSITIVE)),
                violation_error_message=f"Sensitive columns are {', '.join(copies.SENSITIVE)}.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset} in {self.system}"

    @property
    def name(self) -> str:
        """Return the name that pages about the copy show."""
        return f"{self.table_name} in {self.system}"

    @property
    def table_name(self) -> str:
        """Return ``schema.name`` of the table in the target."""
        return self.table or str(self.dataset)
