"""Load types: the name of what a load does to a dataset, derived from its history policy and its history.

No load type is stored. The policy's input and the choice to keep a history determine it. Pages and the API take names
and sentences from here.
"""

from dataclasses import dataclass

from metadata.domain.history.history_policy import APPEND, SNAPSHOT, HistoryPolicy

FULL, UPSERT, SCD2 = "full", "upsert", "scd2"


@dataclass(frozen=True)
class LoadType:
    """Load type, with a sentence that explains it."""

    name: str
    label: str
    meaning: str


LOAD_TYPES = {
    entry.name: entry
    for entry in (
        LoadType(FULL, "Full", "Each delivery is everything there is: the table becomes what it holds."),
        LoadType(APPEND, "Append", "Rows are only added, with or without a business key."),
        LoadType(UPSERT, "Upsert", "New and changed rows replace those of their keys; earlier values are not kept."),
        LoadType(
            SCD2,
            "SCD 2",
            "Every version of a row is kept in a history; the delivery type determines when a version begins and ends.",
        ),
    )
}


def load_type(policy: HistoryPolicy, *, historize: bool) -> LoadType:
    """Return the load type of a dataset with this policy, historized or not."""
    if historize:
        return LOAD_TYPES[SCD2]
    return LOAD_TYPES[{SNAPSHOT: FULL, APPEND: APPEND}.get(policy.input, UPSERT)]
