"""Abstract base models of metadata."""

from django.db import models

from metadata.domain.sensitivity import CONFIDENTIAL, INTERNAL, PUBLIC, RESTRICTED
from metadata.domain.types import NAMES, DataType


class Described(models.Model):
    """Description, owner and tags of an object; planning and loads ignore them."""

    description = models.TextField(blank=True, default="")
    owner = models.CharField(max_length=200, blank=True, default="")
    tags = models.JSONField(default=list, blank=True, help_text="A list of words.")

    class Meta:
        abstract = True


class Classified(models.Model):
    """Classification of an object; empty if unclassified."""

    class Sensitivity(models.TextChoices):
        PUBLIC = PUBLIC, "Public"
        INTERNAL = INTERNAL, "Internal"
        CONFIDENTIAL = CONFIDENTIAL, "Confidential"
        RESTRICTED = RESTRICTED, "Restricted"

    sensitivity = models.CharField(max_length=20, choices=Sensitivity, blank=True, default="")

    class Meta:
        abstract = True


class TypedColumn(models.Model):
    """Data type of a column, independent of its spelling in databases.

    ``data_type`` is one of the names in ``metadata.domain.types``; ``length`` goes with string, ``precision`` and
    ``scale`` with decimal.
    """

    data_type = models.CharField(max_length=20)
    length = models.PositiveIntegerField(null=True, blank=True)
    precision = models.PositiveSmallIntegerField(null=True, blank=True)
    scale = models.PositiveSmallIntegerField(null=True, blank=True)
    nullable = models.BooleanField(default=True)

    class Meta:
        abstract = True

    @property
    def type(self) -> DataType:
        """Return the type as one value; assigning to it sets the four fields."""
        return DataType(self.data_type, self.length, self.precision, self.scale)

    @type.setter
    def type(self, data_type: DataType) -> None:
        self.data_type = data_type.name
        self.length = data_type.length
        self.precision = data_type.precision
        self.scale = data_type.scale


class Retirable(models.Model):
    """Object that can be retired and is never deleted while lineage, history or users may refer to it.

    ``retired_by`` distinguishes objects that generation retired, because their source was removed, from those that
    a user retired: only the former become active again with their source.
    """

    class RetiredBy(models.TextChoices):
        GENERATION = "generation", "Generation"
        PERSON = "person", "A person"

    active = models.BooleanField(default=True)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    retired_by = models.CharField(max_length=20, choices=RetiredBy, blank=True, default="", editable=False)

    class Meta:
        abstract = True


def retirable_constraints(prefix: str) -> list[models.CheckConstraint]:
    q = models.Q
    return [
        models.CheckConstraint(
            name=f"{prefix}_retired_means_inactive",
            condition=q(active=True, retired_at__isnull=True, retired_by="")
            | q(active=False, retired_at__isnull=False, retired_by__in=["generation", "person"]),
            violation_error_message="Only a retired, inactive object records when and by whom it was retired.",
        )
    ]


def typed_column_constraints(prefix: str) -> list[models.CheckConstraint]:
    """Return the constraints of a data type: a known name; length on string, precision and scale on decimal only."""
    q = models.Q
    return [
        models.CheckConstraint(
            name=f"{prefix}_data_type_is_known",
            condition=q(data_type__in=NAMES),
            violation_error_message=f"A type is one of {', '.join(NAMES)}.",
        ),
        models.CheckConstraint(
            name=f"{prefix}_length_only_on_string",
            condition=q(length__isnull=True) | q(data_type="string", length__gte=1),
            violation_error_message="Only string has a length, and it is at least 1.",
        ),
        models.CheckConstraint(
            name=f"{prefix}_precision_and_scale_on_decimal",
            condition=(~q(data_type="decimal") & q(precision__isnull=True, scale__isnull=True))
            | q(
                data_type="decimal",
                # NULL is excluded explicitly, because a check constraint that evaluates to NULL passes.
                precision__isnull=False,
                scale__isnull=False,
                precision__gte=1,
                precision__lte=38,
                scale__gte=0,
                scale__lte=models.F("precision"),
            ),
            violation_error_message="decimal needs precision 1 to 38 and a scale up to it; other types have neither.",
        ),
    ]
