"""Counts of a batch: changes of keys, and opened, closed and removed versions."""

from collections.abc import Collection, Mapping
from typing import Any

from loader.domain.historization.history import (
    CHANGED,
    DELETED,
    NEW,
    REAPPEARED,
    UNCHANGED,
)
from loader.domain.reference.batch import KeyText
from loader.domain.reference.batch_files import FileKey
from loader.domain.reference.timeline import Fold, KeyLog

OPENED, CLOSED, REMOVED = "opened", "closed", "removed"


def count_logs(
    before: Mapping[KeyText, KeyLog], after: Mapping[KeyText, KeyLog], fold: Fold, delivered: Collection[KeyText]
) -> dict[str, int]:
    """Return the counts over the delivered keys and those closed by absence."""
    counts = dict.fromkeys((NEW, CHANGED, DELETED, REAPPEARED, UNCHANGED, OPENED, CLOSED, REMOVED), 0)
    for key, log in after.items():
        old = before.get(key) or KeyLog(log.key)
        if old is log and key not in delivered:
            continue
        versions, earlier = fold.versions(log), fold.versions(old)
        _count_versions(
            counts,
            {v.valid_from: v.is_open for v in earlier},
            {v.valid_from: v.is_open for v in versions},
        )
        was_live, is_live = fold.is_live(old), fold.is_live(log)
        if fold.same(old, log):
            counts[UNCHANGED] += 1
        elif not earlier:
            counts[NEW] += 1
        elif was_live and not is_live:
            counts[DELETED] += 1
        elif is_live and not was_live:
            counts[REAPPEARED] += 1
        else:
            counts[CHANGED] += 1
    return counts


def count_files(
    before: Mapping[KeyText, FileKey], after: Mapping[KeyText, FileKey], changed: Collection[KeyText]
) -> dict[str, int]:
    """Return counts of versions only: batch files do not define the change of a key."""
    counts = dict.fromkeys((OPENED, CLOSED, REMOVED), 0)
    for key in changed:
        old, new = (file_key.versions if file_key else () for file_key in (before.get(key), after.get(key)))
        _count_versions(counts, {v.start: v.active for v in old}, {v.start: v.active for v in new})
    return counts


def _count_versions(counts: dict[str, int], before: Mapping[Any, bool], after: Mapping[Any, bool]) -> None:
    """Add to the counts. Both sides map the start of each version to True if it is open."""
    counts[OPENED] += len(after.keys() - before.keys())
    counts[REMOVED] += len(before.keys() - after.keys())
    counts[CLOSED] += sum(is_open and not after[start] for start, is_open in before.items() if start in after)
