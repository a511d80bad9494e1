"""Undo of a bulk edit: the changes of one unit of work, from its entries in the change log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from metadata.domain.bulk_edits import (
    BUSINESS_KEY,
    MOST_ROWS,
    can_undo,
    edits_select,
    follows_rename,
    key_before,
    refuse_later_change,
    values_before,
)
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.services.bulk_edits import Row, RowEdit, field_value


def unit_of(entry: ChangeLogEntry) -> list[ChangeLogEntry]:
    """Return the entries of the unit of work that wrote an entry, oldest first.

    Raise MetadataError ``too_many`` if they are more than a bulk edit changes.
    """
    same = {"at": entry.at, "actor": entry.actor, "request_id": entry.request_id}
    rows = list(ChangeLogEntry.objects.filter(**same).order_by("pk")[: 2 * MOST_ROWS + 1])
    if len(rows) > 2 * MOST_ROWS:  # a retired dataset has an entry for its history, too
        raise MetadataError("too_many", f"at most {2 * MOST_ROWS} changes, of {MOST_ROWS} rows, are undone at once")
    return rows


def undo_edits(entry: ChangeLogEntry, versions: Mapping[UUID, int] | None = None) -> list[RowEdit]:
    """Return the edits that undo the unit of work of an entry, newest first; ``versions`` limit them to these rows.

    A row that was changed again since, or in a way that cannot be undone, has the reason as its problem. Renames come
    first, because expressions that name the renamed object follow them.
    """
    wanted = None if versions is None else {str(key) for key in versions}
    unit = list(reversed(unit_of(entry)))
    entries = [row for row in unit if wanted is None or row.subject_key in wanted]
    rows = _rows_of(entries)
    bases = {row.pk for row in rows.values() if isinstance(row, TargetDataset)}
    has_rename = any(each.action == ChangeLogEntry.Action.RENAMED for each in entries)
    follows_select = not has_rename and any(_edits_select(each) for each in unit)
    edits = []
    for each in entries:
        row = rows.get(each.subject_key)
        if follows_select and _is_of_model(row) and not _edits_select(each):
            continue  # follows from a SELECT
        if getattr(row, "history_of_id", None) in bases and each.action != ChangeLogEntry.Action.CHANGED:
            continue  # is renamed, retired and restored with its base
        if has_rename and follows_rename(each.action, json.loads(each.changes)):
            edits += _follower_edits(each, row, versions)
        else:
            edit = _undo_edit(each, row, versions)
            edits.append(_with_key(edit, unit) if follows_select and _edits_select(each) else edit)
    return sorted(edits, key=lambda edit: "name" not in edit.changes)


def _edits_select(entry: ChangeLogEntry) -> bool:
    return edits_select(entry.subject_kind, entry.action, json.loads(entry.changes))


def _is_of_model(row: Row | None) -> bool:
    """Return True for a model and for a column of one."""
    return bool(getattr(row.dataset if isinstance(row, TargetColumn) else row, "select", ""))


def _with_key(edit: RowEdit, unit: Iterable[ChangeLogEntry]) -> RowEdit:
    """Return the edit of a model's SELECT with the business key before the unit of work, if it was another."""
    if edit.problem is not None or edit.row is None:
        return edit
    assert not isinstance(edit.row, TargetColumn)
    touched = {entry.subject_key for entry in unit}
    columns = {
        str(column.key): (column.name, column.key_ordinal if column.active or str(column.key) in touched else None)
        for column in edit.row.columns.all()
    }
    logged = [(entry.subject_key, entry.action, json.loads(entry.changes)) for entry in unit]
    key = key_before(columns, logged)
    return (
        edit
        if key == field_value(edit.row, BUSINESS_KEY)
        else replace(edit, changes={**edit.changes, BUSINESS_KEY: key})
    )


def _rows_of(entries: Iterable[ChangeLogEntry]) -> dict[str, Row]:
    keys: dict[str, list[str]] = {"dataset": [], "column": [], "source_dataset": []}
    for entry in entries:
        if entry.subject_kind in keys:
            keys[entry.subject_kind].append(entry.subject_key)
    datasets = TargetDataset.objects.select_related("schema").filter(key__in=keys["dataset"])
    columns = TargetColumn.objects.select_related("dataset__schema").filter(key__in=keys["column"])
    sources = SourceDataset.objects.select_related("system").filter(key__in=keys["source_dataset"])
    return {str(row.key): row for row in (*datasets, *columns, *(sources if keys["source_dataset"] else ()))}


def _undo_edit(entry: ChangeLogEntry, row: Row | None, versions: Mapping[UUID, int] | None) -> RowEdit:
    if not is_undoable(entry):
        problem = MetadataError("no_undo", "this change can only be undone on the page of its object")
        return RowEdit(entry.subject_name, problem=problem)
    if row is None:
        return RowEdit(entry.subject_name, problem=MetadataError("gone", "does not exist any more"))
    return _edit_back(entry, row, versions)


def _follower_edits(entry: ChangeLogEntry, row: Row | None, versions: Mapping[UUID, int] | None) -> list[RowEdit]:
    """Return the edit that restores the text of an expression that followed a rename.

    There is none for a text that was edited since: it follows the undo of the rename. So do checks and columns of
    models.
    """
    if row is None or (isinstance(row, TargetColumn) and row.dataset.select):
        return []
    edit = _edit_back(entry, row, versions)
    return [edit] if edit.problem is None else []


def _edit_back(entry: ChangeLogEntry, row: Row, versions: Mapping[UUID, int] | None) -> RowEdit:
    """Return the edit of a row to the values before a logged change; its problem is a later change."""
    logged = json.loads(entry.changes)
    if _edits_select(entry):
        logged.pop("inputs", None)  # follow from the SELECT
    edit = RowEdit(str(row), row, row.version if versions is None else versions[row.key], undoes=True)
    try:
        refuse_later_change(logged, {name: field_value(row, name) for name in logged})
    except MetadataError as since:
        return edit.refused(since)
    return replace(edit, changes=values_before(logged))


def is_undoable(entry: ChangeLogEntry) -> bool:
    """Return True if an entry's change can be undone with the others of its unit of work."""
    return can_undo(entry.subject_kind, entry.action, json.loads(entry.changes))


def undoable_entry(entry: ChangeLogEntry, key: UUID | None) -> ChangeLogEntry | None:
    """Return the entry of a unit of work that can be undone: the given first one, or that of the renamed object."""
    if is_undoable(entry):
        return entry
    if not follows_rename(entry.action, json.loads(entry.changes)):
        return None
    same = {"at": entry.at, "actor": entry.actor, "request_id": entry.request_id}
    own = ChangeLogEntry.objects.filter(**same, subject_key=str(key)).first()
    return own if own is not None and is_undoable(own) else None
