"""Sensitivity classification of tables and columns; empty if unclassified."""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from elevata.core.errors import MetadataError

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = "public", "internal", "confidential", "restricted"
# From the least to the most restrictive.
LEVELS = (PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED)
# Values of these levels are masked for readers without the permission to see them.
SENSITIVE = (CONFIDENTIAL, RESTRICTED)
# Texts shown instead of a sensitive value (also for NULL), and instead of one that changed.
MASK, MASK_CHANGED = "\u2022\u2022\u2022", "\u2022\u2022\u2022 (changed)"

_Key = TypeVar("_Key")


def is_mask(value: str | None) -> bool:
    """Return True if the value is the mask of a sensitive value."""
    return value in (MASK, MASK_CHANGED)


def is_sensitive(*, personal: bool, level: str, of_dataset: str = "") -> bool:
    """Return True if the column is personal, or if its level is confidential or restricted.

    A column without a level has that of its dataset.
    """
    return personal or (level or of_dataset) in SENSITIVE


def propagate_sensitivity(sensitive: Iterable[_Key], reads: Mapping[_Key, Collection[_Key]]) -> frozenset[_Key]:
    """Return the sensitive columns and all columns that read one of them, directly or indirectly."""
    readers: dict[_Key, list[_Key]] = {}
    for reader, inputs in reads.items():
        for one in inputs:
            readers.setdefault(one, []).append(reader)
    found = set(sensitive)
    pending = list(found)
    while pending:
        fresh = [reader for reader in readers.get(pending.pop(), ()) if reader not in found]
        found.update(fresh)
        pending += fresh
    return frozenset(found)


def parse_level(text: str) -> str:
    """Return the level that ``text`` names, in any case; empty for an empty text.

    Raises MetadataError for any other word.
    """
    word = text.strip().lower()
    if word and word not in LEVELS:
        message = f"must be {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, or empty, not {text.strip()[:100]!r}"
        raise MetadataError("invalid", message, "sensitivity")
    return word
