"""Form of a history: the parts of its policy on which every stored version depends.

They are the time that dates versions, the value of an open end, tombstones for deletes, the state labels and the
profile. Histories of two forms cannot share a table. All other parts of a policy may change while versions exist.
"""

from collections.abc import Mapping

from metadata.domain.history.history_policy import BATCH_FILES, LOAD_TIME, TOMBSTONE, HistoryPolicy

DATED_BY = "dated_by"
_BY_LOAD, _BY_FILES = "the load", "batch files"
# Labels of the parts of a form.
_SAID = {
    DATED_BY: "what dates its versions (time, input)",
    "tombstones": "whether a delete leaves a tombstone (deletes)",
    "open_end": "what stands at an open end (open_end)",
    "labels": "what states are called (state_labels)",
    "profile": "which columns its versions have (profile)",
}
# Remedies for a changed form.
WAY_OUT = "Set the history policy back, or give the data a dataset of its own, whose history starts anew."


def form_of(policy: HistoryPolicy, keys: Mapping[str, str]) -> dict[str, object]:
    """Return the form that the policy gives versions.

    ``keys`` maps the names of columns to their identities; other columns are identified by name.
    """
    if policy.input == BATCH_FILES:
        dated_by = _BY_FILES
    elif policy.time == LOAD_TIME:
        dated_by = _BY_LOAD
    else:
        dated_by = keys.get(policy.time, policy.time)
    return {
        DATED_BY: dated_by,
        "tombstones": policy.deletes == TOMBSTONE,
        "open_end": policy.open_end,
        "labels": dict(policy.state_labels),
        "profile": policy.profile,
    }


def form_differences(before: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """Return descriptions of the parts in which two forms differ; parts missing in ``before`` are not compared."""
    return tuple(label for part, label in _SAID.items() if part in before and before[part] != now[part])
