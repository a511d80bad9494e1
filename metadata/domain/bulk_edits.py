"""Changes that an edit of many rows makes to each of them, and changes that undo a logged one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from elevata.core.errors import MetadataError

ADD_TAGS, REMOVE_TAGS, OWNER, SENSITIVITY, RETIRE = "add_tags", "remove_tags", "owner", "sensitivity", "retire"
ACTIONS = {
    ADD_TAGS: "Add tags",
    REMOVE_TAGS: "Remove tags",
    OWNER: "Assign owner",
    SENSITIVITY: "Classify",
    RETIRE: "Retire",
}
MOST_ROWS = 500

# Fields that can be set back, with the value that the change log leaves out.
_EMPTY: Mapping[str, Any] = {"tags": [], "owner": "", "description": "", "sensitivity": "", "pii": False}
# Fields that follow from ``active``.
_OF_RETIREMENT = frozenset({"retired_at", "retired_by"})
_KINDS = frozenset({"dataset", "column"})
_ACTIONS = frozenset({"changed", "retired", "restored"})


def changes_of(action: str, value: Any, *, tags: Sequence[str]) -> dict[str, Any]:
    """Return the new values of a row with these tags."""
    if action == ADD_TAGS:
        return {"tags": [*tags, *(tag for tag in value if tag not in tags)]}
    if action == REMOVE_TAGS:
        return {"tags": [tag for tag in tags if tag not in value]}
    if action == RETIRE:
        return {"active": False}
    return {action: value}


def can_undo(kind: str, action: str, fields: Collection[str]) -> bool:
    """Return True if a logged change set only fields that can be set back."""
    names = set(fields) - _OF_RETIREMENT
    return kind in _KINDS and action in _ACTIONS and bool(names) and names <= {*_EMPTY, "active"}


def undo_of(logged: Mapping[str, Mapping[str, Any]], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values before a logged change.

    ``logged`` are the fields of the entry, with their sides ``before`` and ``after``, ``now`` the current values.
    Raise MetadataError ``changed_since`` if a field has another value than after the change.
    """
    values: dict[str, Any] = {}
    for name, sides in logged.items():
        if name in _OF_RETIREMENT:
            continue
        empty = _EMPTY.get(name)
        if now[name] != sides.get("after", empty):
            label = "state" if name == "active" else name
            raise MetadataError("changed_since", f"its {label} was changed again since", name)
        values[name] = sides.get("before", empty)
    return values
