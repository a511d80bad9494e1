"""Edits of many datasets and columns: previewed by row, written in one transaction, and undone as one.

A preview makes the edits and rolls them back, so it finds the reasons that the edits themselves would find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import FieldChange, field_change
from elevata.audit.services.change_log import writing
from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from metadata.domain.bulk_edits import MOST_ROWS, RETIRE, can_undo, changes_of, undo_of
from metadata.models import DatasetInput, TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column, update_target_dataset
from metadata.services.lifecycle import retire_column, retire_dataset, unretire_column, unretire_dataset
from metadata.services.rows.row_changes import changed_rows, must_stay_classified

Row = TargetDataset | TargetColumn

_SERVICES: Mapping[type[Row], tuple[str, Callable[..., Row], Callable[..., Row], Callable[..., Row]]] = {
    TargetDataset: ("dataset", update_target_dataset, retire_dataset, unretire_dataset),
    TargetColumn: ("column", update_target_column, retire_column, unretire_column),
}
_OWN_FIELDS = ("tags", "owner", "description", "sensitivity", "pii", "active")


@dataclass(frozen=True)
class RowEdit:
    """Edit of one row in the version that the user saw, or the reason why it cannot be made.

    ``row`` is None for a row that does not exist any more.
    """

    name: str
    row: Row | None = None
    version: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    problem: MetadataError | None = None

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """Return the changed fields, before and after."""
        before = {name: getattr(self.row, name) for name in self.changes}
        return tuple(field_change(name, before[name], value) for name, value in self.changes.items())

    @property
    def reason(self) -> str:
        return as_sentence(self.problem.message) if self.problem is not None else ""

    def refused(self, problem: MetadataError) -> RowEdit:
        return RowEdit(self.name, self.row, self.version, self.changes, problem)


class EditsRefused(MetadataError):
    """Error of a bulk edit in which a row cannot be changed; nothing was written."""

    def __init__(self, edits: Collection[RowEdit]) -> None:
        problems = [edit.problem for edit in edits if edit.problem is not None]
        codes = {problem.code for problem in problems}
        names = ", ".join(edit.name for edit in edits if edit.problem is not None)
        message = "cannot be changed as previewed; nothing was changed"
        super().__init__(codes.pop() if len(codes) == 1 else "bad_rows", message, where=names)
        self.edits = tuple(edits)


def edits_of(rows: Iterable[Row], action: str, value: Any, versions: Mapping[UUID, int] | None = None) -> list[RowEdit]:
    """Return the edits of an action (``metadata.domain.bulk_edits``); ``versions`` default to the current ones."""
    edits = []
    for row in rows:
        wanted = changes_of(action, value, tags=row.tags)
        changes = {name: value for name, value in wanted.items() if getattr(row, name) != value}
        problem = None if changes else MetadataError("no_change", "nothing changes")
        if action == RETIRE and isinstance(row, TargetDataset) and row.history_of_id is not None:
            problem = MetadataError("invalid", "a history is retired with its base dataset")
        version = row.version if versions is None else versions[row.key]
        edits.append(RowEdit(str(row), row, version, changes, problem))
    return edits


def preview_edits(edits: Collection[RowEdit]) -> list[RowEdit]:
    """Return the edits with the reason of each that would be refused now; nothing is written."""
    with writing():
        _lock(edits)
        result = _attempt_all(edits)
        transaction.set_rollback(True)
    return result


def apply_edits(edits: Collection[RowEdit], reason: str = "") -> ChangeLogEntry | None:
    """Make all edits or none, and return an entry of them. Raise EditsRefused with the reason by row.

    Inside another unit of work, which writes the entries, it returns None.
    """
    with writing(reason) as unit:
        _lock(edits)
        result = _attempt_all(edits)
        if any(edit.problem for edit in result):
            raise EditsRefused(result)
    return unit.entry


def _lock(edits: Collection[RowEdit]) -> None:
    """Lock the datasets in the same order in all bulk edits and previews, to avoid deadlocks.

    Raise MetadataError ``too_many`` for more than MOST_ROWS edits.
    """
    if len(edits) > MOST_ROWS:
        raise MetadataError("too_many", f"at most {MOST_ROWS} rows are changed at once, not {len(edits)}")
    rows = [edit.row for edit in edits if edit.row is not None]
    pks = {row.dataset_id if isinstance(row, TargetColumn) else row.pk for row in rows}
    list(TargetDataset.objects.select_for_update().filter(pk__in=pks).order_by("pk").values_list("pk"))


def _attempt_all(edits: Iterable[RowEdit]) -> list[RowEdit]:
    """Return the edits, made where possible; an edit that needs others of them is tried again after those."""
    wanted = list(edits)
    result = [_attempt(edit) for edit in wanted]
    refused = [place for place, edit in enumerate(result) if edit.problem is not None]
    while refused:
        for place in refused:
            result[place] = _attempt(wanted[place])
        left = [place for place in refused if result[place].problem is not None]
        if len(left) == len(refused):
            break
        refused = left
    return result


def _attempt(edit: RowEdit) -> RowEdit:
    if edit.problem is not None or edit.row is None:
        return edit
    try:
        with writing(), changed_rows() as tracker:
            _write(edit.row, edit.version, dict(edit.changes))
            images = tracker.before.get(type(edit.row), {})
            if edit.row.pk in images:  # of this row alone: the rows before it have passed
                must_stay_classified({type(edit.row): {edit.row.pk: images[edit.row.pk]}})
    except StaleVersion as stale:
        return edit.refused(MetadataError(stale.code, "was changed by another user since the preview", stale.field))
    except MetadataError as problem:
        return edit.refused(problem)
    return edit


def _write(row: Row, version: int, changes: dict[str, Any]) -> None:
    name, update, retire, restore = _SERVICES[type(row)]
    active = changes.pop("active", None)
    if changes:
        version = update(**{name: row}, expected_version=version, **changes).version
    if active is not None:
        (restore if active else retire)(**{name: row}, expected_version=version)


def reader_counts(rows: Iterable[TargetDataset]) -> dict[int, int]:
    """Return the number of active datasets that read each of these, by primary key; none are left out."""
    links = DatasetInput.objects.filter(upstream__in=[row.pk for row in rows], dataset__active=True)
    counts: dict[int, int] = {}
    for pk in links.order_by().values_list("upstream", flat=True):
        counts[pk] = counts.get(pk, 0) + 1
    return counts


# Undo: the changes of one unit of work, from its entries in the change log.


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

    A row that was changed again since, or in another way than a bulk edit changes it, has the reason as its problem.
    """
    wanted = None if versions is None else {str(key) for key in versions}
    entries = [row for row in reversed(unit_of(entry)) if wanted is None or row.subject_key in wanted]
    rows = _rows_of(entries)
    bases = {row.pk for row in rows.values() if isinstance(row, TargetDataset)}
    edits = []
    for each in entries:
        row = rows.get(each.subject_key)
        if getattr(row, "history_of_id", None) in bases and each.action != ChangeLogEntry.Action.CHANGED:
            continue  # is retired and restored with its base
        edits.append(_undo_edit(each, row, versions))
    return edits


