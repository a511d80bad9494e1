"""Counts of a dataset's run beyond those that every list shows, with their labels."""

from collections.abc import Mapping

# N of a change feed is ``unchanged``, which lists show; X is ``missing``.
FURTHER = {
    "missing": "not delivered, left as they were (X)",
    "files": "files read",
    "skipped_deletes": "deletes skipped",
    "late": "late, put where they belong",
    "late_ignored": "late, ignored",
    "beyond_horizon": "late beyond the horizon, turned away",
    "unknown_ignored": "of unknown keys, ignored",
    "removed": "versions removed",
    "forgotten": "events forgotten",
}


def further_counts(counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Return name, label and number of each of these counts that is not zero."""
    return [(name, said, counts[name]) for name, said in FURTHER.items() if counts.get(name)]
