"""Subjects that users comment on and mark as favourites: reports, datasets.

An app names the function that finds its subjects in the setting ``SUBJECTS``.
"""

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from elevata.core.errors import MetadataError


@dataclass(frozen=True)
class Subject:
    """Subject, by kind and key. ``name`` is the object of a sentence, ``comments`` the address of its comments."""

    kind: str
    key: UUID
    name: str
    page: str
    comments: str


def kinds() -> list[str]:
    """Return the kinds of subjects."""
    return list(settings.SUBJECTS)


def subject_of(kind: str, key: UUID) -> Subject:
    """Return the subject of this kind and key. Raise MetadataError ``unknown_subject``."""
    find = settings.SUBJECTS.get(kind)
    subject = import_string(find)(key) if find else None
    if subject is None:
        raise MetadataError("unknown_subject", f"there is no {kind} with the key {key}", "subject_key")
    return subject
