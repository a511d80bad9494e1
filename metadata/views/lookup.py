"""Objects by address, or 404; and the page to return to."""

from uuid import UUID

from django.shortcuts import get_object_or_404
from django.urls import reverse

from metadata.computed_fields import headed
from metadata.grid import column_of
from metadata.models import Reference, TargetColumn, TargetDataset


def dataset_here(key: UUID) -> TargetDataset:
    """The dataset of an address, with what the head of its pages shows."""
    return get_object_or_404(headed(), key=key)


def column_here(key: UUID) -> TargetColumn:
    """The column of an address, with its dataset and what it reads."""
    return get_object_or_404(column_of(key))


def reference_here(key: UUID) -> Reference:
    """The reference of an address, with the datasets at its ends."""
    return get_object_or_404(Reference.objects.select_related("child__schema", "parent__schema"), key=key)


def page_of(row: TargetDataset | TargetColumn | Reference) -> str:
    """A dataset's page; of a column, or of a reference of a dataset, its line there."""
    if isinstance(row, TargetDataset):
        return reverse("dataset_page", args=[row.key])
    if isinstance(row, Reference):
        return f"{page_of(row.child)}#reference-{row.key}"
    return f"{page_of(row.dataset)}#column-{row.key}"
