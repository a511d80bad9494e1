"""Copies of the datasets of a lineage, with their last results."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from django.urls import reverse

from elevata.core.registry import Provided
from metadata.models import DatasetCopy, TargetDataset
from metadata.selectors.dataset_lineage import Lineage


def copies_page(row: TargetDataset | DatasetCopy) -> str:
    """Return the address of a dataset's copies; of a copy, of its line there."""
    if isinstance(row, DatasetCopy):
        return f"{copies_page(row.dataset)}#copy-{row.key}"
    return reverse("dataset_copies", args=[row.key])


class CopyResult(Protocol):
    """Copy with its address, and the state and label of its last result, as pages show them."""

    @property
    def copy(self) -> DatasetCopy: ...
    @property
    def page(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def label(self) -> str: ...


# The app that makes copies provides their last results.
COPY_RESULTS: Provided[Callable[[Iterable[DatasetCopy]], Sequence[CopyResult]]] = Provided("COPY_RESULTS")


def copies_of(lineage: Lineage) -> Sequence[CopyResult]:
    """Return the copies of the dataset of a lineage, and of those downstream of it."""
    rows = DatasetCopy.objects.filter(dataset__id__among=lineage.downstream_pks)
    return COPY_RESULTS.get()(rows.select_related("dataset__schema", "system").order_by("pk"))
