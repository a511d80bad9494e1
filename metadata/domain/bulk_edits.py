"""Changes that an edit of many rows makes to each of them, and changes that undo a logged one."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from elevata.core.errors import MetadataError

ADD_TAGS, REMOVE_TAGS, OWNER, SENSITIVITY, RETIRE = "add_tags", "remove_tags", "owner", "sensitivity", "retire"
PERSONAL = "pii"
BUSINESS_KEY = "business_key"
# Actions by kind of object.
_DESCRIBE = {ADD_TAGS: "Add tags", REMOVE_TAGS: "Remove tags", OWNER: "Assign owner"}
ACTIONS = {**_DESCRIBE, SENSITIVITY: "Classify", RETIRE: "Retire"}
COLUMN_ACTIONS = {**_DESCRIBE, SENSITIVITY: "Classify", PERSONAL: "Mark as personal data"}
SOURCE_ACTIONS = _DESCRIBE
MOST_ROWS = 500

# Fields that can be set back, by kind of object.
_OWN = frozenset({"name", "tags", "owner", "description", "sensitivity", "active"})
_COLUMN = frozenset({"pii", "type", "nullable", "role", "key_ordinal", "expression", "inputs"})
_FIELDS: Mapping[str, frozenset[str]] = {
    "dataset": _OWN | {"filter"},
    "column": _OWN | _COLUMN,
    "source_dataset": frozenset({"tags", "owner", "description"}),
}
# Fields of a model that can be set back beside its SELECT; its inputs follow from it.
_BESIDE_SELECT = frozenset({"select", "inputs", "increment"})
# Values that the change log leaves out; of other fields it is the empty text.
_EMPTY: Mapping[str, Any] = {
    "tags": [],
    "pii": False,
    "key_ordinal": None,
    "inputs": [],
    "history_policy": {},
    "increment": {},
}
# Fields that follow from ``active`` and from ``name``.
_DERIVED = frozenset({"retired_at", "retired_by", "former_names"})
_ACTIONS = frozenset({"changed", "renamed", "retired", "restored"})
# Fields in which a renamed dataset or column is named.
_NAMING = frozenset({"expression", "filter", "select", "increment", "history_policy", "arguments"})


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
    names = set(fields) - _DERIVED
    if edits_select(kind, action, fields):
        names -= _BESIDE_SELECT - {"select"}
        return names <= _FIELDS[kind] | {"select"}
    return action in _ACTIONS and bool(names) and names <= _FIELDS.get(kind, frozenset())


def edits_select(kind: str, action: str, fields: Collection[str]) -> bool:
    """Return True if a logged change is one of a model's SELECT, from which its inputs and columns follow."""
    return kind == "dataset" and action == "changed" and "select" in fields


def key_before(
    now: Mapping[str, tuple[str, int | None]], logged: Iterable[tuple[str, str, Mapping[str, Mapping[str, Any]]]]
) -> list[str]:
    """Return the names of the key columns of a model before the logged changes of its columns.

    ``now`` has name and position in the key by column, ``logged`` column, action and fields, newest first.
    """
    columns = dict(now)
    for column, action, fields in logged:
        if column not in columns:
            continue
        name, place = columns[column]
        name = fields.get("name", {}).get("before", name)
        place = fields["key_ordinal"].get("before") if "key_ordinal" in fields else place
        was_inactive = "active" in fields and not fields["active"].get("before")
        columns[column] = (name, None if action == "created" or was_inactive else place)
    return [name for name, place in sorted(columns.values(), key=lambda each: each[1] or 0) if place]


def follows_rename(action: str, fields: Collection[str]) -> bool:
    """Return True if the rename of another object, logged beside this change, can have made it."""
    return action == "changed" and set(fields) <= _NAMING


def values_before(logged: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values before a logged change, whose fields have the sides ``before`` and ``after``."""
    return {name: sides.get("before", _EMPTY.get(name, "")) for name, sides in logged.items() if name not in _DERIVED}


def refuse_later_change(logged: Mapping[str, Mapping[str, Any]], now: Mapping[str, Any]) -> None:
    """Raise MetadataError ``changed_since`` if a field has another value than after the logged change."""
    for name, sides in logged.items():
        if name not in _DERIVED and now[name] != sides.get("after", _EMPTY.get(name, "")):
            label = "state" if name == "active" else name.replace("_", " ")
            raise MetadataError("changed_since", f"its {label} was changed again since; change it on its page", name)
