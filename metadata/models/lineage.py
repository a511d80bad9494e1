"""Lineage and references of target data, as rows."""

from typing import TYPE_CHECKING

from django.db import models

from elevata.audit.models import Versioned
from metadata.domain.quality import unknown_parents

if TYPE_CHECKING:
    from metadata.models.source import SourceColumn, SourceDataset
    from metadata.models.target import TargetColumn, TargetDataset

UNKNOWN_PARENTS = list(unknown_parents.RULES.items())


class DatasetInput(Versioned):
    """Input of a target dataset: either a source dataset or another target dataset."""

    dataset = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, related_name="inputs")
    source = models.ForeignKey(
        "metadata.SourceDataset", on_delete=models.PROTECT, null=True, blank=True, related_name="feeds"
    )
    upstream = models.ForeignKey(
        "metadata.TargetDataset", on_delete=models.PROTECT, null=True, blank=True, related_name="feeds"
    )
    ordinal = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ["dataset", "ordinal", "id"]
        constraints = [
            models.CheckConstraint(
                name="dataset_input_from_exactly_one_place",
                violation_error_message="An input is a source dataset or a target dataset.",
                condition=models.Q(source__isnull=False, upstream__isnull=True)
                | models.Q(source__isnull=True, upstream__isnull=False),
            ),
            models.CheckConstraint(
                name="dataset_input_not_from_itself",
                condition=~models.Q(upstream=models.F("dataset")),
                violation_error_message="A dataset cannot read itself.",
            ),
            models.UniqueConstraint(
                fields=["dataset", "source"],
                name="dataset_input_source_once",
                violation_error_message="The dataset reads this source already.",
            ),
            models.UniqueConstraint(
                fields=["dataset", "upstream"],
                name="dataset_input_upstream_once",
                violation_error_message="The dataset reads this dataset already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.dataset} ← {self.source or self.upstream}"

    @property
    def read_dataset(self) -> "SourceDataset | TargetDataset":
        """Return the dataset that is read."""
        dataset = self.source or self.upstream
        assert dataset is not None  # by a CHECK of the table
        return dataset


class ColumnInput(Versioned):
    """Input of a target column: a column of one of its dataset's inputs."""

    column = models.ForeignKey("metadata.TargetColumn", on_delete=models.CASCADE, related_name="inputs")
    dataset_input = models.ForeignKey(DatasetInput, on_delete=models.CASCADE, related_name="column_inputs")
    source_column = models.ForeignKey(
        "metadata.SourceColumn", on_delete=models.PROTECT, null=True, blank=True, related_name="feeds"
    )
    upstream_column = models.ForeignKey(
        "metadata.TargetColumn", on_delete=models.PROTECT, null=True, blank=True, related_name="feeds"
    )
    ordinal = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ["column", "ordinal", "id"]
        constraints = [
            models.CheckConstraint(
                name="column_input_from_exactly_one_place",
                violation_error_message="An input is a source column or a target column.",
                condition=models.Q(source_column__isnull=False, upstream_column__isnull=True)
                | models.Q(source_column__isnull=True, upstream_column__isnull=False),
            ),
            models.CheckConstraint(
                name="column_input_not_from_itself",
                condition=~models.Q(upstream_column=models.F("column")),
                violation_error_message="A column cannot read itself.",
            ),
            models.UniqueConstraint(
                fields=["column", "source_column"],
                name="column_input_source_once",
                violation_error_message="The column reads this source column already.",
            ),
            models.UniqueConstraint(
                fields=["column", "upstream_column"],
                name="column_input_upstream_once",
                violation_error_message="The column reads this column already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.column} ← {self.source_column or self.upstream_column}"

    @property
    def read_column(self) -> "SourceColumn | TargetColumn":
        """Return the column that is read."""
        column = self.source_column or self.upstream_column
        assert column is not None  # by a CHECK of the table
        return column


class Reference(Versioned):
    """Reference of the rows of ``child`` to rows of ``parent``.

    The foreign-key column follows from it: ``<role_name>_key`` in the child, or the name of the parent's key column
    without a role name. Its value is the parent's entity key, hashed from the child's columns, so loading it needs
    no look-up unless ``unknown_parent`` has another rule than ``keep``.
    """

    child = models.ForeignKey("metadata.TargetDataset", on_delete=models.CASCADE, related_name="references")
    parent = models.ForeignKey("metadata.TargetDataset", on_delete=models.PROTECT, related_name="referenced_by")
    key = models.UUIDField(unique=True, editable=False)
    role_name = models.CharField(max_length=100, blank=True, default="")
    unknown_parent = models.CharField(max_length=10, choices=UNKNOWN_PARENTS, default=unknown_parents.KEEP)
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["child", "parent", "role_name"]
        constraints = [
            models.UniqueConstraint(
                fields=["child", "parent", "role_name"],
                name="reference_once",
                violation_error_message="The same reference with the same role exists.",
            ),
            models.CheckConstraint(
                name="reference_unknown_parent_known",
                condition=models.Q(unknown_parent__in=list(unknown_parents.RULES)),
                violation_error_message=f"Rules for unknown parents are {', '.join(unknown_parents.RULES)}.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.child} → {self.parent}" + (f" ({self.role_name})" if self.role_name else "")


class ReferencePair(Versioned):
    """Column of the child with the value of a business-key column of the parent."""

    reference = models.ForeignKey(Reference, on_delete=models.CASCADE, related_name="pairs")
    child_column = models.ForeignKey("metadata.TargetColumn", on_delete=models.PROTECT, related_name="+")
    parent_column = models.ForeignKey("metadata.TargetColumn", on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["reference", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["reference", "parent_column"],
                name="reference_pair_parent_once",
                violation_error_message="A business key column is paired once.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.child_column} = {self.parent_column}"
