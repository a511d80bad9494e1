"""Subjects that users comment on, and further ones that users mark as favourites.

An app names the function that finds its subjects in the setting ``SUBJECTS``, or ``FAVOURITES`` for those without
comments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from elevata.core.errors import MetadataError


@dataclass(frozen=True)
class Subject:
    """Subject, by kind and key.

    ``name`` is the object of a sentence, ``comments`` the address of its comments, empty if it has none.
    """

    kind: str
    key: UUID
    name: str
    page: str
    comments: str = ""


def kinds() -> list[str]:
    """Return the kinds of subjects with comments."""
    return list(settings.SUBJECTS)


def favourite_kinds() -> list[str]:
    """Return the kinds of subjects that users mark as favourites."""
    return [*settings.SUBJECTS, *settings.FAVOURITES]


def subject_of(kind: str, key: UUID) -> Subject:
    """Return the subject of this kind and key. Raise MetadataError ``unknown_subject``."""
    return _found(settings.SUBJECTS, kind, key)


def favourite_of(kind: str, key: UUID) -> Subject:
    """Return the subject of this kind and key, with comments or without. Raise MetadataError ``unknown_subject``."""
    return _found({**settings.SUBJECTS, **settings.FAVOURITES}, kind, key)


def _found(finders: Mapping[str, str], kind: str, key: UUID) -> Subject:
    find = finders.get(kind)
    subject = import_string(find)(key) if find else None
    if subject is None:
        raise MetadataError("unknown_subject", f"there is no {kind} with the key {key}", "subject_key")
    return subject
