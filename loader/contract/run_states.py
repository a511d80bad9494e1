"""Kinds, states and counts of load runs."""

from collections.abc import Mapping

from elevata.jobs.states import CANCELED, FAILED, QUEUED, RUNNING, SUCCEEDED

SKIPPED = "skipped"

DATASET_STEPS: Mapping[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, SKIPPED, CANCELED, FAILED, SUCCEEDED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, SKIPPED, CANCELED}),
    SUCCEEDED: frozenset({QUEUED}),
    FAILED: frozenset({QUEUED}),
    SKIPPED: frozenset({QUEUED}),
    CANCELED: frozenset({QUEUED}),
}


def unfinished_becomes(end: str) -> dict[str, str]:
    """Return the states that running and queued datasets get when their run ends in state ``end``."""
    of_running = CANCELED if end == CANCELED else FAILED
    return {RUNNING: of_running, QUEUED: CANCELED}


# Kinds of load runs. ``LoadRun.details["asked"]`` has, by kind:
# history_batch: files (paths by kind of file), format, compression, reading, copied (a dataset); revert: run_id of the
# run to revert; prune: ended_before, archive; vacuum: retention_hours, dry_run; quarantine_decision: decision, entries,
# of_run; copy: check, verify; compact and accept: nothing.


LOAD, HISTORY_BATCH, REVERT, PRUNE, COMPACT = "load", "history_batch", "revert", "prune", "compact"
ACCEPT, VACUUM, QUARANTINE_DECISION, COPY = "accept", "vacuum", "quarantine_decision", "copy"
# Kinds that only an identified user may request; their work is sealed in a record.
MAINTENANCE = (HISTORY_BATCH, REVERT, PRUNE, ACCEPT, VACUUM, QUARANTINE_DECISION)
# Kinds by which one user could rewrite tables or histories, so that others approve them by the environment's policy.
APPROVED = (REVERT, PRUNE, ACCEPT, QUARANTINE_DECISION)
# Kinds that change files, or rows outside the tables, but no rows of the tables; of a raw table a vacuum also removes
# whole deliveries.
OF_FILES = (COMPACT, VACUUM, QUARANTINE_DECISION, COPY)
# Kinds that other runs request, on behalf of nobody.
AUTOMATIC = (COMPACT, COPY)
# Kinds that add rows: later runs must be dated later (rule 3), and the runs can be reverted.
BRINGING = (LOAD, HISTORY_BATCH)
# Decisions on quarantined rows.
RELEASE, DROP = DECISIONS = "release", "drop"
# Codes of refusals after which a table can be accepted.
ACCEPTABLE = ("TABLE_BEHIND", "EVENT_LOG_CHANGED", "sequence_behind_table")


# Counts of a dataset's run besides those in every list, with their labels.


# Of the counts of a change feed, N is ``unchanged``, which every list shows, and X is ``missing``.
FURTHER = {
    "absent": "deleted, absent from the key list or read window",
    "keys": "keys in the key list",
    "repeated_keys": "keys that the key list repeats",
    "missing": "not delivered, left as they were (X)",
    "files": "files read",
    "quarantined": "quarantined",
    "released": "released from quarantine",
    "dropped": "dropped from quarantine",
    "unknown_parents": "with an unknown parent",
    "ghosts": "ghost rows",
    "superseded": "superseded by another row of their key",
    "empty_records": "records without any value, left out",
    "skipped_deletes": "deletes skipped",
    "late": "late, put where they belong",
    "late_ignored": "late, ignored",
    "beyond_horizon": "late beyond the horizon, turned away",
    "unknown_ignored": "of unknown keys, ignored",
    "removed": "versions removed",
    "forgotten": "events forgotten",
    "files_removed": "files removed",
    "bytes_removed": "bytes removed",
    "files_removable": "files that can be removed",
    "bytes_removable": "bytes that can be removed",
    "deliveries_removed": "deliveries removed",
    "deliveries_removable": "deliveries that can be removed",
}


def further_counts(counts: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Return name, label and number of each of these counts that is not zero."""
    return [(name, label, counts[name]) for name, label in FURTHER.items() if counts.get(name)]
