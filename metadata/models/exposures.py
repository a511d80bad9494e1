"""Exposures of target datasets, as rows."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower

from elevata.audit.models import Versioned
from metadata.domain import exposures

KINDS = list(exposures.KINDS.items())


class Exposure(Versioned):
    """Consumer of a dataset: a dashboard, notebook, file or application. ``link`` is an http address or a path."""

    LOG_KIND: ClassVar[str] = "exposure"

    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, related_name="exposures")
    key = models.UUIDField(unique=True, editable=False)
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=KINDS)
    owner = models.CharField(max_length=200)
    link = models.CharField(max_length=1000)
    description = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["dataset", "name"]
        constraints = [
            models.UniqueConstraint(
                "dataset",
                Lower("name"),
                name="exposure_name_once",
                violation_error_message="The dataset has another exposure of this name (case does not part names).",
            ),
            models.CheckConstraint(
                name="exposure_kind_is_known",
                condition=models.Q(kind__in=list(exposures.KINDS)),
                violation_error_message=f"Kinds are {', '.join(exposures.KINDS)}.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset}.{self.name}"

    @property
    def is_web(self) -> bool:
        return exposures.is_web_address(self.link)
