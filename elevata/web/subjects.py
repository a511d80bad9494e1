"""Subjects that users comment on, and further ones that users mark as favourites.

An app registers the function that finds its subjects of a kind (``FINDERS``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from elevata.core.errors import MetadataError
from elevata.core.registry import Registered


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


@dataclass(frozen=True)
class Finder:
    """Function that returns the subject of a kind by its key, and whether subjects of the kind have comments."""

    kind: str
    find: Callable[[UUID], Subject | None]
    comments: bool = False


FINDERS: Registered[Finder] = Registered()


def kinds() -> list[str]:
    """Return the kinds of subjects with comments."""
    return [finder.kind for finder in FINDERS if finder.comments]


def favourite_kinds() -> list[str]:
    """Return the kinds of subjects that users mark as favourites."""
    return [finder.kind for finder in FINDERS]


def subject_of(kind: str, key: UUID) -> Subject:
    """Return the subject of this kind and key. Raise MetadataError ``unknown_subject``."""
    return _subject((finder for finder in FINDERS if finder.comments), kind, key)


def favourite_of(kind: str, key: UUID) -> Subject:
    """Return the subject of this kind and key, with comments or without. Raise MetadataError ``unknown_subject``."""
    return _subject(FINDERS, kind, key)


def _subject(finders: Iterable[Finder], kind: str, key: UUID) -> Subject:
    find = {finder.kind: finder.find for finder in finders}.get(kind)
    subject = find(key) if find else None
    if subject is None:
        raise MetadataError("unknown_subject", f"there is no {kind} with the key {key}", "subject_key")
    return subject
