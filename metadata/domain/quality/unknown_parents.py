"""Rules for foreign keys whose parent is unknown: the key is in the child's rows, and the parent has no row of it."""

from collections.abc import Collection
from dataclasses import dataclass

from metadata.domain.history.history_policy import DELTA, LOAD_TIME, SNAPSHOT, HistoryPolicy

KEEP, NULL, GHOST, REFUSE, QUARANTINE = "keep", "null", "ghost", "refuse", "quarantine"
RULES = {
    KEEP: "Keep the key",
    NULL: "NULL until the parent arrives",
    GHOST: "Ghost row in the parent",
    REFUSE: "Refuse the load",
    QUARANTINE: "Quarantine the row",
}
HELP = {
    KEEP: "The foreign key is stored, and nothing is looked up or counted.",
    NULL: "The foreign key is NULL until a later load of the child finds the parent.",
    GHOST: "The parent's load adds a row with the key and no other values, which the real row later changes.",
    REFUSE: "The child's load is refused while the parent does not have the key.",
    QUARANTINE: "The child's row is kept aside until it is delivered again with a known parent, released or dropped.",
}


@dataclass(frozen=True)
class End:
    """One end of a reference: name, history policy, and ``is_loaded`` if loads write its rawcore table."""

    name: str
    policy: HistoryPolicy
    is_loaded: bool

    @property
    def is_dated_by_load(self) -> bool:
        """Return True if the dataset takes snapshots or deltas whose rows have no time of their own."""
        return self.is_loaded and self.policy.input in (SNAPSHOT, DELTA) and self.policy.time == LOAD_TIME


def rule_problem(rule: str, child: End, parent: End, *, required: Collection[str] = ()) -> str:
    """Return the reason why a reference cannot have this rule; empty if it can.

    ``required`` are the parent's attributes that may not be NULL.
    """
    if rule == KEEP:
        return ""
    if child.name == parent.name:
        return f"{child.name} refers to itself, and the rule needs a parent that is loaded before"
    ends = (child, parent) if rule == GHOST else (child,)
    unsuitable = next((end.name for end in ends if not end.is_dated_by_load), "")
    if unsuitable:
        return f"{unsuitable} must be a rawcore table that takes snapshots or deltas dated by the load"
    if not parent.is_loaded:
        return f"{parent.name} must be a rawcore table, because a load looks the key up in it"
    if rule == NULL and child.policy.track is not None and child.policy.untracked == "keep":
        return f"the history policy of {child.name} keeps untracked columns, and the key is filled in place"
    if rule == QUARANTINE and child.policy.delete_flag is not None:
        return f"rows of {child.name} flag deletes, and a row that is kept aside deletes nothing"
    if rule == GHOST and required:
        return f"a ghost row has no values, and {parent.name}.{min(required)} may not be NULL"
    return ""
