"""Datasets and sources as subjects of comments and favourites."""

from uuid import UUID

from django.urls import reverse

from elevata.web.subjects import Subject
from metadata.models import SourceDataset, TargetDataset


def dataset_subject(key: UUID) -> Subject | None:
    """Return the dataset with this key as a subject; None if there is none."""
    dataset = TargetDataset.objects.select_related("schema").filter(key=key).first()
    if dataset is None:
        return None
    page, comments = (reverse(route, args=[key]) for route in ("dataset_page", "dataset_comments"))
    return Subject("dataset", key, f"the dataset {dataset}", page, comments)


def source_subject(key: UUID) -> Subject | None:
    """Return the source dataset with this key as a subject; None if there is none."""
    source = SourceDataset.objects.select_related("system").filter(key=key).first()
    if source is None:
        return None
    return Subject("source", key, f"the source {source}", reverse("source_page", args=[key]))
