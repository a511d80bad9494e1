"""Copies of the datasets of a lineage, with their last results."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from elevata.core.registry import Provided
from metadata.models import DatasetCopy
from metadata.selectors.dataset_lineage import Lineage


class CopyResult(Protocol):
    """Copy with the state and label of its last result, as pages show them."""

    @property
    def copy(self) -> DatasetCopy: ...
    @property
    def status(self) -> str: ...
    @property
    def label(self) -> str: ...


# The app that makes copies provides their last results.
COPY_RESULTS: Provided[Callable[[Iterable[DatasetCopy]], Sequence[CopyResult]]] = Provided("COPY_RESULTS")


def copies_of(lineage: Lineage) -> Sequence[CopyResult]:
    """Return the copies of the dataset of a lineage, and of those downstream of it."""
    pks = [node.pk for node in lineage.nodes if node.kind != "source" and node.distance >= 0]
    rows = DatasetCopy.objects.filter(dataset__id__among=pks).select_related("dataset__schema", "system")
    return COPY_RESULTS.get()(rows.order_by("pk"))
