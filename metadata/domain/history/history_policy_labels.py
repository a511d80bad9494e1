"""Choices of a history policy, and the fields that apply to them.

``history_policy`` decides on valid combinations. This module has only what a form needs before a policy
exists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metadata.domain.history.history_policy import (
    APPEND,
    AS_OF,
    BATCH_FILES,
    CDC,
    CHANGES,
    CLOSE,
    COLUMN,
    CURRENT,
    DBT,
    DELTA,
    EFFECTIVE,
    ELEVATA,
    FIVETRAN,
    HIGH_END_DATE,
    IGNORE,
    KEY_LIST,
    LOAD_TIME,
    NONE,
    OPERATIONS,
    ROW,
    SCD2,
    SNAPSHOT,
    STATES,
    TOMBSTONE,
    WINDOW,
    HistoryPolicy,
)

# Choices that depend on the input.
BY_INPUT = ""


@dataclass(frozen=True)
class Choice:
    """Value of a policy field, with its label and a one-sentence explanation."""

    value: str
    label: str
    explanation: str


CHOICES: Mapping[str, tuple[Choice, ...]] = {
    "input": (
        Choice(SNAPSHOT, "Full snapshots", "A delivery is everything there is: a key that it lacks is gone."),
        Choice(DELTA, "Deltas", "A delivery holds what is new or changed: a key that it lacks stays as it was."),
        Choice(EFFECTIVE, "Rows with a time of their own", "Each row says from when it holds, in whatever order."),
        Choice(CDC, "Change feed", "Each row says what was done to a key: I, U or D, in an order of its own."),
        Choice(BATCH_FILES, "History batch files", "Four files say versions outright and are kept as they say it."),
        Choice(APPEND, "Rows to add", "Every row is added to those of the runs before, with or without a key."),
    ),
    "absent_keys": (
        Choice("nothing", "Mean nothing", "A key that a delivery lacks stays as it was."),
        Choice("deleted", "Were deleted", "A key that a delivery lacks was deleted when the load ran."),
    ),
    "delete_detection": (
        Choice(NONE, "None", "Rows that are deleted in the source stay open, unless a column flags them."),
        Choice(
            KEY_LIST, "By key list", "A load also reads all keys of the source, and closes keys that are not there."
        ),
        Choice(WINDOW, "In the read window", "A key whose value lies in the read window was deleted if it is absent."),
    ),
    "deletes": (
        Choice(BY_INPUT, "As the input has it", "Close where the input can tell what is gone, else ignore."),
        Choice(CLOSE, "Close", "The version ends, and nothing follows until the key comes back."),
        Choice(IGNORE, "Ignore", "The version stays open, as if the key were still there."),
        Choice(TOMBSTONE, "Tombstone", "The version ends, and one with its last values says that the key is deleted."),
    ),
    "late": (
        Choice("split", "Put where they belong", "The version in force at their time is split."),
        Choice("refuse", "Refuse", "One late row refuses the whole delivery."),
        Choice("ignore", "Leave out", "Late rows are counted, and change nothing."),
    ),
    "untracked": (
        Choice("update_in_place", "Update in place", "They are written into the version in force, without a new one."),
        Choice("keep", "Keep", "They stay as they were when the version opened."),
    ),
    "rank_by": (
        Choice(ROW, "Whole row", "The row of the best source is used, with its missing values."),
        Choice(COLUMN, "Per column", "A value that the best source lacks is taken from the next source that has one."),
    ),
    "profile": (
        Choice(BY_INPUT, "As the input has it", "Batch files bring Fivetran's columns; all others get elevata's."),
        Choice(ELEVATA, "elevata", "version_started_at, version_ended_at, version_state."),
        Choice(FIVETRAN, "Fivetran", "_fivetran_start, _fivetran_end, _fivetran_active; an open end is a high date."),
        Choice(DBT, "dbt snapshots", "dbt_valid_from, dbt_valid_to, dbt_updated_at, dbt_scd_id."),
        Choice(SCD2, "SCD 2", "__valid_from, __valid_to, __is_current."),
    ),
    "views": (
        Choice(CURRENT, "What holds now", "The open live versions; reads nothing else."),
        Choice(AS_OF, "What held when", "A view of half-open intervals, and a function that asks it for one moment."),
        Choice(CHANGES, "Changes", "Inserts, updates and deletes, each with the run that brought it."),
        Choice(OPERATIONS, "Last operations", "The last operation of each key, also unchanged and not delivered."),
        Choice(HIGH_END_DATE, "High end date", "The whole history, with a high date where an end is NULL."),
    ),
}


@dataclass(frozen=True)
class Chosen:
    """Current choices that other fields depend on.

    ``numbered``: the time column has numbers; ``tracks``: only some columns are tracked; ``ranks``: sources are ranked;
    ``flagged``: a column flags deletes; ``historize``: a history is kept; ``detects``: delete detection is on.
    """

    input: str = SNAPSHOT
    absent_keys: str = "nothing"
    time: str = LOAD_TIME
    numbered: bool = False
    tracks: bool = False
    ranks: bool = False
    flagged: bool = False
    historize: bool = True
    detects: bool = False


_ABSENT = {
    SNAPSHOT: "A full snapshot is everything there is: a key that it lacks is gone.",
    DELTA: "A delta says nothing of the keys that it lacks.",
    CDC: "A change feed says itself what is deleted.",
    BATCH_FILES: "Batch files say themselves when a version ends.",
}
_ONLY_ADDED = "Rows are only added; nothing that is there changes."
_NO_VERSIONS = "Without a history there are no versions."
# Fields that shape versions; an upsert of dated rows refuses them.
_OF_VERSIONS = ("untracked", "open_end", "profile", "views", "state_labels")


_NO_FLAG = {**_ABSENT, SNAPSHOT: "Of a full snapshot, an absent key is deleted."}


def not_applying(chosen: Chosen) -> dict[str, str]:
    """Return the fields that have no effect with these choices, each with the reason."""
    if chosen.input == APPEND:
        return dict.fromkeys(
            ("historize", *(n for n in HistoryPolicy.__dataclass_fields__ if n != "input")), _ONLY_ADDED
        )
    files = chosen.input == BATCH_FILES
    reasons = {
        "op": "" if chosen.input == CDC else "Only a change feed says what was done to a row.",
        "delete_flag": "" if chosen.input in (DELTA, EFFECTIVE) else _NO_FLAG[chosen.input],
        "absent_keys": _ABSENT.get(chosen.input, ""),
        "delete_detection": _no_detection(chosen),
        "deletes": _no_deletes(chosen),
        "track": "Batch files say themselves what a version is." if files else "",
        "untracked": _no_untracked(chosen),
        "profile": "Batch files bring Fivetran's columns." if files else "",
    }
    reasons |= _no_late(chosen) | _no_rank(chosen)
    if files:
        reasons["open_end"] = "Batch files say themselves what stands at an open end."
    else:
        reasons["open_end"] = "Versions are dated by numbers, so no date can stand there." if chosen.numbered else ""
        reasons |= dict.fromkeys(("null_string", "unmodified_string"), "Only batch files have it.")
    if not chosen.historize and chosen.time != LOAD_TIME and chosen.input in (DELTA, EFFECTIVE, CDC):
        reasons |= dict.fromkeys(_OF_VERSIONS, _NO_VERSIONS)
    return {name: why for name, why in reasons.items() if why}


def _no_detection(chosen: Chosen) -> str:
    if chosen.input == EFFECTIVE:
        return "Delete detection goes with deltas only."
    if chosen.input != DELTA:
        return _NO_FLAG[chosen.input]
    return "" if chosen.time == LOAD_TIME else "Delete detection needs rows that the load dates."


def _no_deletes(chosen: Chosen) -> str:
    if chosen.input == BATCH_FILES:
        return "Batch files say themselves when a version ends."
    if chosen.flagged or (chosen.detects and not _no_detection(chosen)):
        return ""
    if chosen.input == DELTA:
        return (
            "Deletes can only be ignored: a delta says nothing of the keys that it lacks, no column flags them, and "
            "delete detection is off."
        )
    if chosen.input == EFFECTIVE and chosen.absent_keys == "nothing":
        return "Deletes can only be ignored: absent keys mean nothing, and rows do not say deletes."
    return ""


def _no_untracked(chosen: Chosen) -> str:
    if chosen.input == BATCH_FILES:
        return "Batch files say themselves what a version is."
    return "" if chosen.tracks else "Every column opens a version, so no column is left over."


def _no_rank(chosen: Chosen) -> dict[str, str]:
    is_complete = chosen.input == SNAPSHOT and chosen.time == LOAD_TIME
    reason = "" if is_complete else "Only full snapshots that are dated by the load show which sources have a key."
    return {"rank": reason, "rank_by": reason or ("" if chosen.ranks else "No sources are ranked.")}


def _no_late(chosen: Chosen) -> dict[str, str]:
    why = ""
    if chosen.input == BATCH_FILES:
        why = "Batch files say themselves how far back they go."
    elif chosen.time == LOAD_TIME:
        why = "Rows that are dated by the load are never late."
    horizon = why or ("Versions are dated by numbers, which have no days." if chosen.numbered else "")
    return {"late": why, "late_horizon": horizon}


def described_policy(values: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the policy dict of a form's values; empty values are left out.

    ``labels`` maps states to the team's labels.
    """
    known = HistoryPolicy.__dataclass_fields__
    policy = {name: value for name, value in values.items() if name in known and value not in (None, "", [], ())}
    state_labels = {word: labels[word] for word in STATES if labels.get(word)}
    return policy | ({"state_labels": state_labels} if state_labels else {})