def _rows_of(entries: Iterable[ChangeLogEntry]) -> dict[str, Row]:
    keys: dict[str, list[str]] = {"dataset": [], "column": []}
    for entry in entries:
        if entry.subject_kind in keys:
            keys[entry.subject_kind].append(entry.subject_key)
    datasets = TargetDataset.objects.select_related("schema").filter(key__in=keys["dataset"])
    columns = TargetColumn.objects.select_related("dataset__schema").filter(key__in=keys["column"])
    return {str(row.key): row for row in (*datasets, *columns)}


def _undo_edit(entry: ChangeLogEntry, row: Row | None, versions: Mapping[UUID, int] | None) -> RowEdit:
    logged = json.loads(entry.changes)
    problem = None
    if not is_undoable(entry):
        problem = MetadataError("no_undo", "this change can only be undone on the page of its object")
    elif row is None:
        problem = MetadataError("gone", "does not exist any more")
    if problem is not None or row is None:
        return RowEdit(entry.subject_name, None, problem=problem)
    version = row.version if versions is None else versions[row.key]
    try:
        changes = undo_of(logged, {name: getattr(row, name, None) for name in _OWN_FIELDS})
    except MetadataError as since:
        return RowEdit(str(row), row, version, problem=since)
    return RowEdit(str(row), row, version, changes)


def is_undoable(entry: ChangeLogEntry) -> bool:
    """Return True if an entry's change can be undone with the others of its unit of work."""
    return can_undo(entry.subject_kind, entry.action, json.loads(entry.changes))
