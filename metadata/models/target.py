"""Target schemas, datasets and columns."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Lower

from elevata.audit.models import Versioned
from metadata.domain.sources import raw_keeping
from metadata.models.base import (
    Classified,
    Described,
    Retirable,
    TypedColumn,
    retirable_constraints,
    typed_column_constraints,
)


class TargetSchema(Versioned, Described):
    """Schema of the warehouse, in one layer."""

    LOG_KIND: ClassVar[str] = "schema"
    LOG_KEY: ClassVar[str] = "name"

    class Layer(models.TextChoices):
        RAW = "raw", "Raw"
        STAGE = "stage", "Stage"
        RAWCORE = "rawcore", "Rawcore"
        BIZCORE = "bizcore", "Bizcore"
        SERVING = "serving", "Serving"

    name = models.CharField(max_length=100, unique=True)
    layer = models.CharField(max_length=10, choices=Layer)
    ordinal = models.PositiveSmallIntegerField(default=0)

    class Meta:
        ordering = ["ordinal", "name"]

    def __str__(self) -> str:
        return self.name


class TargetDataset(Versioned, Described, Classified, Retirable):
    """Desired table or view.

    ``key`` never changes; after a rename, ``former_names`` has the old name, newest last. A history dataset has a row
    for descriptions and lineage, but no columns of its own: they are derived from ``history_of``. ``history_policy``
    is read by ``metadata.domain.history.history_policy``. A dataset with a ``select`` is a model: its columns and
    inputs follow from the SELECT, and ``increment`` selects the rows that a load computes anew
    (``metadata.domain.models``). ``keep`` and its limits apply to raw tables (``metadata.domain.sources.raw_keeping``).
    A ``contract`` of the serving layer promises its columns, key and checks to its exposures.
    """

    LOG_KIND: ClassVar[str] = "dataset"

    class Materialization(models.TextChoices):
        TABLE = "table", "Table"
        VIEW = "view", "View"

    class Keep(models.TextChoices):
        LATEST = raw_keeping.LATEST, "Latest delivery"
        ALL = raw_keeping.ALL, "All deliveries"
        BY_DAY = raw_keeping.BY_DAY, "All deliveries, partitioned by day"

    schema = models.ForeignKey(TargetSchema, on_delete=models.PROTECT, related_name="datasets")
    key = models.UUIDField(unique=True, editable=False)
    name = models.CharField(max_length=200)
    former_names = models.JSONField(default=list, blank=True)
    materialization = models.CharField(max_length=10, choices=Materialization, default=Materialization.TABLE)
    historize = models.BooleanField(default=False)
    history_of = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="history", editable=False
    )
    history_policy = models.JSONField(default=dict, blank=True)
    filter = models.TextField(blank=True, default="", help_text="A condition on the rows, as SQL.")
    select = models.TextField(blank=True, default="", help_text="The SELECT of a model over other datasets, as SQL.")
    increment = models.JSONField(default=dict, blank=True)
    keep = models.CharField(max_length=10, choices=Keep, default=Keep.LATEST)
    keep_days = models.PositiveIntegerField(null=True, blank=True)
    keep_deliveries = models.PositiveIntegerField(null=True, blank=True)
    contract = models.BooleanField(default=False)
    hash_version = models.PositiveSmallIntegerField(default=1, editable=False)
    generated_from = models.ForeignKey(
        "metadata.SourceDataset", on_delete=models.SET_NULL, null=True, blank=True, related_name="generated"
    )

    class Meta:
        ordering = ["schema__ordinal", "schema__name", "name"]
        constraints = [
            models.UniqueConstraint(
                "schema",
                Lower("name"),
                name="target_dataset_name_once",
                violation_error_message="The schema has another dataset of this name (case does not part names).",
            ),
            models.CheckConstraint(
                name="target_dataset_hist_suffix_is_reserved",
                condition=models.Q(history_of__isnull=False, name__iendswith="_hist")
                | (models.Q(history_of__isnull=True) & ~models.Q(name__iendswith="_hist")),
                violation_error_message="The suffix _hist is reserved for history tables.",
            ),
            *retirable_constraints("target_dataset"),
            models.CheckConstraint(
                name="target_dataset_only_tables_have_history",
                condition=models.Q(historize=False) | models.Q(materialization="table", history_of__isnull=True),
                violation_error_message="Only a table that is no history itself can be historized.",
            ),
            models.CheckConstraint(
                name="target_dataset_keep_is_known",
                condition=models.Q(keep__in=list(raw_keeping.MODES)),
                violation_error_message="Keep is latest, all or by_day.",
            ),
            models.CheckConstraint(
                name="target_dataset_only_deliveries_have_limits",
                condition=~models.Q(keep=raw_keeping.LATEST)
                | models.Q(keep_days__isnull=True, keep_deliveries__isnull=True),
                violation_error_message="Only a table that keeps all deliveries limits them.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.schema.name}.{self.name}"

    @property
    def keeping(self) -> raw_keeping.Keeping:
        return raw_keeping.Keeping(self.keep, self.keep_days, self.keep_deliveries)


class TargetColumn(Versioned, Described, Classified, TypedColumn, Retirable):
    """Column of a target dataset. Technical columns are derived and have no row.

    ``expression`` is SQL over the dataset's inputs; if it is empty, the column's only input is used unchanged.
    ``key_ordinal`` is the position in the business key (role ``business_key`` only).
    """

    LOG_KIND: ClassVar[str] = "column"

    class Role(models.TextChoices):
        BUSINESS_KEY = "business_key", "Business key"
        ATTRIBUTE = "attribute", "Attribute"
        TECHNICAL = "technical", "Technical"

    dataset = models.ForeignKey(TargetDataset, on_delete=models.CASCADE, related_name="columns")
    key = models.UUIDField(unique=True, editable=False)
    name = models.CharField(max_length=200)
    former_names = models.JSONField(default=list, blank=True)
    ordinal = models.PositiveIntegerField()
    role = models.CharField(max_length=20, choices=Role, default=Role.ATTRIBUTE)
    key_ordinal = models.PositiveSmallIntegerField(null=True, blank=True)
    expression = models.TextField(blank=True, default="")
    pii = models.BooleanField(default=False)

    class Meta:
        ordering = ["dataset", "ordinal", "id"]
        constraints = [
            models.UniqueConstraint(
                "dataset",
                Lower("name"),
                name="target_column_name_once",
                violation_error_message="The dataset has another column of this name (case does not part names).",
            ),
            models.UniqueConstraint(
                fields=["dataset", "key_ordinal"],
                condition=models.Q(key_ordinal__isnull=False, active=True),
                name="target_column_key_ordinal_once",
                violation_error_message="Another column has this place in the business key.",
            ),
            models.CheckConstraint(
                name="target_column_key_ordinal_means_business_key",
                violation_error_message="A business key column, and no other, has a place in the business key.",
                condition=models.Q(role="business_key", key_ordinal__isnull=False)
                | (~models.Q(role="business_key") & models.Q(key_ordinal__isnull=True)),
            ),
            *retirable_constraints("target_column"),
            *typed_column_constraints("target_column"),
        ]

    def __str__(self) -> str:
        return f"{self.dataset}.{self.name}"
