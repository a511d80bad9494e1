"""Changes of keys by one run, as a page shows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from architecture.domain.tables import TableSpec
from loader.domain.queries.query_results import Cell, cell

INSERTED, UPDATED, DELETED, CAME_BACK = "I", "U", "D", "R"
OPERATIONS = {INSERTED: "inserted", UPDATED: "updated", DELETED: "deleted", CAME_BACK: "came back"}


@dataclass(frozen=True)
class ChangedField:
    """Field of a changed row; ``changed`` if there are both versions and they differ."""

    name: str
    before: Cell
    after: Cell
    changed: bool = False


@dataclass(frozen=True)
class KeyChange:
    """Change of one key by a run. ``fields`` are the displayed ones: of an update, those that changed.

    ``versions`` is the number of versions of the key that the run wrote or ended.
    """

    op: str
    entity_key: str
    key: tuple[tuple[str, Cell], ...]
    fields: tuple[ChangedField, ...]
    versions: int

    @property
    def label(self) -> str:
        return OPERATIONS[self.op]


def key_changes(answer: Mapping[str, Any], table: TableSpec) -> tuple[KeyChange, ...]:
    """Return the changes in an answer of kind ``changes``, in order."""
    purpose = {column.name: column.purpose for column in table.columns}
    return tuple(_key_change(change, list(answer["columns"]), purpose) for change in answer["changes"])


def _key_change(change: Mapping[str, Any], columns: list[str], purpose: Mapping[str, str]) -> KeyChange:
    before = dict(zip(columns, change["before"], strict=True)) if change["before"] is not None else None
    after = dict(zip(columns, change["after"], strict=True)) if change["after"] is not None else None
    present = after or before or {}
    key = tuple((name, cell(present[name])) for name in columns if purpose.get(name) == "business_key")
    fields = []
    for name in columns:
        if purpose.get(name) not in (None, "attribute", "foreign_key"):
            continue
        old, new = (before or {}).get(name), (after or {}).get(name)
        differs = before is not None and after is not None and old != new
        if change["op"] != UPDATED or differs:
            fields.append(ChangedField(name, cell(old), cell(new), differs))
    return KeyChange(change["op"], change["key"], key, tuple(fields), change["versions"])
