"""Datasets as subjects of comments."""

from uuid import UUID

from django.urls import reverse

from elevata.comments.subjects import Subject
from metadata.models import TargetDataset


def dataset_subject(key: UUID) -> Subject | None:
    """Return the dataset with this key as a subject of comments; None if there is none."""
    dataset = TargetDataset.objects.select_related("schema").filter(key=key).first()
    page = reverse("dataset_comments", args=[key])
    return Subject("dataset", key, f"the dataset {dataset}", page) if dataset is not None else None
