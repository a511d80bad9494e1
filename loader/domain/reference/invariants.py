"""Invariants of every history, for any input (rules 14, 15 and 21).

``loader.engine.historization.invariants`` checks the same on stored tables; these functions take the rows of
``ReferenceEngine.rows``.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any

from loader.domain.historization.history import CHANGED, DELETED, NEW
from loader.domain.reference.batch import key_text
from loader.domain.reference.timeline import LIVE, Fold
from loader.domain.reference.values import canonical
from metadata.domain.history.history_policy import BATCH_FILES, HistoryPolicy

_VERSION_FIELDS = ("valid_from", "valid_to", "state", "active", "opened_by", "closed_by")

Row = Mapping[str, Any]


def violations(
    rows: Iterable[Row],
    policy: HistoryPolicy,
    keys: Collection[str],
    attributes: Collection[str] | None = None,
    former: Iterable[HistoryPolicy] = (),
) -> list[str]:
    """Return the broken invariants, as sentences with the key and the time.

    ``attributes`` are the data columns; by default all but the version's own fields. ``former`` are the former
    policies: versions may differ in what was tracked then.
    """
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    messages: list[str] = []
    for row in rows:
        if any(row[name] is None for name in keys):
            messages.append(f"a version that starts at {row['valid_from']} has no key")
        elif row["valid_from"] is None:
            messages.append(f"{_key_name(row, keys)} has a version without a start")
        else:
            by_key.setdefault(key_text({name: row[name] for name in keys}), []).append(row)
    fold = Fold(policy, tuple(keys), tuple(former))
    for versions in by_key.values():
        versions.sort(
            key=lambda row: (row["valid_from"], row["valid_to"] is None, row["valid_to"] or row["valid_from"])
        )
        name = _key_name(versions[0], keys)
        if policy.input == BATCH_FILES:
            messages += _file_violations(name, versions)
        else:
            compared = [column for column in attributes or versions[0] if column not in _VERSION_FIELDS or attributes]
            messages += _interval_violations(name, versions)
            for earlier, later in pairwise(versions):
                messages += _neighbour_violations(name, earlier, later, fold, compared)
            if "state" not in (attributes or ()):  # else a data column of that name hides it
                messages += _state_violations(name, versions, fold)
    return messages


def _key_name(row: Row, keys: Collection[str]) -> str:
    return ", ".join(f"{name}={row[name]}" for name in keys)


def _file_violations(name: str, versions: list[Row]) -> list[str]:
    """Return violations by batch files, which are stored as delivered (rule 21): one version per key and start."""
    return [
        f"{name} has two versions that start at {earlier['valid_from']}"
        for earlier, later in pairwise(versions)
        if earlier["valid_from"] == later["valid_from"]
    ]


def _interval_violations(name: str, versions: list[Row]) -> list[str]:
    messages = [
        f"{name} has a version from {row['valid_from']} that ends at {row['valid_to']}: it is empty"
        for row in versions
        if row["valid_to"] is not None and row["valid_to"] <= row["valid_from"]
    ]
    if sum(row["valid_to"] is None for row in versions) > 1:
        messages.append(f"{name} has more than one open version")
    return messages


def _neighbour_violations(name: str, earlier: Row, later: Row, fold: Fold, columns: Iterable[str]) -> list[str]:
    start = later["valid_from"]
    if earlier["valid_to"] is None or earlier["valid_to"] > start:
        return [f"{name} overlaps at {start}"]
    if earlier["valid_to"] < start:
        return []
    differ = any(
        fold.was_tracked(column) and canonical(earlier[column]) != canonical(later[column]) for column in columns
    )
    if fold.tombstones:
        differ = differ or earlier["state"] != later["state"]
    return [] if differ or fold.may_repeat(columns) else [f"{name} repeats its value at {start}"]


def _state_violations(name: str, versions: list[Row], fold: Fold) -> list[str]:
    """Return violations of rules 14 and 15: a version's state must match how it opened or closed."""
    messages = []
    for earlier, row, later in zip([None, *versions], versions, [*versions[1:], None], strict=False):
        follows = earlier is not None and earlier["valid_to"] == row["valid_from"]
        followed = later is not None and later["valid_from"] == row["valid_to"]
        if fold.tombstones:
            was_live = earlier is not None and earlier["state"] == LIVE
            wanted = _tombstone_states(row, follows and was_live, followed)
        elif row["valid_to"] is None:
            wanted = (CHANGED,) if follows else (NEW,)
        else:
            wanted = (CHANGED,) if followed else (DELETED,)
        if row["state"] not in wanted:
            expected = " or ".join(wanted) or "something else"
            messages.append(f"{name} from {row['valid_from']} is {row['state']!r}, and should be {expected}")
    return messages


def _tombstone_states(row: Row, follows_live: bool, followed: bool) -> tuple[str, ...]:
    """Return the permitted states. A tombstone must follow a live version; every ended version has a successor."""
    if row["valid_to"] is not None and not followed:
        return ()
    return (LIVE, DELETED) if follows_live else (LIVE,)
