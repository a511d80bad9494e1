"""What a dataset's run counted beyond the columns that every list has, and how people read it."""

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
    """Name, words and number of each such count that is not zero."""
    return [(name, said, counts[name]) for name, said in FURTHER.items() if counts.get(name)]
